"""Ray Train: each worker is watched, and the job's answer is logged.

::

    from impactarbiter.integrations.ray import WatchedTorchConfig

    trainer = TorchTrainer(
        train_func,
        torch_config=WatchedTorchConfig(job="/shared/job"),
        scaling_config=ScalingConfig(num_workers=8),
    )
"""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import field
from typing import Any

from ..base.errors import MissingExtraError
from ..base.files import write_atomic
from ..base.ranks import JOB, job_folder
from ..base.records import dataclass

try:
    from ray.train.torch import TorchConfig
    from ray.train.torch.config import _TorchBackend
except ImportError as _error:
    raise MissingExtraError(
        "ray[train]", "this integration", "ray"
    ) from _error

__all__ = ["WatchedTorchConfig"]

log: logging.Logger = logging.getLogger("impactarbiter")


@dataclass
class WatchedTorchConfig(TorchConfig):  # type: ignore[misc]
    """Ray's ``TorchConfig``, with a watch in each worker.

    ``job`` is the folder of the workers' files (default: IMPACTARBITER_JOB,
    else one below the temporary folder); the reports of workers that end by
    themselves come to the machine of Train's controller, too.  ``watch`` are
    options of ``impactarbiter.watch``.
    """

    job: str | None = None
    watch: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = self.job or job_folder()
        if not chosen:
            name = f"impactarbiter-{secrets.token_hex(8)}"
            chosen = os.path.join(tempfile.gettempdir(), name)
        self.job = os.path.abspath(chosen)

    @property
    def backend_cls(self) -> type[_TorchBackend]:
        return _WatchedBackend


class _WatchedBackend(_TorchBackend):  # type: ignore[misc]
    """What fails here fails no training."""

    def on_training_start(
        self, worker_group: Any, backend_config: Any
    ) -> None:
        super().on_training_start(worker_group, backend_config)
        try:
            worker_group.execute(
                _begin, backend_config.job, backend_config.watch
            )
        except Exception as error:
            log.warning("ImpactArbiter: workers are not watched: %s", error)

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        with suppress(Exception):  # a worker that is gone has left its file
            for told in worker_group.execute(_end):
                if told is not None:
                    _put(backend_config.job, *told)
        with suppress(Exception):
            log.warning("ImpactArbiter: %s", _answer(backend_config.job))
        super().on_shutdown(worker_group, backend_config)


def _begin(folder: str, options: dict[str, Any]) -> None:
    """In a worker, before the training's function."""
    from ..watching.arbiter import current, watch

    os.environ[JOB] = folder
    if current() is None:
        watch(**options)


def _end() -> tuple[str, bytes] | None:
    """In a worker, after it; atexit handlers do not run there."""
    from ..reports.jsonio import report_json
    from ..watching.arbiter import current

    watching = current()
    if watching is None or watching.job is None:
        return None
    report = watching.stop()
    if report.process is None:
        return None
    return report.process.file_name, report_json(report)


def _put(folder: str, name: str, data: bytes) -> None:
    path = os.path.join(folder, os.path.basename(name))
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(path):
        write_atomic(path, data)


def _answer(folder: str) -> str:
    from ..reports.job import files_of, read_job
    from ..reports.job_words import sentence

    return f"{sentence(read_job(files_of(folder)))}; see {folder}"
