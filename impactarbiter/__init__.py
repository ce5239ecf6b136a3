"""Finds what keeps tensors alive while a PyTorch program runs.

Importing this package imports no framework and installs no hook::

    import impactarbiter

    with impactarbiter.watch() as arbiter:
        train()
    print(arbiter.report())

pytest's word for what it is not to rewrite, as the launcher has imported it
before: PYTEST_DONT_REWRITE.
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
from .base.later import part_of

if TYPE_CHECKING:
    from .analysis.analyzer import MemoryAnalyzer
    from .analysis.gaps import GapFinding
    from .analysis.insights import PerformanceInsight
    from .analysis.patterns import MemoryPattern
    from .analysis.profiler import GPUMemoryProfiler, Profiled
    from .analysis.results import MemorySnapshot, ProfileResult
    from .analysis.tracker import MemoryTracker
    from .judging.allowlist import AllowRule, allow, allow_object
    from .model.children import ChildFinding, Children
    from .model.devices import DeviceMemory
    from .model.finding import (
        Cycle,
        Finding,
        GraphCost,
        Holder,
        Kept,
        NativeCall,
        Reader,
        Site,
        TensorExample,
        Variable,
    )
    from .model.growth import (
        LaterGrowth,
        LaterLine,
        ProcessGrowth,
        TypeGrowth,
    )
    from .model.history import Ages, Excerpt, History, LineCurve, PurposePoint
    from .model.live import LiveStack, LiveTable
    from .model.moment import Moment
    from .model.path import Edge, Path
    from .model.process import Process
    from .model.report import Cost, GrowingLine, LineBytes, Report
    from .model.retention import (
        Elsewhere,
        InstanceGroup,
        Instances,
        Retention,
        Retentions,
    )
    from .model.words import (
        RetentionVerdict,
        Severity,
        StepKind,
        StepMode,
        Verdict,
    )
    from .watching.arbiter import Arbiter, watch
    from .watching.explain import explain, retained_bytes
    from .watching.recorder import FlightRecorder
    from .watching.snapshot import Snapshot, snapshot

__version__ = "0.2.0"

__all__ = [
    "Ages",
    "AllowRule",
    "AlreadyWatchingError",
    "Arbiter",
    "ChildFinding",
    "Children",
    "Cost",
    "Cycle",
    "DeviceMemory",
    "Edge",
    "Elsewhere",
    "Excerpt",
    "Finding",
    "FlightRecorder",
    "GPUMemoryProfiler",
    "GapFinding",
    "GraphCost",
    "GrowingLine",
    "History",
    "Holder",
    "ImpactArbiterError",
    "InstanceGroup",
    "Instances",
    "Kept",
    "LaterGrowth",
    "LaterLine",
    "LineBytes",
    "LineCurve",
    "LiveStack",
    "LiveTable",
    "MemoryAnalyzer",
    "MemoryPattern",
    "MemorySnapshot",
    "MemoryTracker",
    "MissingExtraError",
    "Moment",
    "NativeCall",
    "Path",
    "PerformanceInsight",
    "Process",
    "ProcessGrowth",
    "ProfileResult",
    "Profiled",
    "PurposePoint",
    "Reader",
    "Report",
    "ReportError",
    "Retention",
    "RetentionVerdict",
    "Retentions",
    "Severity",
    "Site",
    "Snapshot",
    "StepKind",
    "StepMode",
    "TensorExample",
    "TypeGrowth",
    "UsageError",
    "Variable",
    "Verdict",
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
    "Ages": "model.history",
    "AllowRule": "judging.allowlist",
    "Arbiter": "watching.arbiter",
    "ChildFinding": "model.children",
    "Children": "model.children",
    "Cost": "model.report",
    "Cycle": "model.finding",
    "DeviceMemory": "model.devices",
    "Edge": "model.path",
    "Elsewhere": "model.retention",
    "Excerpt": "model.history",
    "Finding": "model.finding",
    "FlightRecorder": "watching.recorder",
    "GPUMemoryProfiler": "analysis.profiler",
    "GapFinding": "analysis.gaps",
    "GraphCost": "model.finding",
    "GrowingLine": "model.report",
    "History": "model.history",
    "Holder": "model.finding",
    "InstanceGroup": "model.retention",
    "Instances": "model.retention",
    "Kept": "model.finding",
    "LaterGrowth": "model.growth",
    "LaterLine": "model.growth",
    "LineBytes": "model.report",
    "LineCurve": "model.history",
    "LiveStack": "model.live",
    "LiveTable": "model.live",
    "MemoryAnalyzer": "analysis.analyzer",
    "MemoryPattern": "analysis.patterns",
    "MemorySnapshot": "analysis.results",
    "MemoryTracker": "analysis.tracker",
    "Moment": "model.moment",
    "NativeCall": "model.finding",
    "Path": "model.path",
    "PerformanceInsight": "analysis.insights",
    "Process": "model.process",
    "ProcessGrowth": "model.growth",
    "ProfileResult": "analysis.results",
    "Profiled": "analysis.profiler",
    "PurposePoint": "model.history",
    "Reader": "model.finding",
    "Report": "model.report",
    "Retention": "model.retention",
    "RetentionVerdict": "model.words",
    "Retentions": "model.retention",
    "Severity": "model.words",
    "Site": "model.finding",
    "Snapshot": "watching.snapshot",
    "StepKind": "model.words",
    "StepMode": "model.words",
    "TensorExample": "model.finding",
    "Variable": "model.finding",
    "TypeGrowth": "model.growth",
    "Verdict": "model.words",
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
    value = globals()[name] = part_of(f"{__name__}.{_HOME[name]}", name)
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
