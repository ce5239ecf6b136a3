"""What a user does with us, while allocations of ours fail.

Run with inject.so preloaded.  Each case is a forked child of its own, in
which one allocation fails; what came of it is a line of JSON.  The argument
says which share of the cases is run: 1, all of them; 2, every other one; the
names of scenarios may follow, "carrying:ia_graphs_lead_back" for those of its
cases that fail in what this function calls.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from _ctypes import PyObj_FromPtr
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

import impactarbiter
from impactarbiter import _core, _torch
from impactarbiter.base.errors import ImpactArbiterError
from impactarbiter.reports.read_bundle import read_bundle
from impactarbiter.watching import arbiter as watches

LIMIT = 300  # seconds for one case
STEPS = 12
CARRIED_STEPS = 40  # until the statement has been watched
OPTIONS: dict[str, Any] = {"step": "manual", "warmup": 1, "window": 2}

faults = ctypes.CDLL(None)
faults.ia_faults_begin.argtypes = [
    ctypes.c_uint64,
    ctypes.c_long,
    ctypes.c_int,
]
faults.ia_faults_begin.restype = None
faults.ia_faults_end.restype = ctypes.c_long
faults.ia_faults_number.argtypes = [ctypes.c_long]
faults.ia_faults_number.restype = ctypes.c_uint64
faults.ia_faults_offset.argtypes = [ctypes.c_long, ctypes.c_int]
faults.ia_faults_offset.restype = ctypes.c_uint32
DEPTH, IN_TORCH = 4, 1 << 31


# -- the user's program ------------------------------------------------------


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, by)
        return x * by

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, by = ctx.saved_tensors
        return grad * by, (grad * x).sum()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.by = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Scale.apply(self.first(x), self.by)


class Ring:
    """A garbage cycle with a tensor on it."""

    def __init__(self) -> None:
        self.me = self
        self.data = torch.ones(7)


kept: list[torch.Tensor] = []
rows: dict[str, list[torch.Tensor]] = {"rows": []}


def program(step: Callable[[], None]) -> list[float]:
    """The same numbers each time; a list, a dict and cycles that grow."""
    kept.clear()
    rows["rows"].clear()
    torch.manual_seed(3)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for i in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.rand(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        kept.append(loss)
        rows["rows"].append(torch.full((16,), float(i)))
        Ring()
        losses.append(loss.item())
        step()
    return losses


# -- what is done with us ----------------------------------------------------


class Outcome:
    """What each call of ours gave, or raised."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.raised: dict[str, str] = {}
        self.said: list[str] = []  # warnings of a report
        self.wrong: list[str] = []
        self.statements: list[str] = []  # seen to grow a holder

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        """None where it raised what it may."""
        try:
            self.given[name] = result = work()
            return result
        except (MemoryError, ImpactArbiterError) as error:
            self.raised[name] = f"{type(error).__name__}: {error}"
        except Exception:
            self.wrong.append(traceback.format_exc())
        return None


def summary(report: impactarbiter.Report) -> list[list[Any]]:
    """Whole: what it says is what is read back."""
    again = impactarbiter.Report.from_dict(
        json.loads(json.dumps(report.to_dict()))
    )
    assert again == report
    return sorted(
        [
            f.verdict,
            str(f.allocated_at),
            str(f.path),
            f.retained_tensors,
            f.retained_bytes,
        ]
        for f in report.findings
    )


def training(out: Outcome, folder: str) -> None:
    """watch() over a whole run, and its report."""
    arbiter = out.call("watch", lambda: impactarbiter.watch(**OPTIONS))
    out.given.clear()
    out.given["losses"] = program(arbiter.step if arbiter else lambda: None)
    if arbiter is None:
        return
    report = out.call("stop", arbiter.stop)
    if report is not None:
        out.said += report.warnings
        out.given["stop"] = summary(report)


def questions(out: Outcome, folder: str) -> None:
    """What may be asked without a watch."""
    found = out.call("explain", lambda: impactarbiter.explain(rows["rows"][3]))
    if found is not None:
        out.given["explain"] = [str(path) for path in found.paths]
    out.call("retained_bytes", lambda: impactarbiter.retained_bytes(rows))
    found = out.call("explain class", lambda: impactarbiter.explain(Net))
    if found is not None:
        out.given["explain class"] = str(found).count("Net")


def recording(out: Outcome, folder: str) -> None:
    """A flight recorder, and the bundle that it writes."""
    recorder = impactarbiter.FlightRecorder(folder, events=64, interval=0)
    if "start" in (out.call("start", recorder.start), *out.raised):
        return
    held = [torch.ones(5) for _ in range(3)]
    bundle = out.call("capture", lambda: recorder.capture("test"))
    out.call("end", recorder.stop)
    out.given.clear()
    if bundle is not None:
        read = read_bundle(bundle)
        out.said += read.report.warnings if read.report else ["none"]
        out.given["bundle"] = [len(held), read.by_site(), len(read.events)]


def photographing(out: Outcome, folder: str) -> None:
    """Two snapshots and what lies between them."""
    arbiter = out.call("watch", lambda: impactarbiter.watch(**OPTIONS))
    out.given.clear()
    if arbiter is None:
        return
    with arbiter:
        first = out.call("first", impactarbiter.snapshot)
        held = torch.ones(100)
        second = out.call("second", impactarbiter.snapshot)
        out.given.clear()
        if first is not None and second is not None:
            out.said += [str(second)] if second.lost else []
            out.given["between"] = [len(second - first), held.numel()]
        out.call("rows", lambda: len(_core.rows()))


class Carried:
    def __init__(self) -> None:
        self.state = torch.zeros(3, requires_grad=True)


def turn(carried: Carried, weight: torch.Tensor) -> float:
    """A call that a loop makes: what it collects goes with it."""
    parts = []
    for _ in range(2):
        parts.append(torch.ones(3))
    carried.state = carried.state * weight + parts[-1]
    return float(carried.state.detach().sum())


def carrying(out: Outcome, folder: str) -> None:
    """Statements are watched, by a graph that grows without more items."""
    carried, weight = Carried(), torch.full((3,), 0.5, requires_grad=True)
    allowed: list[torch.Tensor] = []
    watch = impactarbiter.watch
    out.call("allow", lambda: impactarbiter.allow_object(allowed))
    arbiter = out.call("watch", lambda: watch(**OPTIONS))
    out.given.clear()
    sums = []
    for _ in range(CARRIED_STEPS):
        sums.append(turn(carried, weight))
        allowed.append(torch.ones(5))
        if arbiter:
            arbiter.step()
    out.given["sums"] = sums
    report = out.call("stop", arbiter.stop) if arbiter else None
    if report is not None:
        out.said += report.warnings
        out.said += [f"raised: {name}" for name in out.raised]
        out.given["stop"] = summary(report)
        found = [f.grown_at for f in report.findings if f.grown_at]
        out.statements += [str(site.source) for site in found]


class Keeper(torch.nn.Module):
    """Once it is a script, Python has none of the tensors that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.jit.Attribute([], list[torch.Tensor])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.append(x * 2)
        return self.kept[-1] + 1


def scripting(out: Outcome, folder: str) -> None:
    """What a script has in C++ is walked."""
    keeper = torch.jit.script(Keeper())
    keep_in_script(out, lambda i: float(keeper(torch.full((9,), i)).sum()))


class pybind11_type(type(ctypes.c_void_p)):  # type: ignore[misc]
    """By this name the classes that pybind11 makes are known."""


class Box(ctypes.c_void_p, metaclass=pybind11_type):
    """Has the address of what lies in C++."""


def searching(out: Outcome, folder: str) -> None:
    """No walk leads to a list that C alone has: who has what it keeps is
    searched for in all memory."""
    listed = torch.jit.script([torch.zeros(1)])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(listed))
    address = id(listed)
    box = Box.from_buffer_copy(
        ctypes.c_void_p.from_address(address + object.__basicsize__)
    )
    del listed

    def use(i: int) -> float:
        kept = PyObj_FromPtr(address)
        kept.append(torch.full((9,), i) * 2)
        return float(kept[-1].sum())

    keep_in_script(out, use)
    held = out.call(
        "explain", lambda: impactarbiter.explain(PyObj_FromPtr(address)[1])
    )
    if held is not None:
        # One tensor's way is found or not, as malloc's memory happens to be.
        out.given["explain"] = held.verdict
    listed = PyObj_FromPtr(address)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(listed))
    del box


def keep_in_script(out: Outcome, use: Callable[[int], float]) -> None:
    arbiter = out.call("watch", lambda: impactarbiter.watch(**OPTIONS))
    out.given.clear()
    out.given["sums"] = []
    for i in range(STEPS):
        out.given["sums"].append(use(i))
        if arbiter:
            arbiter.step()
    report = out.call("stop", arbiter.stop) if arbiter else None
    if report is not None:
        out.said += report.warnings
        out.given["stop"] = summary(report)
        found = [held for f in report.findings for held in f.held_in]
        out.given["held in"] = [str(held) for held in found]


SCENARIOS = [
    training,
    questions,
    recording,
    photographing,
    carrying,
    scripting,
    searching,
]


# -- cases -------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The ``nth`` call from a place fails, and all after where ``on``."""

    scenario: str
    place: int
    nth: int
    on: bool

    def run(self, expected: dict[str, Any]) -> dict[str, Any]:
        scenario = globals()[self.scenario]
        out = Outcome()
        gc.collect()
        with tempfile.TemporaryDirectory() as folder:
            faults.ia_faults_begin(self.place, self.nth, self.on)
            scenario(out, folder)
            faults.ia_faults_end()
            left = watches.current()
            if left or any(_torch.installed().values()) or _core.is_active():
                out.wrong.append("a hook was left behind")
            if not _core.consistent():
                out.wrong.append("the ledger's totals are wrong")
            # Afterwards all is as if nothing had been.
            for _ in range(MOST_SEARCHES):
                gc.collect()
                again = Outcome()
                scenario(again, folder)
                if scenario is not searching or again.given.get("held in"):
                    break
        if again.given != expected or again.raised or again.wrong:
            out.wrong.append(f"afterwards: {vars(again)}")
        for name, value in out.given.items():
            right = value == expected[name]
            if not right and (name in ("losses", "sums") or not out.said):
                out.wrong.append(f"{name} without a word: {value}")
        return {"raised": out.raised, "said": out.said, "wrong": out.wrong}

    def run_in_child(
        self, expected: dict[str, Any], attempt: int = 0
    ) -> dict[str, Any]:
        """What came of it; ``wrong`` is empty where all is well."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            signal.alarm(LIMIT)
            move_memory(attempt)
            try:
                said = self.run(expected)
            except BaseException:
                said = {"wrong": [traceback.format_exc()]}
            with open(writer, "w") as stream:
                json.dump(said, stream)
            os._exit(0)
        os.close(writer)
        with open(reader) as stream:
            text = stream.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code < 0:
            name = signal.Signals(-code).name
            return {"wrong": [f"died of {name}"]}
        return dict(json.loads(text))


def where(call: int) -> str:
    """Module and offset, for addr2line, of the innermost frames of ours."""
    offsets = [faults.ia_faults_offset(call, i) for i in range(DEPTH)]
    return " ".join(
        f"{'_torch' if at & IN_TORCH else '_core'}+{(at & ~IN_TORCH) - 1:#x}"
        for at in offsets
        if at
    )


def span_of(function: str) -> tuple[int, int]:
    """Where a function of _core's lies, as where() counts: begin and end."""
    told = subprocess.run(
        ["nm", "--print-size", "--defined-only", _core.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in told.stdout.splitlines():
        begin, size, *_, name = line.split()
        if name == function:
            return int(begin, 16), int(begin, 16) + int(size, 16)
    raise LookupError(function)


def cases(
    scenario: str, calls: int, function: str = ""
) -> Iterator[tuple[str, Case]]:
    """The first call from each place, the last, and all of them; of those
    that lie in a function, where one is given."""
    begin, end = span_of(function) if function else (0, 0)
    numbers = [faults.ia_faults_number(i) for i in range(calls)]
    counts = Counter(numbers)
    for number in dict.fromkeys(numbers):
        first = numbers.index(number)
        at = where(first)
        offsets = [faults.ia_faults_offset(first, i) for i in range(DEPTH)]
        if function and not any(begin < at <= end for at in offsets):
            continue
        for nth in sorted({1, counts[number]}):
            yield at, Case(scenario, number, nth, False)
        if counts[number] > 1:
            yield at, Case(scenario, number, 1, True)


#: What a search of the process's memory finds hangs on what else lies there:
#: in one of a hundred and fifty places nothing is named, with a fault and
#: without.
MOST_SEARCHES = 5


def move_memory(turns: int) -> None:
    """What malloc gives next lies elsewhere than without this."""
    malloc = ctypes.CDLL(None).malloc
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    for size in range(24, 2048, 16):
        for _ in range(turns):
            malloc(size)  # kept


def count(
    scenario: Callable[[Outcome, str], None],
) -> tuple[dict[str, Any], int]:
    """What comes of it without a fault, and how often it allocates."""
    with tempfile.TemporaryDirectory() as folder:
        scenario(Outcome(), folder)  # what is made once is made
        for attempt in range(MOST_SEARCHES):
            move_memory(attempt)
            out = Outcome()
            gc.collect()
            faults.ia_faults_begin(0, 0, False)
            scenario(out, folder)
            calls = faults.ia_faults_end()
            if scenario is not searching or out.given.get("held in"):
                break
    assert not out.raised and not out.wrong, vars(out)
    assert scenario is not carrying or out.statements
    assert scenario is not searching or out.given["held in"]
    return out.given, calls


def main(share: int, names: list[str]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    gc.disable()  # the same garbage each time
    gc.freeze()  # what was there before takes no time
    plain = program(lambda: None)
    asked = dict(name.partition(":")[::2] for name in names)
    for scenario in SCENARIOS:
        if asked and scenario.__name__ not in asked:
            continue
        expected, calls = count(scenario)
        assert expected.get("losses", plain) == plain
        name = scenario.__name__
        todo = list(cases(name, calls, asked.get(name, "")))
        told = {"scenario": name, "calls": calls, "cases": len(todo)}
        print(json.dumps(told), flush=True)
        for at, case in todo[::share]:
            for attempt in range(MOST_SEARCHES):
                told = {**asdict(case), "where": at}
                told |= case.run_in_child(expected, attempt)
                if scenario is not searching or not told["wrong"]:
                    break
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
