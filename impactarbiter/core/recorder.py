"""The C half of the flight recorder, which writes a bundle's first stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import _core


def arm(
    folder: str,
    names: Sequence[str],
    *,
    events: int,
    keep: int,
    interval: float,
    reserve: int,
    sources: bool,
    second_stage: Callable[[str], object],
) -> None:
    """Gets everything ready to write a bundle below ``folder``.

    ``names`` are those of the bundles that are there, oldest first;
    ``second_stage(name)`` is called once one was written.
    """
    _core.recorder_arm(
        folder,
        tuple(names),
        events=events,
        keep=keep,
        interval=interval,
        reserve=reserve,
        sources=sources,
        second_stage=second_stage,
    )


def disarm() -> None:
    """Lets go of what ``arm`` has got ready."""
    _core.recorder_disarm()


def write(reason: str) -> str | None:
    """Writes a bundle now; its name, None where nothing is armed."""
    return _core.recorder_write(reason)
