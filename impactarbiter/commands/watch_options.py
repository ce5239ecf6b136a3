"""Options of the commands that watch: what to watch, and where to report."""

from __future__ import annotations

from typing import Any

from ..base.convert import choice, filename, whole
from ..base.units import parse_bytes
from ..model.words import SEVERITIES
from .options import Option

#: Those of ``impactarbiter.watch()``.
WATCH = {
    "--every": Option(whole(1)),
    "--warmup": Option(whole(0)),
    "--window": Option(whole(2)),
    "--step": Option(choice("auto", "manual")),
    "--allow": Option(str, many=True),
    "--obfuscate": Option(),
    "--no-numpy": Option(),
    "--memory-limit": Option(parse_bytes),
}
REPORT = {
    "--json": Option(filename),
    "--html": Option(filename),
    "--timeline": Option(filename),
    "--sarif": Option(filename),
    "--flame": Option(filename),
    "--perfetto": Option(filename),
    "--csv": Option(filename),
    "--fail-on": Option(choice(*SEVERITIES)),
}


def keywords_of(given: dict[str, Any]) -> dict[str, Any]:
    """The watch options among what was given, as ``watch()`` takes them."""
    keywords = {
        name.lstrip("-").replace("-", "_"): given[name]
        for name in WATCH
        if name in given
    }
    if keywords.pop("no_numpy", False):
        keywords["numpy"] = False
    return keywords


def words_of(given: dict[str, Any]) -> list[str]:
    """The watch options among what was given, as words again."""
    words = []
    for name in WATCH:
        value = given.get(name)
        if value is True:
            words.append(name)
        elif value is not None:
            many = value if isinstance(value, list) else [value]
            words += [f"{name}={one}" for one in many]
    return words
