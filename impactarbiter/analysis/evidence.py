"""What the ledger knows about the memory that calls leave behind.

Three things follow from it.  What it proves is a pattern, however small.
What statistics call a leak gets the findings that say who holds the memory.
And what statistics call a leak without the ledger agreeing is withheld.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from ..base.records import dataclass
from ..base.units import plural
from ..judging.verdicts.severity import DEFAULT_RULES
from ..model.finding import Finding
from ..model.order import by_urgency, worst
from ..model.report import Report
from ..model.words import BOUNDED, severity_rank
from ..reports.wording import headline, taken_back
from .patterns import MemoryPattern, leak_metrics

#: Verdicts that are proof, and those under which memory may yet leak.
PROVEN = frozenset({"leak", "cycle", "native"})


@dataclass(frozen=True)
class Withheld:
    """A leak by statistics that the ledger contradicts, and why."""

    pattern: MemoryPattern
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.pattern.to_dict(), "reason": self.reason}


@dataclass(frozen=True)
class Evidence:
    """A report, and where the profiled functions are.

    ``definitions`` maps a function's name to its (file, qualified name);
    what is not in it was profiled elsewhere, and nothing is said of it.
    ``growing`` names the functions whose last calls have all left memory
    behind.  ``foreign``: (file, qualified name) of functions that are another
    profiler's, whose leaks it tells of.
    """

    report: Report
    definitions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    growing: frozenset[str] = frozenset()
    foreign: frozenset[tuple[str, str]] = frozenset()

    def findings(self) -> list[Finding]:
        """The report's, and leaks that stopped with the calls alone.

        A confirmed leak is taken back when it grows no more.  Where its
        function grew at each of its last calls, and was no longer called, it
        is the calls that have stopped and not the leak.
        """
        stopped = [
            DEFAULT_RULES.grade(
                replace(
                    f,
                    verdict="leak",
                    note="grew for as long as its function was called",
                )
            )
            for f in self.report.taken_back
            if f.verdict == "cache"
            and self.growing.intersection(self.functions_of(f))
        ]
        return [*self.report.findings, *stopped]

    def functions_of(self, finding: Finding) -> list[str]:
        """The profiled functions that it was allocated in, inner first."""
        names: list[str] = []
        for here in _places(finding):
            names += [
                name
                for name, definition in self.definitions.items()
                if definition == here and name not in names
            ]
        return names

    def is_foreign(self, finding: Finding) -> bool:
        """Whether another profiler answers for it, and this one does not."""
        return not self.functions_of(finding) and not (
            self.foreign.isdisjoint(_places(finding))
        )

    def of(
        self, function: str, findings: Iterable[Finding]
    ) -> tuple[Finding, ...]:
        """Those of the findings that were allocated in a function."""
        return tuple(f for f in findings if function in self.functions_of(f))

    # -- what statistics say ----------------------------------------------

    def weigh(
        self, leaks: Iterable[MemoryPattern]
    ) -> tuple[list[MemoryPattern], list[Withheld]]:
        """Statistical leaks: those that stand, and those withheld."""
        standing: list[MemoryPattern] = []
        withheld: list[Withheld] = []
        for pattern in leaks:
            name = pattern.affected_functions[0]
            findings = self.of(name, self.findings())
            alarming = [f for f in findings if f.verdict not in BOUNDED]
            if alarming:
                standing.append(_joined(pattern, alarming))
                continue
            reason = self._doubt(pattern, name, findings)
            if reason is None:
                standing.append(pattern)
            else:
                withheld.append(Withheld(pattern, reason))
        return standing, withheld

    def _doubt(
        self,
        pattern: MemoryPattern,
        name: str,
        bounded: tuple[Finding, ...],
    ) -> str | None:
        """Why a growth is no leak; None where the ledger cannot say."""
        if name not in self.definitions:
            return None
        for finding in bounded:
            return f"{finding.verdict}: {headline(finding)}"
        for finding in self.of(name, self.report.taken_back):
            return f"taken back: {taken_back(finding)}"
        calls = pattern.metrics["call_count"]
        if calls < self.report.needed_steps:
            return (
                f"{plural(calls, 'call')} of '{name}': what it keeps may be"
                f" meant to stay; {self.report.needed_steps} are needed to"
                " tell a leak"
            )
        if self.report.steps < self.report.needed_steps:
            return None
        if name in self.growing:
            return None  # it does grow, and nobody has said why
        return (
            f"nothing from '{name}' has kept growing over"
            f" {plural(self.report.steps, 'step')}"
        )

    # -- what the ledger says ---------------------------------------------

    def patterns(
        self,
        told: Collection[MemoryPattern],
        within: Collection[str] | None = None,
    ) -> list[MemoryPattern]:
        """A leak for each function with proven findings not yet told.

        ``within`` names the functions to speak of; None: of all, and of what
        was allocated outside any of them.
        """
        known = {f.signature for pattern in told for f in pattern.findings}
        groups: dict[str, list[Finding]] = {}
        for finding in by_urgency(self.findings()):
            if finding.verdict not in PROVEN or finding.signature in known:
                continue
            if self.is_foreign(finding):
                continue
            names = self.functions_of(finding)
            if within is not None:
                names = [name for name in names if name in within]
                if not names:
                    continue
            name = names[0] if names else finding.allocated_at.function
            groups.setdefault(name or "<unknown>", []).append(finding)
        return [self._pattern(name, group) for name, group in groups.items()]

    def _pattern(self, name: str, findings: list[Finding]) -> MemoryPattern:
        steps = max(self.report.steps, 1)
        kept = sum(_held_bytes(f) for f in findings)
        rate = sum(f.all_bytes_per_step for f in findings)
        generations = max(f.generations for f in findings)
        metrics = leak_metrics(
            kept, rate, min(generations / steps, 1.0), self.report.steps
        )
        metrics["evidence"] = evidence_of(findings)
        return MemoryPattern(
            pattern_type="memory_leak",
            description=f"Function '{name}' leaks: {headline(findings[0])}",
            severity=worst(findings) or "info",
            affected_functions=[name],
            metrics=metrics,
            suggestions=_suggestions(findings),
            findings=tuple(findings),
            source="ledger",
        )

    def forecast(self) -> dict[str, Any] | None:
        """When memory runs out at the rate of the fastest finding."""
        ending = [
            f for f in self.report.findings if f.steps_to_oom is not None
        ]
        if not ending:
            return None
        first = min(ending, key=lambda f: f.steps_to_oom or 0)
        return {
            "steps_to_oom": first.steps_to_oom,
            "seconds_to_oom": first.seconds_to_oom,
            "bytes_per_step": first.all_bytes_per_step,
            "memory_limit": self.report.memory_limit,
            "finding": first.signature,
            "held_by": str(first.path) if first.path else None,
        }


def evidence_of(findings: list[Finding]) -> dict[str, Any]:
    """The metric ``evidence``: what the ledger saw, in plain data."""
    first = by_urgency(findings)[0]
    return {
        "verdict": first.verdict,
        "findings": len(findings),
        "bytes_per_step": sum(f.all_bytes_per_step for f in findings),
        "retained_bytes": sum(f.retained_bytes for f in findings),
        "retained_tensors": sum(f.retained_tensors for f in findings),
        "generations": max(f.generations for f in findings),
        "allocated_at": str(first.allocated_at),
        "grown_at": str(first.grown_at) if first.grown_at else None,
        "held_by": str(first.path) if first.path else None,
        "holder": first.holder.expression if first.holder else None,
    }


def _places(finding: Finding) -> list[tuple[str, str]]:
    """File and function of each frame that it was allocated in."""
    frames = finding.stack or (finding.allocated_at,)
    return [(frame.file, frame.function) for frame in frames]


def _held_bytes(finding: Finding) -> int:
    nodes = finding.graph.node_bytes if finding.graph else 0
    return finding.retained_bytes + nodes


def _suggestions(findings: list[Finding]) -> list[str]:
    said = [f.advice for f in findings if f.advice]
    said += [f"Look at {f.site}" for f in findings if f.site.known]
    return list(dict.fromkeys(said))


def _joined(pattern: MemoryPattern, findings: list[Finding]) -> MemoryPattern:
    """A statistical leak with the ledger's findings of the same function.

    Proof makes it the ledger's word; what is still ``growing`` does not.
    """
    findings = by_urgency(findings)
    proven = any(f.verdict in PROVEN for f in findings)
    severity = max(
        (pattern.severity, worst(findings) or "info"), key=severity_rank
    )
    return replace(
        pattern,
        description=f"{pattern.description}: {headline(findings[0])}",
        severity=severity,
        metrics={**pattern.metrics, "evidence": evidence_of(findings)},
        suggestions=_suggestions(findings) + pattern.suggestions,
        findings=tuple(findings),
        source="ledger" if proven else "statistics",
    )
