"""What the pytest plugin says when tensors outlive a test."""

from __future__ import annotations

from dataclasses import replace

from ..base.text import clean
from ..base.units import format_bytes
from ..model.finding import Finding
from ..model.report import Report
from ..reports.first_line import alarming
from ..reports.wording import facts, growth, subject

#: Findings that a failure spells out.
_MOST_SHOWN = 3
#: Labels of the facts that a failure shows, as ``wording.facts`` has them.
_SHOWN = frozenset(
    {
        "allocated",
        "kept by",
        "holder",
        "grown at",
        "grown maybe",
        "graph",
        "do",
    }
)


def failure_of(max_bytes: int, report: Report) -> str | None:
    """Why the test fails: more stays behind each step than may."""
    found = alarming(report)
    kept = sum(finding.all_bytes_per_step for finding in found)
    if not found or (max_bytes and kept <= max_bytes):
        return None
    found = [_by_fixture(finding) for finding in found]
    lines: list[str] = []
    for finding in found[:_MOST_SHOWN]:
        lines += _finding_lines(finding)
    for finding in found[_MOST_SHOWN:]:
        lines.append(f"and {subject(finding)} keeps {growth(finding)}")
    if max_bytes:
        lines.append(
            f"{format_bytes(kept)} a step in all, allowed are"
            f" {format_bytes(max_bytes)}"
        )
    lines += [f"warning: {text}" for text in report.warnings]
    return "\n".join(clean(text) for text in lines)


def _finding_lines(finding: Finding) -> list[str]:
    """As short as an assertion; the first line says it all."""
    leak = f"{finding.noun} leak"
    lines = [f"{leak}: {subject(finding)} keeps {growth(finding)}"]
    code: tuple[str, ...] = ()
    for fact in facts(finding):
        # A statement that makes and keeps a tensor stands once.
        if fact.label in _SHOWN and (not code or fact.code != code):
            code = fact.code or code
            lines.append(f"  {fact.label:<10} {fact.text}")
            lines += [f"             {text}" for text in fact.code]
    if finding.site.known:
        lines.append(f"{finding.site.file}:{finding.site.line}: {leak}")
    return lines


def _by_fixture(finding: Finding) -> Finding:
    """What the value of a wider fixture holds, by the fixture's name.

    pytest keeps such values as ``..fixturedefs['name'][0].cached_result[0]``.
    """
    path, holder = finding.path, finding.holder
    if path is None or holder is None:
        return finding
    names = [edge.name for edge in path.edges]
    defs = [i for i, name in enumerate(names) if name.endswith("fixturedefs")]
    if not defs or "cached_result" not in names[defs[0] :]:
        return finding
    fixture = names[defs[0] + 1]
    # Of (value, key, exception) it is the value.
    begin = names.index("cached_result", defs[0]) + 2
    depth = finding.holder_depth - begin
    if depth < 0 or names[begin - 1] != "0":
        return finding
    path = replace(path, root=f"<fixture {fixture}>", edges=path.edges[begin:])
    called = str(path.upto(depth))
    return replace(
        finding,
        path=path,
        holder=replace(holder, expression=called, depth=depth),
        advice=finding.advice.replace(holder.expression, called),
    )
