"""Accelerate: a tracker that stands beside the others in ``log_with``.

::

    from impactarbiter.integrations.accelerate import LeakDetectionTracker

    leaks = LeakDetectionTracker()
    accelerator = Accelerator(log_with=["tensorboard", leaks], ...)
    accelerator.init_trackers("run")
    ...
    accelerator.log({"loss": loss.item(), **leaks.metrics()}, step=step)
    ...
    accelerator.end_training()
"""

from __future__ import annotations

from typing import Any

from ..base.errors import MissingExtraError
from .session import SessionHolder, check_options, harmless, open_session

try:
    from accelerate.tracking import GeneralTracker
except ImportError as _error:
    raise MissingExtraError(
        "accelerate", "this integration", "accelerate"
    ) from _error

__all__ = ["LeakDetectionTracker"]


class LeakDetectionTracker(SessionHolder, GeneralTracker):  # type: ignore[misc]
    """Watches from ``init_trackers`` to ``end_training``.

    ``report`` is a file for the report, ``watch`` are options of
    ``impactarbiter.watch``.  What ``accelerator.log`` is given is the other
    trackers' business: this one only adds ``metrics()`` for them.

    Raises UsageError or ReportError for what cannot be.
    """

    name = "impactarbiter"
    requires_logging_directory = False

    def __init__(
        self,
        run_name: str = "",
        *,
        report: str | None = None,
        **watch: Any,
    ) -> None:
        # Accelerate passes the run's name where it makes the tracker itself.
        super().__init__()
        check_options(watch.get("every"), report)
        self.run_name = run_name
        self._report = report
        self._watch = watch

    @property
    def tracker(self) -> Any:
        """The arbiter; None before ``start``."""
        return None if self._session is None else self._session.arbiter

    @harmless
    def start(self) -> None:
        """Starts to watch; joins a watch that is running."""
        if self._session is None:
            self._session = open_session(**self._watch)

    @harmless
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """The run's configuration, which is none of ours."""
        self.start()  # accelerate before 1.2 calls nothing else

    @harmless
    def log(
        self, values: dict[str, Any], step: int | None = None, **kwargs: Any
    ) -> None:
        """Other people's values, which are none of ours."""
        self.start()

    def metrics(self) -> dict[str, float]:
        """``Arbiter.metrics()``; empty where nothing is watched."""
        return {} if self._session is None else self._session.metrics()

    @harmless
    def finish(self) -> None:
        """Says what was found, and writes the report."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close(self._report)
