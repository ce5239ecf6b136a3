"""Finds what keeps tensors alive while a PyTorch program runs.

Importing this package imports no framework and installs no hook::

    import impactarbiter

    with impactarbiter.watch() as arbiter:
        train()
    print(arbiter.report())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base.errors import (
    AlreadyWatchingError,
    ImpactArbiterError,
    MissingExtraError,
    ReportError,
    UsageError,
)

if TYPE_CHECKING:
    from .analysis.analyzer import MemoryAnalyzer
    from .analysis.insights import PerformanceInsight
    from .analysis.patterns import MemoryPattern
    from .analysis.profiler import GPUMemoryProfiler
    from .analysis.tracker import MemoryTracker
    from .judging.allowlist import allow, allow_object
    from .model.finding import Finding, Holder, Site
    from .model.path import Edge, Path
    from .model.report import Report
    from .model.retention import Retention
    from .watching.arbiter import Arbiter, watch
    from .watching.explain import explain, retained_bytes
    from .watching.recorder import FlightRecorder
    from .watching.snapshot import Snapshot, snapshot

__version__ = "0.1.0"

__all__ = [
    "AlreadyWatchingError",
    "Arbiter",
    "Edge",
    "Finding",
    "FlightRecorder",
    "GPUMemoryProfiler",
    "Holder",
    "ImpactArbiterError",
    "MemoryAnalyzer",
    "MemoryPattern",
    "MemoryTracker",
    "MissingExtraError",
    "Path",
    "PerformanceInsight",
    "Report",
    "ReportError",
    "Retention",
    "Site",
    "Snapshot",
    "UsageError",
    "allow",
    "allow_object",
    "explain",
    "retained_bytes",
    "snapshot",
    "watch",
]

#: Name -> module that has it; imported on first use, so that the package
#: itself imports in a moment and without NumPy or torch.
_HOME = {
    "Arbiter": "watching.arbiter",
    "Edge": "model.path",
    "Finding": "model.finding",
    "FlightRecorder": "watching.recorder",
    "GPUMemoryProfiler": "analysis.profiler",
    "Holder": "model.finding",
    "MemoryAnalyzer": "analysis.analyzer",
    "MemoryPattern": "analysis.patterns",
    "MemoryTracker": "analysis.tracker",
    "Path": "model.path",
    "PerformanceInsight": "analysis.insights",
    "Report": "model.report",
    "Retention": "model.retention",
    "Site": "model.finding",
    "Snapshot": "watching.snapshot",
    "allow": "judging.allowlist",
    "allow_object": "judging.allowlist",
    "explain": "watching.explain",
    "retained_bytes": "watching.explain",
    "snapshot": "watching.snapshot",
    "watch": "watching.arbiter",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext impactarbiter``: the magics for notebooks."""
    from .integrations import jupyter

    jupyter.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext impactarbiter``: stops what the magics watch."""
    from .integrations import jupyter

    jupyter.unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
