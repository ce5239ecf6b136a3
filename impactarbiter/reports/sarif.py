"""SARIF 2.1.0, which code scanning services show on the line.

One rule per verdict; a result stands at the statement that grows the
holder, else where the memory is allocated, else at the innermost known frame.
What has no line at all is a notification of the run: GitHub refuses results
without a location.  Files below the repository that the run's working folder
is in get relative URIs under ``SRCROOT``.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from ..base.files import path_bytes, write_atomic
from ..model.finding import Finding, Site
from ..model.report import Report
from ..model.words import BOUNDED, VERDICTS
from .wording import VERDICT_MEANING, facts, headline

SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
    "sarif-schema-2.1.0.json"
)
_BASE = "SRCROOT"
_LEVELS = {"critical": "error", "warning": "warning", "info": "note"}


def write_sarif(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes the log atomically; ReportError where it can't."""
    text = json.dumps(sarif_log(report), indent=1, ensure_ascii=False)
    write_atomic(path, (text + "\n").encode("utf-8", "backslashreplace"))


def sarif_log(report: Report) -> dict[str, Any]:
    """The log as plain dicts and lists."""
    children = report.children.findings if report.children else ()
    findings = (*report.findings, *(c.worst for c in children))
    base = _base_of(report)
    version = report.environment.get("impactarbiter")
    driver: dict[str, Any] = {
        "name": "ImpactArbiter",
        "rules": [_rule(verdict) for verdict in VERDICTS],
    }
    if version:
        driver["version"] = version
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {
            _BASE: {"description": {"text": "The root of the repository."}}
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, base) for f in findings if _place(f).known],
        "invocations": [
            {
                "executionSuccessful": report.complete,
                "toolExecutionNotifications": [
                    _notification(f) for f in findings if not _place(f).known
                ],
            }
        ],
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _base_of(report: Report) -> str:
    """Where its files' names begin; empty where no folder is known."""
    folder = report.environment.get("cwd", "")
    with suppress(OSError):  # there may be none any more
        folder = folder or os.getcwd()
    return repository_of(folder) if folder else ""


def repository_of(folder: str) -> str:
    """The nearest folder upwards that is a repository, else ``folder``.

    Code scanning reads relative names from there.
    """
    above = folder
    while not os.path.exists(os.path.join(above, ".git")):
        above, below = os.path.dirname(above), above
        if above == below:
            return folder
    return above


def _rule(verdict: str) -> dict[str, Any]:
    meaning = {"text": VERDICT_MEANING[verdict]}
    level = "note" if verdict in BOUNDED else "warning"
    return {
        "id": f"memory/{verdict}",
        "name": f"Memory{verdict.capitalize()}",
        "shortDescription": meaning,
        "fullDescription": meaning,
        "help": {
            "text": "The message says what holds the tensors, since when, what"
            " it costs and what to change."
        },
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["memory", "pytorch"]},
    }


def _place(finding: Finding) -> Site:
    """Where the result is shown; not ``known`` where there is no line."""
    if finding.site.known:
        return finding.site
    return next((s for s in finding.stack if s.known), finding.site)


def _text(finding: Finding) -> str:
    lines = [headline(finding) + "."]
    lines += [f"{fact.label}: {fact.text}" for fact in facts(finding)]
    return "\n".join(lines)


def _notification(finding: Finding) -> dict[str, Any]:
    return {
        "level": _LEVELS[finding.severity],
        "message": {"text": _text(finding)},
        "associatedRule": {
            "id": f"memory/{finding.verdict}",
            "index": VERDICTS.index(finding.verdict),
        },
    }


def _result(finding: Finding, base: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": f"memory/{finding.verdict}",
        "ruleIndex": VERDICTS.index(finding.verdict),
        "level": _LEVELS[finding.severity],
        "message": {"text": _text(finding)},
        "locations": [_location(_place(finding), base)],
        "partialFingerprints": {"impactarbiter/v1": finding.signature},
        "properties": {
            "bytesPerStep": finding.bytes_per_step,
            "retainedBytes": finding.retained_bytes,
        },
    }
    related = [
        {**_location(site, base), "id": i, "message": {"text": text}}
        for i, (site, text) in enumerate(_related(finding), 1)
    ]
    if related:
        result["relatedLocations"] = related
    return result


def _related(finding: Finding) -> list[tuple[Site, str]]:
    """What belongs to it beside the place where it is shown, in words."""
    if finding.grown_at is None:
        return []
    found = [(site, "called from here") for site in finding.grown_stack[:1]]
    if finding.allocated_at.known:
        found.insert(0, (finding.allocated_at, "allocated here"))
    return found


def _location(site: Site, base: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(site, base)}
    if site.line > 0:
        region: dict[str, Any] = {"startLine": site.line}
        if site.source.strip():
            region["snippet"] = {"text": site.source}
        physical["region"] = region
    location: dict[str, Any] = {"physicalLocation": physical}
    if site.function:
        location["logicalLocations"] = [{"name": site.function}]
    return location


def _artifact(site: Site, base: str) -> dict[str, str]:
    path = site.file
    if os.path.isabs(path):
        relative = os.path.relpath(path, base) if base else os.pardir
        if relative.split(os.sep, 1)[0] == os.pardir:
            return {"uri": "file://" + _quoted(path)}
        path = relative
    return {"uri": _quoted(path), "uriBaseId": _BASE}


def _quoted(path: str) -> str:
    clean = os.path.normpath(path).replace(os.sep, "/")
    return quote(path_bytes(clean), safe="/")
