"""Lightning: a callback for ``Trainer``, found through its entry point too.

::

    from impactarbiter.integrations.lightning import LeakDetectionCallback

    Trainer(callbacks=[LeakDetectionCallback()]).fit(module)

Under ``impactarbiter run`` each Trainer gets one by itself.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import MissingExtraError
from .session import SessionHolder, check_options, harmless, open_session

try:
    from lightning.pytorch import Callback
except ImportError as _error:
    raise MissingExtraError(
        "lightning", "this integration", "lightning"
    ) from _error

__all__ = ["LeakDetectionCallback"]


class LeakDetectionCallback(SessionHolder, Callback):  # type: ignore[misc]
    """Watches ``fit`` from its start to its end, also where that fails.

    ``report`` is a file for the report, ``watch`` are options of
    ``impactarbiter.watch``.  Findings are logged as they come,
    metrics go to the Trainer's loggers every ``log_every_n_steps``.

    Raises UsageError or ReportError for what cannot be.
    """

    def __init__(self, *, report: str | None = None, **watch: Any) -> None:
        check_options(watch.get("every"), report)
        self._report = report
        self._watch = watch
        self._logged = 0

    @harmless
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Starts to watch; joins a watch that is running."""
        if self._session is None:
            self._session = open_session(**self._watch)
            left = trainer.max_steps - trainer.global_step
            if self._session is not None and trainer.max_steps > 0:
                self._session.arbiter.plan(max(left, 0))

    @harmless
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Says what was found, and writes the report."""
        self._close()

    @harmless
    def on_exception(
        self, trainer: Any, pl_module: Any, exception: BaseException
    ) -> None:
        """Says what was found so far: memory that ran out, perhaps."""
        self._close()

    @harmless
    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Micro-batches before the step's last one are a phase."""
        several = trainer.accumulate_grad_batches > 1
        self._enter("micro-batches" if several else None)

    @harmless
    def on_before_optimizer_step(
        self, trainer: Any, pl_module: Any, optimizer: Any
    ) -> None:
        """Gradients are complete."""
        self._enter(None)

    @harmless
    def on_train_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Metrics, where the Trainer logs its own."""
        step, every = trainer.global_step, trainer.log_every_n_steps
        if self._session is None or not every or step % every:
            return
        if step == self._logged:  # a micro-batch of the same step
            return
        self._logged = step
        for logger in trainer.loggers:
            logger.log_metrics(self._session.metrics(), step=step)

    @harmless
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Validation, or the check that precedes the training."""
        checking = trainer.sanity_checking
        self._enter("sanity check" if checking else "validation")

    @harmless
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Back to the training."""
        self._enter(None)

    def _enter(self, phase: str | None) -> None:
        if self._session is not None:
            self._session.enter(phase)

    def _close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.close(self._report)


def callbacks_factory() -> list[Callback]:
    """What Lightning adds to each Trainer: nothing unless one watches.

    The entry point of the group ``lightning.pytorch.callbacks_factory``.
    """
    from ..watching.arbiter import current

    return [] if current() is None else [LeakDetectionCallback()]
