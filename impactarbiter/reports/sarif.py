"""SARIF 2.1.0, which code scanning services show on the line.

One rule per verdict; a result stands at the statement that grows the
holder, else where the memory is allocated.  Files below the run's working
folder get relative URIs under ``SRCROOT``.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from ..findings import Finding, Report, Site
from ..severity import VERDICTS
from .files import write_atomic
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
    base = report.environment.get("cwd") or os.getcwd()
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
            _BASE: {"description": {"text": "The folder the program ran in."}}
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, base) for f in report.findings],
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(verdict: str) -> dict[str, Any]:
    return {
        "id": f"memory/{verdict}",
        "name": f"Memory{verdict.capitalize()}",
        "shortDescription": {"text": VERDICT_MEANING[verdict]},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(finding: Finding, base: str) -> dict[str, Any]:
    lines = [headline(finding) + "."]
    lines += [f"{fact.label}: {fact.text}" for fact in facts(finding)]
    result: dict[str, Any] = {
        "ruleId": f"memory/{finding.verdict}",
        "ruleIndex": VERDICTS.index(finding.verdict),
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(lines)},
        "locations": [],
        "partialFingerprints": {"impactarbiter/v1": finding.signature},
        "properties": {
            "bytesPerStep": finding.bytes_per_step,
            "retainedBytes": finding.retained_bytes,
        },
    }
    if finding.site.known:
        result["locations"] = [_location(finding.site, base)]
    if finding.grown_at is not None and finding.allocated_at.known:
        related = _location(finding.allocated_at, base)
        related["id"] = 1
        related["message"] = {"text": "allocated here"}
        result["relatedLocations"] = [related]
    return result


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
        relative = os.path.relpath(path, base)
        if relative.split(os.sep, 1)[0] == os.pardir:
            return {"uri": "file://" + _quoted(path)}
        path = relative
    return {"uri": _quoted(path), "uriBaseId": _BASE}


def _quoted(path: str) -> str:
    clean = os.path.normpath(path).replace(os.sep, "/")
    return quote(clean.encode("utf-8", "surrogatepass"), safe="/")
