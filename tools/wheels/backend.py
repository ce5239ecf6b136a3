"""Builds the package, or takes a wheel that was built for this very torch.

A wheel's tags know Python and the platform, not torch, whose C++ classes
change between releases.  So each wheel has the torch that it was built for as
its build tag, ``impactarbiter-0.2.0-2130cpu-cp311-cp311-linux_x86_64.whl``,
and this, the build backend of the source distribution, picks the one that fits
the environment from the folder or the address in IMPACTARBITER_WHEELS, or
builds where there is none.  Like a build, it needs --no-build-isolation, as
torch must be importable.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

ROOT = Path(__file__).resolve().parents[2]
#: Seconds to wait for an address that does not answer.
TIMEOUT = 30.0
#: 2.28, which torch's own wheels need.
OLDEST_GLIBC = 28


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The name of the wheel that was put into a folder."""
    tag = build_tag()
    places = os.environ.get("IMPACTARBITER_WHEELS", "")
    if places and tag:
        found = take(places, names(tag), Path(wheel_directory))
        if found is not None:
            return found
        print(f"impactarbiter: no wheel for {tag} in {places}: building one")
    settings = dict(config_settings or {})
    if tag:
        options = settings.get("--build-option") or []
        options = [options] if isinstance(options, str) else list(options)
        settings["--build-option"] = [*options, f"--build-number={tag}"]
    made: str = build_meta.build_wheel(
        wheel_directory, settings, metadata_directory
    )
    return made


def build_tag() -> str | None:
    """``2130cpu`` for torch 2.13.0 without CUDA, or where setup.py is to leave
    that out; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    release = str(torch.__version__).partition("+")[0].replace(".", "")
    left_out = os.environ.get("IMPACTARBITER_CUDA", "") in ("0", "no", "off")
    cuda = None if left_out else torch.version.cuda
    return release + (f"cu{cuda.replace('.', '')}" if cuda else "cpu")


def names(tag: str) -> list[str]:
    """Names of the wheels that fit here, the most portable first."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    machine = sysconfig.get_platform().partition("-")[2]
    libc, version = platform.libc_ver()
    newest = int(version.split(".")[1]) if libc == "glibc" else 0
    systems = [f"manylinux_2_{n}" for n in range(OLDEST_GLIBC, newest + 1)]
    return [
        f"impactarbiter-{package_version()}-{tag}-{python}-{python}"
        f"-{system}_{machine}.whl"
        for system in [*systems, "linux"]
    ]


def package_version() -> str:
    """As pyproject.toml has it: from the package's text."""
    text = (ROOT / "impactarbiter" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("impactarbiter: no version in __init__.py")
    return found[1]


def take(places: str, wanted: list[str], folder: Path) -> str | None:
    """Copies the first of these that is there; None where none is."""
    for name in wanted:
        if "://" in places:
            done = fetch(f"{places.rstrip('/')}/{name}", folder / name)
        else:
            done = copy(Path(places) / name, folder / name)
        if done:
            print(f"impactarbiter: taking {name} from {places}")
            return name
    return None


def copy(source: Path, target: Path) -> bool:
    """Whether it was there."""
    if not source.is_file():
        return False
    shutil.copyfile(source, target)
    return True


def fetch(address: str, target: Path) -> bool:
    """Whether it was there; an address that cannot be asked has nothing."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            data = answer.read()
    except (urllib.error.URLError, OSError) as error:
        print(f"impactarbiter: {address}: {error}")
        return False
    target.write_bytes(data)
    return True
