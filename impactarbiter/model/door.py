"""The way from plain data to what shows it: the model imports no renderer."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..base.waiting import handlers_wait

#: What is asked for -> module:function, imported when it is first asked.
_RENDERERS = {
    "finding text": "reports.text:finding_text",
    "report text": "reports.text:report_text",
    "report fragment": "reports.html:report_fragment",
    "report dict": "reports.jsonio:report_to_dict",
    "report from dict": "reports.jsonio:report_from_dict",
    "report from file": "reports.jsonio:load_report",
    "report json": "reports.jsonio:write_json",
    "report html": "reports.html:write_html",
    "report sarif": "reports.sarif:write_sarif",
    "report flame": "reports.flame:write_flame",
    "report perfetto": "reports.perfetto:write_perfetto",
    "report csv": "reports.live_csv:write_csv",
    "report plot": "reports.timeline:plot_report",
    "retention text": "reports.retention:retention_text",
    "retention fragment": "reports.more_pages:retention_fragment",
    "instances text": "reports.retention:instances_text",
    "instances fragment": "reports.more_pages:instances_fragment",
    "retention html": "reports.more_pages:write_explain",
    "instances html": "reports.more_pages:write_instances",
    "retentions fragment": "reports.more_pages:retentions_fragment",
    "bundle text": "reports.bundle:bundle_text",
    "bundle html": "reports.more_pages:write_bundle",
}


def renderer(name: str) -> Callable[..., Any]:
    """The function that shows, reads or writes such a thing."""
    module, _, function = _RENDERERS[name].partition(":")
    with handlers_wait():
        made: Callable[..., Any] = getattr(
            import_module(f"..{module}", __package__), function
        )
    return made


def text_of(name: str, thing: object) -> str:
    """What ``str()`` or a notebook shows of it."""
    return str(renderer(name)(thing))
