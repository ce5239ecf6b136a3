"""The profiler's figures, and the two voices of the analyzer."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import (
    GPUMemoryProfiler,
    MemoryAnalyzer,
    UsageError,
    _core,
    _torch,
)
from impactarbiter.analysis import profiler as profilers
from impactarbiter.analysis import recorded as recordings
from impactarbiter.analysis.evidence import Evidence
from impactarbiter.analysis.patterns import MemoryPattern
from impactarbiter.analysis.results import (
    MemorySnapshot,
    ProfileResult,
    Results,
)
from impactarbiter.model.finding import Finding, Site
from impactarbiter.model.report import Report
from impactarbiter.watching.arbiter import current

MIB = 1 << 20


@pytest.fixture
def profiler() -> Iterator[GPUMemoryProfiler]:
    gc.collect()
    made = GPUMemoryProfiler("cpu")
    yield made
    made.close()
    assert not any(_torch.installed().values())
    assert current() is None and not _core.is_active()


# -- figures -----------------------------------------------------------------


def test_exact_bytes(profiler: GPUMemoryProfiler) -> None:
    kept = []

    def work(count: int) -> torch.Tensor:
        kept.append(torch.ones(count))
        large = torch.ones(10 * count)
        return large.sum()  # dropped by profile_function

    result = profiler.profile_function(work, 1000)
    assert result.function_name == "work"
    assert result.memory_allocated == 4000 + 40_000 + 4
    assert result.memory_freed == 40_000 + 4
    assert result.memory_diff() == 4000
    before = result.memory_before.allocated_memory
    assert result.peak_memory_usage() - before == 4000 + 40_000 + 4
    assert (result.tensors_created, result.tensors_deleted) == (3, 2)
    assert result.execution_time > 0
    assert result.memory_after.cpu_memory > 0
    assert result.memory_before.timestamp <= result.memory_after.timestamp


def test_frees_what_is_older(profiler: GPUMemoryProfiler) -> None:
    kept = [torch.ones(500)]
    result = profiler.profile_function(kept.clear)
    assert (result.memory_allocated, result.memory_freed) == (0, 2000)
    assert result.memory_diff() == -2000
    assert result.peak_memory_usage() == result.memory_before.allocated_memory


def test_memory_that_no_allocator_sees(profiler: GPUMemoryProfiler) -> None:
    numpy = pytest.importorskip("numpy")
    kept = []
    result = profiler.profile_function(
        lambda: kept.append(torch.from_numpy(numpy.ones(100)))
    )
    assert result.memory_allocated == 800


def test_nested_and_overlapping(profiler: GPUMemoryProfiler) -> None:
    with profiler.profile_function("outer") as outer:
        first = torch.ones(1000)
        with profiler.profile_function("inner") as inner:
            second = torch.ones(100)
            del second
        del first
        third = torch.ones(10)
    del third
    assert outer.result is not None and inner.result is not None
    assert outer.result.memory_allocated == 4000 + 400 + 40
    assert outer.result.memory_diff() == 40
    base = outer.result.memory_before.allocated_memory
    assert outer.result.peak_memory_usage() - base == 4400
    assert inner.result.memory_before.allocated_memory - base == 4000
    assert inner.result.peak_memory_usage() - base == 4400
    assert [r.function_name for r in profiler.results] == ["inner", "outer"]


def test_threads(profiler: GPUMemoryProfiler) -> None:
    """Windows count what the process does; each thread has its own."""
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        torch.ones(1000)
        barrier.wait()

    threads = [
        threading.Thread(target=profiler.profile_function, args=(work,))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.memory_allocated for r in profiler.results] == [16_000] * 4


def test_more_windows_than_there_are(profiler: GPUMemoryProfiler) -> None:
    handles = [_core.interval_open(0) for _ in range(70)]
    assert len(set(handles) - {0}) == 64 and handles[64:] == [0] * 6
    result = profiler.profile_function(torch.ones, 100)
    assert (result.memory_allocated, result.tensors_created) == (0, 0)
    closed = [_core.interval_close(handle) for handle in handles]
    assert all(closed[:64]) and closed[64:] == [None] * 6
    assert _core.interval_close(handles[0]) is None
    result = profiler.profile_function(torch.ones, 100)
    assert result.memory_allocated == 400


# -- ways to profile ---------------------------------------------------------


def test_decorators(profiler: GPUMemoryProfiler) -> None:
    @profiler.profile_function
    def bare() -> torch.Tensor:
        return torch.ones(2)

    @profiler.profile_function()
    def called(x: torch.Tensor, *, scale: float = 1) -> torch.Tensor:
        """Doc."""
        return x * scale

    @profiler.profile_function("other name")
    @functools.lru_cache
    def named() -> int:
        return 3

    assert len(profiler.results) == 0
    assert bare().tolist() == [1, 1]
    assert called(torch.ones(1), scale=5).tolist() == [5]
    assert called.__doc__ == "Doc." and called.__name__ == "called"
    assert named() == 3
    names = [r.function_name for r in profiler.results]
    assert names == ["bare", "called", "other name"]


def test_call_or_decorator(profiler: GPUMemoryProfiler) -> None:
    """Only what the compiler calls as a decorator is one."""

    def work() -> int:
        return 1

    profile = profiler.profile_function
    called = [
        profiler.profile_function(work),
        profile(work),
        profile(work, *()),
        profile(lambda: 1),
        next(map(profile, [work])),
        (lambda: profile(work))(),
    ]
    assert all(isinstance(r, ProfileResult) for r in called)

    class Trainer:
        @profile
        def step(self, x: int) -> int:
            return x + 1

        @staticmethod
        @profile
        def free(x: int) -> int:
            return x + 2

    assert (Trainer().step(1), Trainer.free(1)) == (2, 3)
    assert len(profiler.results) == len(called) + 2


def test_coroutines(profiler: GPUMemoryProfiler) -> None:
    @profiler.profile_function
    async def work() -> int:
        await asyncio.sleep(0)
        torch.ones(25)
        return 5

    assert asyncio.run(work()) == 5
    assert profiler.results[-1].memory_allocated == 100


def test_modules_and_methods(profiler: GPUMemoryProfiler) -> None:
    model = torch.nn.Linear(3, 4)
    result = profiler.profile_function(model, torch.ones(2, 3))
    assert result.memory_allocated == 2 * 4 * 4
    assert profiler.functions[result.function_name][1] == "Linear.forward"
    profiler.profile_function(functools.partial(model.forward, torch.ones(3)))
    profiler.profile_function(torch.ones, 3)
    assert len(profiler.results) == 3


def test_contexts(profiler: GPUMemoryProfiler) -> None:
    with profiler.profile_context("load"):
        torch.ones(10)
    with profiler.profile_function() as block:
        assert block.result is None
        torch.ones(20)
    names = [(r.function_name, r.memory_allocated) for r in profiler.results]
    assert names == [("load", 40), ("context", 80)]


def test_exceptions_go_through(profiler: GPUMemoryProfiler) -> None:
    error = KeyError("mine")

    def work() -> None:
        torch.ones(10)
        raise error

    with pytest.raises(KeyError) as caught:
        profiler.profile_function(work)
    assert caught.value is error
    with pytest.raises(KeyError):
        profiler.profile_function()(work)()
    with pytest.raises(KeyError), profiler.profile_context("c"):
        work()
    sizes = [(r.function_name, r.memory_allocated) for r in profiler.results]
    assert sizes == [("work", 40), ("work", 40), ("c", 40)]


def test_a_device_that_fails_hides_no_exception(
    profiler: GPUMemoryProfiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("device-side assert")

    def work(error: Exception | None) -> None:
        with monkeypatch.context() as patch, profiler.profile_context("c"):
            patch.setattr(profiler._device, "synchronize", fail)
            if error is not None:
                raise error

    with pytest.raises(KeyError):
        work(KeyError())
    with pytest.raises(RuntimeError, match="device-side assert"):
        work(None)
    assert profilers._measuring == 0
    profiler.profile_function(torch.ones, 10)
    assert [r.function_name for r in profiler.results] == ["ones"]


@pytest.mark.parametrize("wrong", [3, [1], object()])
def test_what_cannot_be_profiled(
    profiler: GPUMemoryProfiler, wrong: Any
) -> None:
    with pytest.raises(UsageError, match="expected a function"):
        profiler.profile_function(wrong)
    with pytest.raises(UsageError, match="arguments for no function"):
        profiler.profile_function("name", 3)


@pytest.mark.parametrize(
    "device, message",
    [
        ("meta", "expected 'cpu' or a CUDA device"),
        ("nonsense", "nonsense"),
        pytest.param(
            "cuda:7",
            "torch sees",
            marks=pytest.mark.skipif(
                torch.cuda.device_count() > 7, reason="there is one"
            ),
        ),
    ],
)
def test_devices_that_are_not_there(device: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        GPUMemoryProfiler(device)
    assert current() is None


def test_summary_and_statistics(profiler: GPUMemoryProfiler) -> None:
    assert profiler.get_summary() == {
        "message": "No profiling results available"
    }
    kept = []
    for _ in range(3):
        profiler.profile_function(torch.ones, 10)
        profiler.profile_function(kept.append, torch.ones(5))
    summary = profiler.get_summary()
    assert summary["total_function_calls"] == 6
    assert summary["total_memory_allocated"] == 120
    assert summary["memory_change_from_baseline"] == 60
    assert summary["function_summaries"]["ones"]["call_count"] == 3
    assert set(profiler.function_stats) == {"ones", "append"}
    profiler.clear_results()
    assert len(profiler.results) == 0
    profiler.profile_function(torch.ones, 10)
    assert profiler.get_summary()["memory_change_from_baseline"] == 0


def test_stack_traces() -> None:
    def deep() -> torch.Tensor:
        return torch.ones(1000)  # the peak

    def work() -> None:
        torch.ones(10)
        deep()

    with GPUMemoryProfiler("cpu", collect_stack_traces=True) as profiler:
        result = profiler.profile_function(work)
    trace = result.memory_peak.stack_trace
    assert trace is not None and trace.rstrip().endswith("# the peak")
    assert f'File "{__file__}"' in trace
    with GPUMemoryProfiler("cpu") as profiler:
        assert profiler.profile_function(work).memory_peak.stack_trace is None


def test_monitoring() -> None:
    with GPUMemoryProfiler("cpu", max_snapshots=5) as profiler:
        kept = torch.ones(1000)
        profiler.start_monitoring(0.001)
        profiler.start_monitoring(0.001)
        while len(profiler.snapshots) < 5:
            threading.Event().wait(0.005)
        profiler.stop_monitoring()
        assert len(profiler.snapshots) == 5
        assert profiler.snapshots[-1].allocated_memory == 4000
        del kept
    assert not [t for t in threading.enumerate() if "impact" in t.name]


def test_monitoring_ends_with_the_profiler() -> None:
    profiler = GPUMemoryProfiler("cpu")
    profiler.start_monitoring(3600)
    assert profiler._sampler is not None
    thread = profiler._sampler._thread
    del profiler
    gc.collect()
    thread.join(30)
    assert not thread.is_alive() and current() is None


# -- whose hooks -------------------------------------------------------------


def test_an_active_watch_is_used() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        profiler = GPUMemoryProfiler("cpu")
        assert current() is arbiter
        for _ in range(3):
            result = profiler.profile_function(torch.ones, 100)
            assert result.memory_allocated == 400
        # Its steps are the user's alone.
        assert _core.status()["ticks"] == 0
        profiler.close()
        assert current() is arbiter and _torch.installed()["allocator"]
    assert not any(_torch.installed().values())


def test_a_watch_takes_over_and_gives_back() -> None:
    profiler = GPUMemoryProfiler("cpu")
    assert current() is not None
    kept = [torch.ones(100)]
    with impactarbiter.watch(step="manual") as arbiter:
        assert current() is arbiter
        with pytest.raises(RuntimeError, match="watching already"):
            impactarbiter.watch()
        assert profiler.profile_function(torch.ones, 100).memory_allocated
    assert current() is not None and current() is not arbiter
    assert profiler.profile_function(torch.ones, 50).memory_allocated == 200
    profiler.close()
    assert current() is None and kept


def test_a_watch_inside_a_call(profiler: GPUMemoryProfiler) -> None:
    """The ledger starts anew, the call's figures go on."""

    def work() -> None:
        first = torch.ones(100)
        with impactarbiter.watch(step="manual"):
            torch.ones(10)
        del first

    result = profiler.profile_function(work)
    assert result.memory_allocated == 440
    assert result.peak_memory_usage() >= 440


def test_hooks_go_where_the_last_report_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    with GPUMemoryProfiler("cpu") as profiler:
        known = profiler.report()
        monkeypatch.setattr(type(current()), "report", fail)
    assert current() is None and not any(_torch.installed().values())
    assert profiler.report() is known


def test_hooks_go_with_the_last_profiler() -> None:
    one, other = GPUMemoryProfiler("cpu"), GPUMemoryProfiler("cpu")
    one.close()
    one.close()
    assert _torch.installed()["allocator"]
    assert other.profile_function(torch.ones, 2).memory_allocated == 8
    del other
    gc.collect()
    assert not any(_torch.installed().values())
    assert _core.collector_event not in gc.callbacks
    assert one.report() is not None  # as it was at its end


def test_a_cycle_of_garbage_takes_the_hooks_along() -> None:
    """The finalizer runs inside a collection, whose end is not missed."""

    class Owner:
        pass

    owner = Owner()
    owner.profiler = GPUMemoryProfiler("cpu")  # type: ignore[attr-defined]
    owner.me = owner  # type: ignore[attr-defined]
    del owner
    gc.collect()
    assert not any(_torch.installed().values())
    with impactarbiter.watch(step="manual", warmup=0, window=2) as arbiter:
        for _ in range(12):
            held = torch.ones(3)
            arbiter.step()
            del held  # by its reference count
        assert _core.suspects(8) == []


def test_a_stand_in_keeps_no_phase_number() -> None:
    """A phase that outlives its arbiter leaves the next one's alone."""
    profiler = GPUMemoryProfiler("cpu")
    stand_in = current()
    assert stand_in is not None
    with stand_in.phase("one"), stand_in.phase("two"):
        arbiter = impactarbiter.watch(step="manual", warmup=1, window=2)
    kept = []
    for _ in range(12):
        kept.append(torch.ones(3))
        arbiter.step()
    assert [f.phase for f in arbiter.report().findings] == [None]
    arbiter.stop()
    profiler.close()


def test_nothing_is_kept(profiler: GPUMemoryProfiler) -> None:
    """Neither arguments, nor values, nor the exception's frames."""
    import weakref

    tensor = torch.ones(3)
    dead = weakref.ref(tensor)
    profiler.profile_function(torch.neg, tensor)
    with pytest.raises(ZeroDivisionError):
        profiler.profile_function(lambda x: 1 / 0, tensor)
    del tensor
    gc.collect()
    assert dead() is None


def test_a_child_of_fork_goes_on(profiler: GPUMemoryProfiler) -> None:
    import os

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            result = profiler.profile_function(torch.ones, 3)
            code = result.memory_allocated  # not watched: 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


# -- the ledger's voice ------------------------------------------------------


def shard_loader(profiler: GPUMemoryProfiler, count: int) -> list[Any]:
    shards: list[Any] = []

    def load_shard() -> None:
        shards.append(torch.empty(10 * MIB))

    for _ in range(count):
        profiler.profile_function(load_shard)
    return shards


def test_three_shards_are_no_leak(profiler: GPUMemoryProfiler) -> None:
    shards = shard_loader(profiler, 3)
    strict = MemoryAnalyzer(profiler, strict=True)
    (claimed,) = [
        p
        for p in strict.analyze_memory_patterns()
        if p.pattern_type == "memory_leak"
    ]
    assert claimed.metrics["total_memory_growth"] == 120 * MIB
    assert claimed.source == "statistics"

    analyzer = MemoryAnalyzer(profiler)
    patterns = analyzer.analyze_memory_patterns()
    assert not [p for p in patterns if p.pattern_type == "memory_leak"]
    (held_back,) = analyzer.withheld
    assert "3 calls of 'load_shard'" in held_back.reason
    report = analyzer.generate_optimization_report()
    assert report["withheld"][0]["reason"] == held_back.reason
    assert report["all_patterns"] == []
    assert shards


def test_a_loader_that_has_ended_is_no_leak(
    profiler: GPUMemoryProfiler,
) -> None:
    """Twelve shards, then calls that find all of them loaded."""
    shards: dict[int, torch.Tensor] = {}

    def load_shard(number: int) -> None:
        if number not in shards:
            shards[number] = torch.empty(3 * MIB)

    for i in range(40):
        profiler.profile_function(load_shard, i % 12)
    analyzer = MemoryAnalyzer(profiler)
    patterns = analyzer.analyze_memory_patterns()
    assert not [p for p in patterns if p.pattern_type == "memory_leak"]
    assert len(analyzer.withheld) == 1


def test_a_leak_has_its_findings(profiler: GPUMemoryProfiler) -> None:
    """Large enough for both voices; kilobytes for the ledger alone."""
    kept: list[Any] = []
    small: list[Any] = []

    def load() -> None:
        kept.append(torch.empty(3 * MIB))

    def note() -> None:
        small.append(torch.empty(256))

    for _ in range(15):
        profiler.profile_function(load)
        profiler.profile_function(note)
    analyzer = MemoryAnalyzer(profiler)
    analyzer.analyze_memory_patterns()
    for _ in range(5):
        profiler.profile_function(load)
        profiler.profile_function(note)
    leaks = {
        p.affected_functions[0]: p
        for p in analyzer.analyze_memory_patterns()
        if p.pattern_type == "memory_leak"
    }
    assert set(leaks) == {"load", "note"}
    large = leaks["load"]
    assert large.source == "ledger" and large.severity != "info"
    assert large.metrics["total_memory_growth"] == 20 * 12 * MIB
    (finding,) = large.findings
    assert finding.verdict == "leak" and "kept" in str(finding.path)
    assert finding.grown_at is not None
    assert large.metrics["evidence"]["holder"] == finding.holder.expression  # type: ignore[union-attr]
    tiny = leaks["note"]
    assert tiny.source == "ledger"
    assert tiny.metrics["call_count"] > 0
    assert tiny.metrics["total_memory_growth"] == 20 * 1024
    report = analyzer.generate_optimization_report()
    json.dumps(report)  # plain data
    assert [p["source"] for p in report["all_patterns"]][:2] == ["ledger"] * 2
    assert report["forecast"]["held_by"]
    live = sum(report["accounted"].values())
    assert live == _core.totals()["live_bytes"]
    # How soon it kills, and so how urgent it is, depends on the machine, and
    # on when it was asked.
    urgency = {"critical": "high", "warning": "medium", "info": "low"}
    told = {r["description"]: r for r in report["recommendations"]}
    severity = {
        p["description"]: p["severity"] for p in report["all_patterns"]
    }
    asked = severity[tiny.description]
    assert told[tiny.description]["priority"] == urgency[asked]
    assert told[tiny.description]["category"] == "memory_leak"


def test_strict_is_silent_of_the_ledger(profiler: GPUMemoryProfiler) -> None:
    kept = []

    def note() -> None:
        kept.append(torch.empty(256))

    for _ in range(12):
        profiler.profile_function(note)
    strict = MemoryAnalyzer(profiler, strict=True)
    report = strict.generate_optimization_report()
    assert {p["pattern_type"] for p in report["all_patterns"]} <= {
        "repeated_allocations",
        "memory_spikes",
    }
    assert set(report) == {
        "summary",
        "critical_issues",
        "high_impact_insights",
        "all_patterns",
        "all_insights",
        "recommendations",
        "optimization_score",
    }
    assert kept


def test_a_watch_without_a_profiler() -> None:
    """What the active watch() proves, with no results at all."""
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(10):
            kept.append(torch.ones(64))
            arbiter.step()
        arbiter.report()
        for _ in range(5):
            kept.append(torch.ones(64))
            arbiter.step()
        (leak,) = MemoryAnalyzer().analyze_memory_patterns()
        assert leak.source == "ledger"
        assert leak.affected_functions == ["test_a_watch_without_a_profiler"]
        assert MemoryAnalyzer(strict=True).analyze_memory_patterns() == []
        assert MemoryAnalyzer().analyze_memory_patterns([]) == []
    (leak,) = MemoryAnalyzer(evidence=arbiter).analyze_memory_patterns()
    assert leak.findings[0].verdict == "leak"


SITE = Site("/app/train.py", 7, "Trainer.step", "x.append(y)")


def statistical(calls: int = 50) -> MemoryPattern:
    return MemoryPattern(
        "memory_leak", "d", "warning", ["step"], {"call_count": calls}, ["s"]
    )


def evidence(*findings: Finding, **fields: Any) -> Evidence:
    report = Report(findings=findings, steps=100, needed_steps=8, **fields)
    return Evidence(report, {"step": (SITE.file, SITE.function)})


@pytest.mark.parametrize(
    "verdict, source",
    [("leak", "ledger"), ("cycle", "ledger"), ("growing", "statistics")],
)
def test_findings_join_statistics(verdict: str, source: str) -> None:
    finding = Finding(
        verdict=verdict, severity="critical", allocated_at=SITE, advice="do"
    )
    said = evidence(finding)
    (pattern,), withheld = said.weigh([statistical()])
    assert pattern.source == source and pattern.findings == (finding,)
    assert pattern.severity == "critical" and withheld == []
    assert pattern.metrics["evidence"]["verdict"] == verdict
    assert pattern.suggestions[0] == "do"
    assert said.patterns([pattern]) == []


@pytest.mark.parametrize("verdict", ["cache", "accumulation"])
def test_bounded_growth_is_no_leak(verdict: str) -> None:
    finding = Finding(verdict=verdict, allocated_at=SITE)
    standing, (withheld,) = evidence(finding).weigh([statistical()])
    assert standing == [] and withheld.reason.startswith(verdict)
    assert evidence(finding).patterns([]) == []


def test_when_the_ledger_cannot_say() -> None:
    pattern = statistical()
    elsewhere = Evidence(Report(steps=100, needed_steps=8), {})
    assert elsewhere.weigh([pattern]) == ([pattern], [])
    # Many calls, but next to no steps: nobody has ended any.
    unwatched = Evidence(
        Report(steps=2, needed_steps=8), {"step": ("/app/train.py", "f")}
    )
    assert unwatched.weigh([pattern]) == ([pattern], [])
    # It grows up to its last call.
    growing = Evidence(
        Report(steps=100, needed_steps=8),
        {"step": ("/app/train.py", "f")},
        frozenset({"step"}),
    )
    assert growing.weigh([pattern]) == ([pattern], [])
    # It does not.
    assert evidence().weigh([pattern])[0] == []


def test_chosen_results_limit_the_ledger() -> None:
    mine = Finding(verdict="leak", allocated_at=SITE)
    other = Finding(verdict="leak", allocated_at=Site("/app/x.py", 1, "f"))
    said = evidence(mine, other)
    assert len(said.patterns([])) == 2
    (only,) = said.patterns([], {"step"})
    assert only.findings == (mine,)


def test_masked_names_prove_nothing() -> None:
    """Under obfuscate=True no function can be told from another."""
    with impactarbiter.watch(step="manual", obfuscate=True):
        profiler = GPUMemoryProfiler("cpu")
        shards = shard_loader(profiler, 3)
        patterns = MemoryAnalyzer(profiler).analyze_memory_patterns()
        assert [p.source for p in patterns] == ["statistics"]
        profiler.close()
    assert shards


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="expected a GPUMemoryProfiler"):
        MemoryAnalyzer(3)
    with pytest.raises(UsageError, match="expected an Arbiter"):
        MemoryAnalyzer(evidence=3)  # type: ignore[arg-type]
    analyzer = MemoryAnalyzer()
    for wrong, found in ((3, "int"), ([3], "int"), ([{}], "dict")):
        for work, kind in (
            (analyzer.analyze_memory_patterns, "ProfileResult"),
            (analyzer.generate_performance_insights, "ProfileResult"),
            (analyzer.generate_optimization_report, "ProfileResult"),
            (analyzer.analyze_memory_gaps, "events"),
            (
                lambda e: analyzer.generate_optimization_report(events=e),
                "events",
            ),
        ):
            said = rf"^got .*\b{found}\b.*: expected a list of {kind}"
            with pytest.raises(TypeError, match=said):
                work(wrong)  # type: ignore[operator]


def test_results_of_other_profilers() -> None:
    """Anything with their attributes; the ledger says nothing of them."""
    snapshot = MemorySnapshot(0, *[0] * 7)
    after = MemorySnapshot(1, 60 * MIB, *[0] * 6)
    calls = [
        ProfileResult("f", 0.1, snapshot, after, after, 60 * MIB, 0, 1, 0)
        for _ in range(3)
    ]

    class Other:
        results = calls

    (pattern,) = MemoryAnalyzer(Other()).analyze_memory_patterns()
    assert pattern.pattern_type == "memory_leak"
    assert len(Results.of(calls)) == 3


def test_import_stays_light() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            "import sys, impactarbiter\n"
            "print('torch' in sys.modules, 'numpy' in sys.modules)\n"
            "impactarbiter.MemoryAnalyzer\n"
            "print('scipy' in sys.modules)\n",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "False False\nFalse\n", done.stderr


# -- two profilers -----------------------------------------------------------


def test_a_profiler_does_not_tell_of_another_s_functions(
    profiler: GPUMemoryProfiler,
) -> None:
    kept: list[torch.Tensor] = []

    def leaks() -> None:
        kept.append(torch.ones(1000))

    def works() -> None:
        torch.ones(1000)

    with GPUMemoryProfiler("cpu") as other:
        for _ in range(40):
            profiler.profile_function(leaks)
            other.profile_function(works)
        assert len(other.results) == 40
        (pattern,) = MemoryAnalyzer(profiler).analyze_memory_patterns()[:1]
        assert pattern.affected_functions == ["leaks"]
        told = MemoryAnalyzer(other).analyze_memory_patterns()
        assert [p for p in told if p.pattern_type == "memory_leak"] == []
        # What it calls itself is its own, whoever else calls it.
        other.profile_function(leaks)
        told = MemoryAnalyzer(other).analyze_memory_patterns()
        assert told[0].affected_functions == ["leaks"]


def test_a_call_inside_of_another_profiler_s_is_no_step(
    profiler: GPUMemoryProfiler,
) -> None:
    with GPUMemoryProfiler("cpu") as other:
        for _ in range(3):
            with profiler.profile_context("step"):
                for _ in range(5):
                    other.profile_function(torch.ones, 10)
        report = profiler.report()
        assert report is not None and report.steps == 3
        assert len(other.results) == 15 and len(profiler.results) == 3


# -- as gpumemprof has them --------------------------------------------------


def moment(at: float, allocated: int) -> MemorySnapshot:
    same = [allocated] * 5
    return MemorySnapshot(float(at), *same, inactive_memory=0, cpu_memory=0)


def changes(*sizes: int) -> list[ProfileResult]:
    """A call for each number of MiB that it left, or freed."""
    return [
        ProfileResult(
            function_name="work",
            execution_time=0.1,
            memory_before=moment(i, max(-size, 0) * MIB),
            memory_after=moment(i + 0.1, max(size, 0) * MIB),
            memory_peak=moment(i + 0.1, max(size, 0) * MIB),
            memory_allocated=max(size, 0) * MIB,
            memory_freed=max(-size, 0) * MIB,
            tensors_created=0,
            tensors_deleted=0,
        )
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "leaks"),
    [
        ((1000, 1000, *[-10] * 11), False),
        ((1000, 1000, -10, -10, -10), False),
        ((1000, 1000, -10, -10), True),
        ((1000, 1000, *[0] * 11), True),
    ],
)
def test_who_frees_in_most_calls_leaks_not(
    sizes: tuple[int, ...], leaks: bool
) -> None:
    patterns = MemoryAnalyzer().analyze_memory_patterns(changes(*sizes))
    assert leaks == any(p.pattern_type == "memory_leak" for p in patterns)


def sample(at: int, used: int, inactive: int = 0, phase: str = "") -> Any:
    """Telemetry of a device of 16 GiB whose allocator has 2 of them."""
    return types.SimpleNamespace(
        event_type="sample",
        timestamp=float(at),
        device_used=used * MIB,
        memory_reserved=2048 * MIB,
        device_total=16384 * MIB,
        inactive_memory=inactive * MIB,
        phase=phase,
    )


def gaps(events: list[Any]) -> list[dict[str, Any]]:
    report = MemoryAnalyzer().generate_optimization_report([], events=events)
    json.dumps(report)
    found: list[dict[str, Any]] = report["gap_analysis"]
    return found


def test_a_report_without_events_has_no_telemetry() -> None:
    report = MemoryAnalyzer().generate_optimization_report([])
    assert "gap_analysis" not in report
    assert "analysis_availability" not in report


def test_no_samples_are_said_to_answer_nothing() -> None:
    report = MemoryAnalyzer().generate_optimization_report([], events=[])
    assert report["gap_analysis"] == report["collective_attribution"] == []
    missing = report["analysis_availability"]["gap_analysis"]
    assert missing["available"] is False and "no sample" in missing["reason"]


def test_a_small_gap_is_none() -> None:
    assert gaps([sample(i, 2048 + i) for i in range(20)]) == []


def test_a_gap_that_drifts() -> None:
    (found,) = gaps([sample(i, 2548 + 100 * i) for i in range(30)])
    assert found["classification"] == "persistent_drift"
    assert found["severity"] == "critical"
    evidence = found["evidence"]
    assert evidence["slope_bytes_per_sec"] == pytest.approx(100 * MIB)
    assert evidence["gap_end_bytes"] == 3400 * MIB
    assert "100 MiB more a second" in found["description"]


def test_a_spike_says_its_phase() -> None:
    (found,) = gaps(
        [
            sample(i, 6048 if i in (10, 20) else 2148, phase="ab"[i == 10])
            for i in range(30)
        ]
    )
    assert found["classification"] == "transient_spike"
    assert found["evidence"]["spike_count"] == 2
    assert found["phase"] == "b"


def test_fragmentation_is_of_inactive_blocks() -> None:
    (found,) = gaps([sample(i, 4096, inactive=1200) for i in range(9)])
    assert found["classification"] == "fragmentation_like"
    assert found["severity"] == "critical"


def test_events_with_gpumemprof_s_names() -> None:
    events = [
        types.SimpleNamespace(
            event_type="sample",
            timestamp_ns=10**9 * i,
            device_used_bytes=(2548 + 100 * i) * MIB,
            allocator_reserved_bytes=2048 * MIB,
            device_total_bytes=16384 * MIB,
            allocator_inactive_bytes=None,
        )
        for i in range(30)
    ]
    (found,) = gaps(events)
    assert found["evidence"]["slope_bytes_per_sec"] == pytest.approx(100 * MIB)


def test_the_tracker_s_own_events_are_taken() -> None:
    tracker = impactarbiter.MemoryTracker("cpu", sampling_interval=60)
    with tracker:
        for _ in range(5):
            tracker._sample()
    assert isinstance(gaps(tracker.events), list)


# -- torch's recording of a phase --------------------------------------------


def test_a_snapshot_on_the_cpu_says_what_it_needs(
    profiler: GPUMemoryProfiler,
) -> None:
    with (
        pytest.raises(UsageError, match="on CUDA alone") as caught,
        profiler.profile_context("p", snapshot="p.pickle"),
    ):
        raise AssertionError("the block is not begun")
    assert "\n" not in str(caught.value)
    assert len(profiler.results) == 0


class FakeMemory:
    """torch.cuda.memory, as far as a recording needs it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def _record_memory_history(self, **options: Any) -> None:
        self.calls.append(options)

    def _dump_snapshot(self, path: str) -> None:
        self.calls.append(path)


@pytest.mark.parametrize("on_before", [False, True])
def test_a_recording_is_written_and_ended(
    monkeypatch: pytest.MonkeyPatch, on_before: bool
) -> None:
    memory = FakeMemory()
    monkeypatch.setattr(recordings, "_memory_of", lambda device: memory)
    monkeypatch.setattr(recordings, "_is_recording", lambda: on_before)
    with pytest.raises(KeyError), recordings.recorded("cuda:0", "p.pickle"):
        raise KeyError
    whole = [{"stacks": "python"}, "p.pickle", {"enabled": None}]
    assert memory.calls == (["p.pickle"] if on_before else whole)
