"""Weights & Biases: metrics of a watch, and its report as an artifact.

::

    from impactarbiter.integrations.wandb import log_metrics, log_report

    log_metrics(arbiter, step=step)     # now and then in the loop
    log_report(arbiter.report())        # at the end
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from ..base.errors import MissingExtraError, UsageError
from ..reports.outputs import write_files

if TYPE_CHECKING:
    from ..model.report import Report
    from ..watching.arbiter import Arbiter


def _run() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingExtraError("wandb", "this tracker", "wandb") from error
    if wandb.run is None:
        raise UsageError("no W&B run is active: call wandb.init() before")
    return wandb.run


def log_metrics(arbiter: Arbiter, step: int | None = None) -> None:
    """``arbiter.metrics()`` into the active run; UsageError without one."""
    _run().log(arbiter.metrics(), step=step)


def log_report(report: Report) -> None:
    """The report as an artifact of type ``memory-leak-report``.

    It holds JSON, text and, with jinja2, a page.  UsageError without a run.
    """
    run = _run()
    import wandb

    artifact = wandb.Artifact(f"impactarbiter-{run.id}", "memory-leak-report")
    with tempfile.TemporaryDirectory() as folder:
        for path in write_files(report, os.path.join(folder, "report")):
            artifact.add_file(path)  # copies it: the folder goes
        run.log_artifact(artifact)
