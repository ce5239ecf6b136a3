"""The callback that watches a training of the Hugging Face Trainer."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...base.errors import MissingExtraError
from ..session import SessionHolder, check_options, harmless, open_session
from . import flags, import_hook
from .flags import DETECT, EVERY, REPORT

try:
    from transformers.trainer_callback import (
        CallbackHandler,
        DefaultFlowCallback,
        TrainerCallback,
    )
    from transformers.training_args import TrainingArguments
except ImportError as _error:
    raise MissingExtraError(
        "transformers", "this integration", "transformers"
    ) from _error

if TYPE_CHECKING:
    from ...model.report import Report

__all__ = ["LeakDetectionCallback", "TrainingArguments"]

#: What only the log line of a training step has among its keys: evaluation's
#: are what ``evaluate()`` returns, and not ours to add to.
_OF_TRAINING = "learning_rate"


class LeakDetectionCallback(SessionHolder, TrainerCallback):  # type: ignore[misc]
    """Watches a training from its beginning to its end.

    ``every`` and ``report`` default to the TrainingArguments' fields
    ``detect_memory_leaks_every`` and ``memory_leak_report``; ``watch`` are
    further options of ``impactarbiter.watch``.  Steps are optimizer steps,
    as the Trainer counts them.  Findings are logged as they come,
    metrics are added to what the Trainer logs.

    Raises UsageError or ReportError for what cannot be.
    """

    def __init__(
        self,
        *,
        every: int | None = None,
        report: str | None = None,
        **watch: Any,
    ) -> None:
        check_options(every, report)
        self._every = every
        self._report = report
        self._watch = watch

    @harmless
    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Starts to watch; joins a watch that is running."""
        if self._session is None:  # a training that failed is continued
            every = self._every or getattr(args, EVERY, 1)
            self._session = open_session(every=every, **self._watch)
            left = max(state.max_steps - state.global_step, 0)
            if self._session is not None:
                self._session.arbiter.plan(left)

    @harmless
    def on_step_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Micro-batches before the step's last one are a phase."""
        several = args.gradient_accumulation_steps > 1
        self._enter("micro-batches" if several else None)

    @harmless
    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Gradients are complete."""
        self._enter(None)

    @harmless
    def on_step_end(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """What the Trainer does now has no event of its own when it begins."""
        self._enter_next(control)

    @harmless
    def on_epoch_end(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """As after a step."""
        self._enter_next(control)

    @harmless
    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """An evaluation that nothing announced."""
        self._enter("evaluation")

    @harmless
    def on_evaluate(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Evaluation is over; saving comes next, if at all."""
        self._enter_next(control)

    @harmless
    def on_predict(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Prediction is over."""
        self._enter(None)

    @harmless
    def on_save(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """The checkpoint is written."""
        self._enter(None)

    @harmless
    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Adds our metrics for the callbacks that report after us."""
        if self._session is not None and logs and _OF_TRAINING in logs:
            logs.update(self._session.metrics())

    @harmless
    def on_train_end(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Says what was found, and writes the report."""
        if self._session is not None:
            session, self._session = self._session, None
            path = self._report or getattr(args, REPORT, None)
            report = session.close(path)
            if path is not None and state.is_world_process_zero:
                _log_artifacts(report, args.report_to)

    def _enter(self, phase: str | None) -> None:
        if self._session is not None:
            self._session.enter(phase)

    def _enter_next(self, control: Any) -> None:
        self._enter(
            "evaluation"
            if control.should_evaluate
            else "saving"
            if control.should_save
            else None
        )


def _log_artifacts(report: Report, trackers: Sequence[str]) -> None:
    """The report goes to those that keep files."""
    for name in ("mlflow", "wandb"):
        if name in trackers:
            tracker = importlib.import_module(f"..{name}", __package__)
            tracker.log_report(report)


def install(_trainer: ModuleType) -> None:
    """Makes the Trainer of ``transformers.trainer`` obey our options.

    A second call changes nothing.
    """
    from transformers.integrations import integration_utils

    known = integration_utils.INTEGRATION_TO_CALLBACK
    if "impactarbiter" in known:
        return
    known["impactarbiter"] = LeakDetectionCallback
    _do_before("on_init_end", _obey)
    _do_before("on_train_begin", _put_before_reporters)


def _do_before(event: str, ours: Any) -> None:
    """Calls ``ours(handler, args)`` before an event's callbacks: of all that a
    program does with a Trainer only their errors pass through this."""
    tell = CallbackHandler.__dict__[event]

    @functools.wraps(tell)
    def call(self: Any, args: Any, *more: Any, **kwargs: Any) -> Any:
        ours(self, args)
        return tell(self, args, *more, **kwargs)

    setattr(CallbackHandler, event, call)


def _put_before_reporters(handler: Any, _args: Any) -> None:
    """Ours after the first that decides what comes next, before all others,
    which keep their order.

    So the phases are known in time, and trackers get our metrics.  Where the
    order changes the list is a new one: who goes through the old one, as a
    callback adds another, meets each once.
    """
    ours = [c for c in handler.callbacks if _is(c, LeakDetectionCallback)]
    others = [
        c for c in handler.callbacks if not _is(c, LeakDetectionCallback)
    ]
    deciding = (i for i, c in enumerate(others) if _is(c, DefaultFlowCallback))
    first = next(deciding, -1) + 1
    wanted = [*others[:first], *ours, *others[first:]]
    if list(map(id, wanted)) != list(map(id, handler.callbacks)):
        handler.callbacks = wanted


def _is(callback: Any, cls: type) -> bool:
    """Asked of its type: a program's class may answer for itself."""
    return issubclass(type(callback), cls)


def _obey(handler: Any, args: Any) -> None:
    """Adds the callback where a Trainer's arguments ask for it.

    The command line takes precedence over a configuration file.
    """
    classes = type(args).__mro__
    if all(cls.__name__ != TrainingArguments.__name__ for cls in classes):
        return  # a handler that no Trainer has made
    for name, asked in (
        (DETECT, flags.request.detect),
        (EVERY, flags.request.every),
        (REPORT, flags.request.report),
    ):
        if asked is not None:
            setattr(args, name, asked)
    if getattr(args, DETECT, False):
        check_options(getattr(args, EVERY, None), getattr(args, REPORT, None))
        present = handler.callbacks
        if not any(_is(c, LeakDetectionCallback) for c in present):
            handler.add_callback(LeakDetectionCallback())
    _put_before_reporters(handler, args)


import_hook.install()
