"""OpenTelemetry: gauges that are read when metrics are collected.

::

    from impactarbiter.integrations.opentelemetry import export

    export(arbiter)  # to the global meter provider of the SDK
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..base.errors import MissingExtraError

if TYPE_CHECKING:
    from ..watching.arbiter import Arbiter

#: Arbiter's name of a metric -> ours, its unit (UCUM) and its description.
_GAUGES = {
    "memory/live_bytes": (
        "impactarbiter.memory.live",
        "By",
        "Memory of tensors and arrays that is alive.",
    ),
    "memory/leak_bytes_per_step": (
        "impactarbiter.leak.rate",
        "By/{step}",
        "Memory that confirmed leaks keep more each step.",
    ),
    "memory/findings": (
        "impactarbiter.findings",
        "{finding}",
        "Confirmed findings without a bound.",
    ),
}


def export(arbiter: Arbiter, provider: Any = None) -> Any:
    """Makes the gauges in a meter provider, by default the global one.

    A collection takes no look at the heap.  Returns the meter; the gauges
    go with the provider's ``shutdown()``.
    """
    try:
        from opentelemetry.metrics import get_meter_provider
    except ImportError as error:
        raise MissingExtraError(
            "opentelemetry-sdk", "this tracker", "opentelemetry"
        ) from error
    meter = (provider or get_meter_provider()).get_meter(
        "impactarbiter", __version__
    )
    for name, (ours, unit, description) in _GAUGES.items():
        meter.create_observable_gauge(
            ours,
            callbacks=[_reading(arbiter, name)],
            unit=unit,
            description=description,
        )
    return meter


def _reading(arbiter: Arbiter, name: str) -> Callable[[object], Iterable[Any]]:
    def read(_options: object) -> Iterable[Any]:
        from opentelemetry.metrics import Observation

        return [Observation(arbiter.metrics()[name])]

    return read
