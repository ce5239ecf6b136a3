"""MLflow: metrics of a watch, and its report as an artifact of the run.

::

    from impactarbiter.integrations.mlflow import log_metrics, log_report

    log_metrics(arbiter, step=step)     # now and then in the loop
    log_report(arbiter.report())        # at the end
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from ..base.errors import MissingExtraError
from ..reports.outputs import write_files

if TYPE_CHECKING:
    from ..model.report import Report
    from ..watching.arbiter import Arbiter

#: Folder of the artifacts, and prefix of the tags.
NAME = "impactarbiter"


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise MissingExtraError("mlflow", "this tracker", "mlflow") from error
    return mlflow


def log_metrics(arbiter: Arbiter, step: int | None = None) -> None:
    """``arbiter.metrics()`` into the active run, which MLflow starts."""
    _mlflow().log_metrics(arbiter.metrics(), step=step)


def log_report(report: Report) -> None:
    """The report as JSON, as text and, with jinja2, as a page.

    Artifacts of the active run, in the folder ``impactarbiter``.
    """
    mlflow = _mlflow()
    with tempfile.TemporaryDirectory() as folder:
        for path in write_files(report, os.path.join(folder, "report")):
            mlflow.log_artifact(path, artifact_path=NAME)
