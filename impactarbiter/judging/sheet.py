"""The report of a run, from what its parts know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..base.records import dataclass
from ..core import devices, ledger
from ..core.sources import environment
from ..core.wire import STEP_KINDS, Status, Totals, Walk
from ..model.finding import Finding
from ..model.report import Report
from .afterwards import Afterwards
from .holders.known import KnownHolders
from .sums import closure, curves, summary
from .verdicts.forecast import Forecast
from .walks import Walks


@dataclass(frozen=True)
class Sheet:
    """Puts the figures of a watched run together.

    ``needed_steps``: how many a run must have before anything is said of it.
    """

    known: KnownHolders
    walks: Walks
    afterwards: Afterwards
    phases: Sequence[str]
    needed_steps: int

    def put_together(
        self,
        status: Status,
        findings: Sequence[Finding],
        forecast: Forecast,
        walk: Walk | None,
        warnings: Callable[[Status, Totals], Iterable[str]],
    ) -> Report:
        """A report with these findings and the figures of now; ``warnings``
        are asked for what else is to be said."""
        totals = ledger.totals()
        kind = status.kind
        measured = ledger.curves()
        growth = closure.growth(measured.points, kind, status.counts[kind])
        return Report(
            findings=tuple(findings),
            steps=status.counts[kind],
            step_kind=STEP_KINDS[kind],
            grown_bytes_per_step=growth.live,
            gained_bytes_per_step=growth.gained,
            process_bytes_per_step=growth.process,
            explained_bytes_per_step=closure.explained(
                self.known.explaining(findings)
            ),
            later_growth=self.afterwards.growth(
                measured.points, status, findings
            ),
            live_bytes=totals.live_bytes,
            peak_bytes=totals.peak_bytes,
            accounted=(
                summary.accounted(walk, totals, findings) if walk else {}
            ),
            older=summary.older(walk),
            cost=summary.cost(walk, self.walks.count, status, totals, kind),
            warnings=tuple(warnings(status, totals)),
            environment=environment(),
            history=curves.history(
                measured, self.walks.purposes, kind, self.phases
            ),
            memory_limit=forecast.limit,
            needed_steps=self.needed_steps,
            devices=devices.memory(),
            live=self.walks.live,
        )
