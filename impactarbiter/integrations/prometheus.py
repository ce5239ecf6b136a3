"""Prometheus: a collector that is asked when ``/metrics`` is scraped.

::

    from prometheus_client import start_http_server
    from impactarbiter.integrations.prometheus import export

    export(arbiter)
    start_http_server(8000)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..base.errors import MissingExtraError

if TYPE_CHECKING:
    from ..watching.arbiter import Arbiter

#: Arbiter's name of a metric -> ours, and its help.
_GAUGES = {
    "memory/live_bytes": (
        "impactarbiter_live_bytes",
        "Bytes of tensors and arrays that are alive.",
    ),
    "memory/leak_bytes_per_step": (
        "impactarbiter_leak_bytes_per_step",
        "Bytes that confirmed leaks keep more each step.",
    ),
    "memory/findings": (
        "impactarbiter_findings",
        "Confirmed findings without a bound.",
    ),
}


class LeakCollector:
    """Reads an arbiter at each scrape; holds no history of its own."""

    def __init__(self, arbiter: Arbiter) -> None:
        self._arbiter = arbiter

    def collect(self) -> Iterator[Any]:
        """Metric families, as prometheus_client asks for them."""
        from prometheus_client.core import GaugeMetricFamily

        for name, value in self._arbiter.metrics().items():
            yield GaugeMetricFamily(*_GAUGES[name], value=value)


def export(arbiter: Arbiter, registry: Any = None) -> LeakCollector:
    """Registers a collector for the arbiter, in the default registry.

    Returns it, for ``registry.unregister``.
    """
    try:
        from prometheus_client import REGISTRY
    except ImportError as error:
        raise MissingExtraError(
            "prometheus-client", "this tracker", "prometheus"
        ) from error
    collector = LeakCollector(arbiter)
    (registry or REGISTRY).register(collector)
    return collector
