"""Pages: one file each, nothing loaded from outside, readable without script.

Jinja2 belongs to the extra `report`: whoever has not installed it has the
same words as text, and may render the page from the JSON elsewhere.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import itertools
import os
from pathlib import Path as File
from typing import Any

from ..base.errors import MissingExtraError
from ..base.files import write_atomic
from ..base.text import clean
from ..model.report import Report
from .page_view import view_of

_TEMPLATES = File(__file__).with_name("templates")
#: Several reports in one notebook must not share the ids of their parts.
_fragments = itertools.count(1)


def write_html(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes the page atomically; ReportError where it can't."""
    write_page(report_page(report), path)


def write_page(page: str, path: str | os.PathLike[str]) -> None:
    """Writes what one of these functions has made."""
    write_atomic(path, page.encode("utf-8", "backslashreplace"))


def report_page(report: Report) -> str:
    """A whole page; MissingExtraError without jinja2."""
    return page_of("report.html.j2", view_of(report))


def report_fragment(report: Report) -> str:
    """For a notebook; without jinja2 the text report in ``<pre>``."""
    try:
        return fragment_of("report.html.j2", view_of(report))
    except MissingExtraError:
        return f"<pre>{html.escape(str(report))}</pre>"


def page_of(part: str, view: Any) -> str:
    """A whole page of a template and what it is given as ``view``.

    ``view.title`` is the page's.  MissingExtraError without jinja2.
    """
    return render("page.html.j2", part=part, view=view, ids="")


def fragment_of(part: str, view: Any) -> str:
    """The same for a notebook, in a ``<main>`` of its own, without script."""
    ids = f"ia{next(_fragments)}-"
    return render("fragment.html.j2", part=part, view=view, ids=ids)


def render(template: str, **values: Any) -> str:
    """What a template makes of these; MissingExtraError without jinja2."""
    return str(_environment().get_template(template).render(values))


@functools.cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("jinja2", "the HTML page", "report") from None
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every text goes through clean, then through the escaping.
        finalize=_finalized,
    )
    environment.filters["percent"] = lambda value: f"{value:.2f}%"
    environment.filters["ticks"] = _with_code
    script = _text_of("copy.js")
    digest = hashlib.sha256(script.encode()).digest()
    environment.globals.update(
        style=Markup(_text_of("style.css")),
        script=Markup(script),
        script_hash="sha256-" + base64.b64encode(digest).decode(),
        arrow="\N{LEFTWARDS ARROW}",
        up="\N{BLACK UP-POINTING TRIANGLE}",
    )
    return environment


def _text_of(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _with_code(text: str) -> Any:
    """Escaped, and what stands between backticks as code."""
    from markupsafe import Markup, escape

    pieces = (escape(clean(piece)) for piece in text.split("`"))
    shown = [
        Markup("<code>{}</code>").format(piece) if i % 2 else piece
        for i, piece in enumerate(pieces)
    ]
    return Markup("").join(shown)


def _finalized(value: Any) -> Any:
    """Texts of the program's, cleaned; Markup is ours, and stays."""
    return clean(value) if type(value) is str else value
