"""What type checkers are to know of the interface; `make lint` asks mypy."""

from typing import Literal, assert_type

import torch

import impactarbiter
from impactarbiter import (
    Arbiter,
    Finding,
    GPUMemoryProfiler,
    Instances,
    Report,
    Retention,
    Retentions,
    explain,
)

x = torch.ones(3)
assert_type(explain(x), Retention)
assert_type(explain(x, paths=3), Retention)
assert_type(explain(x, [x]), Retentions)
assert_type(explain(torch.nn.Linear), Instances)

profiler = GPUMemoryProfiler()


@profiler.profile_function("named")
def named(number: int, /, *, twice: bool = False) -> float:
    return number * (1.0 + twice)


@profiler.profile_function
def bare(number: int) -> float:
    return float(number)


@impactarbiter.allow("on purpose")
def allowed(number: int) -> float:
    return float(number)


assert_type(named(1, twice=True), float)
assert_type(bare(1), float)
assert_type(allowed(1), float)
named("1")  # type: ignore[arg-type]
bare("1")  # type: ignore[arg-type]
assert_type(profiler.profile_function(named, 1).memory_diff(), int)

impactarbiter.watch(step="request")  # type: ignore[arg-type]


def told(finding: Finding) -> None:
    assert_type(finding.severity, Literal["info", "warning", "critical"])
    print(finding.verdict == "leek")  # type: ignore[comparison-overlap]


with impactarbiter.watch(step="manual", on_finding=told) as arbiter:
    assert_type(arbiter, Arbiter)
assert_type(arbiter.stop(), Report)
