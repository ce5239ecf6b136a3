"""TensorBoard: metrics of a watch as scalars, its report as text.

::

    from impactarbiter.integrations.tensorboard import log_metrics, log_report

    log_metrics(writer, arbiter, step)      # now and then in the loop
    log_report(writer, arbiter.report())    # at the end
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model.report import Report
    from ..watching.arbiter import Arbiter


def log_metrics(writer: Any, arbiter: Arbiter, step: int) -> None:
    """``arbiter.metrics()`` as scalars of a ``SummaryWriter``."""
    for name, value in arbiter.metrics().items():
        writer.add_scalar(name, value, step)


def log_report(writer: Any, report: Report) -> None:
    """The report as text under the tag ``memory/report``."""
    # Four blanks: shown as it stands, no markup in it is interpreted.
    lines = ("    " + line for line in str(report).splitlines())
    writer.add_text("memory/report", "\n".join(lines), report.steps)
