"""``MemoryAnalyzer``: patterns, insights and a report of profiled calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.errors import UsageError
from ..model.report import Report
from ..watching.arbiter import Arbiter, current
from . import scoring
from .evidence import Evidence, Withheld
from .gaps import GapFinding, availability, gap_findings, listed
from .insights import INSIGHT_RULES, PerformanceInsight
from .patterns import DEFAULT_THRESHOLDS, STATISTICAL_RULES, MemoryPattern
from .results import ProfileResult, Results


class MemoryAnalyzer:
    """Says what profiled calls do with memory.

    ``profiler`` is a ``GPUMemoryProfiler`` (or anything whose ``results``
    are such).  ``thresholds`` is a dict to change.  There are two sources: the
    statistics of the calls' figures, which need nothing else, and the ledger
    of a profiler or a ``watch()``, which knows who holds the memory; a
    pattern's ``source`` says which.  ``strict=True`` reports the statistics
    unchanged.  ``evidence``: an arbiter or a report to ask instead of the
    ledger; default: the profiler's, else the active ``watch()``'s.
    """

    def __init__(
        self,
        profiler: Any = None,
        *,
        strict: bool = False,
        evidence: Arbiter | Report | None = None,
    ) -> None:
        if profiler is not None and not hasattr(profiler, "results"):
            raise UsageError(
                f"MemoryAnalyzer got {type(profiler).__name__}: expected a"
                " GPUMemoryProfiler, or nothing"
            )
        if evidence is not None and not isinstance(
            evidence, (Arbiter, Report)
        ):
            raise UsageError(
                f"evidence is {type(evidence).__name__}: expected an Arbiter,"
                " a Report, or nothing"
            )
        self.profiler = profiler
        self.strict = strict
        self.thresholds: dict[str, float] = dict(DEFAULT_THRESHOLDS)
        #: Leaks by statistics that the ledger contradicts.
        self.withheld: list[Withheld] = []
        self._given = evidence

    # -- patterns ---------------------------------------------------------

    def analyze_memory_patterns(
        self, results: Iterable[ProfileResult] | None = None
    ) -> list[MemoryPattern]:
        """Patterns in the results; default: all of the profiler's.

        With results given, the ledger is asked about their functions alone.
        """
        return self._patterns(
            self._results(results),
            self._evidence(results is not None),
            results is not None,
        )

    def _patterns(
        self, results: Results, evidence: Evidence | None, chosen: bool
    ) -> list[MemoryPattern]:
        self.withheld = []
        patterns: list[MemoryPattern] = []
        if len(results):
            for rule in STATISTICAL_RULES:
                patterns += rule(results, self.thresholds)
        if evidence is None or (chosen and not len(results)):
            return patterns
        leaks = [p for p in patterns if p.pattern_type == "memory_leak"]
        others = patterns[len(leaks) :]
        leaks, self.withheld = evidence.weigh(leaks)
        within = set(results.names) if chosen else None
        return leaks + evidence.patterns(leaks, within) + others

    # -- insights ---------------------------------------------------------

    def generate_performance_insights(
        self, results: Iterable[ProfileResult] | None = None
    ) -> list[PerformanceInsight]:
        """Insights from the results; default: all of the profiler's.

        Raises MissingExtraError without SciPy, where there are results
        enough for a trend.
        """
        return self._insights(self._results(results))

    def _insights(self, results: Results) -> list[PerformanceInsight]:
        if not len(results):
            return []
        return [
            insight
            for rule in INSIGHT_RULES
            for insight in rule(results, self.thresholds)
        ]

    # -- the report -------------------------------------------------------

    def analyze_memory_gaps(self, events: Iterable[Any]) -> list[GapFinding]:
        """What is in use on the device beside torch's allocator.

        ``events`` are a ``MemoryTracker``'s, or have Stormlog's field names;
        samples of them count.  Raises MissingExtraError without SciPy.
        """
        return gap_findings(events, self.thresholds)

    def generate_optimization_report(
        self,
        results: Iterable[ProfileResult] | None = None,
        events: Iterable[Any] | None = None,
    ) -> dict[str, Any]:
        """Everything in one dict of plain data.

        Keys: summary, critical_issues, high_impact_insights, all_patterns,
        all_insights, recommendations, optimization_score; unless strict also
        ``accounted`` (live bytes by what they are for), ``forecast`` (when
        memory runs out, or None) and ``withheld`` (leaks by statistics that
        the ledger contradicts, with the reason).  With ``events``, those of a
        ``MemoryTracker``, also ``gap_analysis`` (see
        ``analyze_memory_gaps``), ``collective_attribution``, which is empty,
        and ``analysis_availability``, which says what they do not answer.
        """
        table = self._results(results)
        evidence = self._evidence(results is not None)
        patterns = self._patterns(table, evidence, results is not None)
        insights = self._insights(table)
        report: dict[str, Any] = {
            "summary": scoring.summary(table),
            "critical_issues": [
                p.to_dict() for p in patterns if p.severity == "critical"
            ],
            "high_impact_insights": [
                i.to_dict() for i in insights if i.impact == "high"
            ],
            "all_patterns": [p.to_dict() for p in patterns],
            "all_insights": [i.to_dict() for i in insights],
            "recommendations": scoring.recommendations(patterns, insights),
            "optimization_score": scoring.score(patterns, insights),
        }
        if events is not None:
            report |= self._telemetry(listed(events))
        if not self.strict:
            report["accounted"] = (
                dict(evidence.report.accounted) if evidence else {}
            )
            report["forecast"] = evidence.forecast() if evidence else None
            report["withheld"] = [w.to_dict() for w in self.withheld]
        return report

    def _telemetry(self, events: list[Any]) -> dict[str, Any]:
        findings = self.analyze_memory_gaps(events)
        return {
            "gap_analysis": [finding.to_dict() for finding in findings],
            "collective_attribution": [],
            "analysis_availability": availability(events),
        }

    # -- what there is to go by -------------------------------------------

    def _results(self, results: Iterable[ProfileResult] | None) -> Results:
        if results is None:
            results = self.profiler.results if self.profiler else ()
        return Results.of(results)

    def _evidence(self, chosen: bool) -> Evidence | None:
        """What the ledger knows; None for results whose origin is unknown."""
        if self.strict:
            return None
        if isinstance(self._given, Report):
            return Evidence(self._given)
        if self._given is not None:
            return Evidence(self._given.report(), _definitions(self.profiler))
        if hasattr(self.profiler, "evidence"):
            known: Evidence | None = self.profiler.evidence()
            return known
        watching = current()
        if chosen or self.profiler is not None or watching is None:
            return None
        return Evidence(watching.report())


def _definitions(profiler: Any) -> dict[str, tuple[str, str]]:
    return dict(getattr(profiler, "functions", {}))
