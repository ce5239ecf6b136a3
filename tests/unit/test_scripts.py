"""What TorchScript's objects have in C++: paths to it, and what it costs."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import explain, retained_bytes

SIZE = 300
BYTES = 4 * SIZE

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.jit.Attribute({}, dict[str, list[torch.Tensor]])

    def forward(self, x: torch.Tensor, key: str) -> torch.Tensor:
        if key not in self.rows:
            self.rows[key] = []
        self.rows[key].append(x)
        return x


class Keeper(torch.nn.Module):
    """One attribute of each sort."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.jit.Attribute(torch.zeros(1), torch.Tensor)
        self.kept = torch.jit.Attribute([], list[torch.Tensor])
        self.pair = torch.jit.Attribute(
            (torch.zeros(1), 0), tuple[torch.Tensor, int]
        )
        self.by_number = torch.jit.Attribute({}, dict[int, torch.Tensor])
        self.inner = Inner()

    def forward(self, x: torch.Tensor, where: str) -> torch.Tensor:
        if where == "one":
            self.one = x
        elif where == "kept":
            self.kept.append(torch.zeros(1))
            self.kept.append(x)
        elif where == "pair":
            self.pair = (x, 1)
        elif where == "by_number":
            self.by_number[-7] = x
        else:
            return self.inner(x, where)
        return x * 2


script: torch.nn.Module


@pytest.mark.parametrize(
    ("where", "shown", "python"),
    [
        ("one", ".one", True),
        ("kept", ".kept[1]", True),
        ("pair", ".pair[0]", True),
        ("by_number", ".by_number[-7]", True),
        ("a key", "['inner'].rows['a key'][0]", True),
        ("it's", "['inner'].rows[<key>][0]", False),
        ("k" * 200, "<...>", False),
    ],
)
def test_the_path_leads_through_attributes(
    where: str, shown: str, python: bool
) -> None:
    global script
    script = torch.jit.script(Keeper())
    tensor = torch.ones(SIZE)
    script(tensor, where)
    found = explain(tensor)
    assert found.verdict == "held"
    path = found.paths[0]
    assert str(path).endswith(shown)
    assert "._c" not in str(path)
    assert path.python == python
    if python:
        package = __name__.partition(".")[0]
        assert eval(path.expression, {package: sys.modules[package]}) is tensor


def test_behind_the_object_itself_it_is_no_python() -> None:
    keeper = torch.jit.script(Keeper())
    tensor = torch.ones(SIZE)
    keeper(tensor, "kept")
    held = [keeper._c]
    del keeper
    (path,) = explain(tensor).paths
    assert str(path).endswith("held[0].<script>.kept[1]")
    assert not path.python
    assert held


class Ring(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.links = torch.jit.Attribute([], list[Any])

    def forward(self, x: torch.Tensor, itself: int) -> torch.Tensor:
        for _ in range(itself):
            self.links.append(self.links)
        self.links.append(x)
        return x


def test_a_list_that_holds_itself_is_gone_through_once() -> None:
    """Not by each of the ways to it: twelve times itself had no end."""
    global script
    script = torch.jit.script(Ring())
    tensor = torch.ones(SIZE)
    script(tensor, 1)
    (path,) = explain(tensor).paths
    assert str(path).endswith("script.links[1]")
    script(tensor, 12)
    assert explain(tensor).paths == (path,)


rows: object
table: object


def test_a_list_and_a_dict_of_a_script_s_are_walked() -> None:
    """In each of some runs: nothing is searched for."""
    global rows, table
    rows = torch._C.ScriptList([torch.ones(SIZE) for _ in range(5)])  # type: ignore[attr-defined]
    table = torch._C.ScriptDict({"a": [torch.ones(SIZE)]})  # type: ignore[attr-defined]
    for where, get in (
        ("rows[2]", lambda: rows[2]),  # type: ignore[index]
        ("table['a'][0]", lambda: table["a"][0]),  # type: ignore[index]
    ):
        for _ in range(3):
            tensor = get()
            found = explain(tensor)
            assert (found.verdict, found.held_in) == ("held", ())
            (path,) = found.paths
            assert str(path).endswith(where)
            assert path.python
            package = __name__.partition(".")[0]
            package = {package: sys.modules[package]}
            assert eval(path.expression, package) is tensor
    del tensor, found, path
    assert (retained_bytes(rows), retained_bytes(table)) == (5 * BYTES, BYTES)


@torch.jit.script
def keep(
    kept: list[torch.Tensor], seen: dict[int, torch.Tensor], x: torch.Tensor
):  # type: ignore[no-untyped-def]
    kept.append(x + 1)
    seen[len(seen)] = x + 2


@pytest.mark.parametrize("cleared", [False, True])
def test_a_list_and_a_dict_of_a_script_s_are_holders(cleared: bool) -> None:
    kept = torch._C.ScriptList([torch.zeros(1)])  # type: ignore[attr-defined]
    seen = torch._C.ScriptDict({0: torch.zeros(1)})  # type: ignore[attr-defined]
    with impactarbiter.watch(step="manual") as arbiter:
        for i in range(40):
            keep(kept, seen, torch.ones(SIZE))
            if cleared and i % 5 == 4:
                kept.clear()
                for key in list(seen):
                    del seen[key]
            arbiter.step()
        found = arbiter.report().findings
    if cleared:
        assert not [f for f in found if f.verdict == "leak"]
        return
    holders = [f.holder.expression for f in found if f.holder]
    assert {h.rpartition(".")[2] for h in holders} == {"kept", "seen"}
    assert {f.verdict for f in found} == {"leak"}
    assert [f.bytes_per_step for f in found] == pytest.approx([BYTES] * 2)


class Births(torch.nn.Module):
    """Python never has these tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.jit.Attribute([], list[torch.Tensor])

    def forward(self, x: torch.Tensor, n: int) -> int:
        for i in range(n):
            self.kept.append(x * i)
        return len(self.kept)


def grow(births: torch.nn.Module, n: int) -> None:
    births(torch.ones(SIZE), n)


def test_what_it_retains_is_counted() -> None:
    births = torch.jit.script(Births())
    grow(births, 20)
    assert retained_bytes(births) == 20 * BYTES
    holder = [births]
    assert explain(births).paths[0].edges[-1].retained_bytes == 20 * BYTES
    del births
    assert retained_bytes(holder) == 20 * BYTES


@torch.jit.script
def squeezed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.relu(x @ w)).sum()


def test_what_a_piece_that_was_differentiated_saved_is_walked() -> None:
    w = torch.ones(16, SIZE, requires_grad=True)
    for _ in range(3):  # its first calls are profiled
        squeezed(torch.ones(8, 16), w)
    with impactarbiter.watch():
        kept = [squeezed(torch.ones(8, 16), w) for _ in range(5)]
        shown = str(explain(kept[-1]))
        held = retained_bytes(kept)
        before = impactarbiter.snapshot().live_bytes
        del kept
        gc.collect()
        freed = before - impactarbiter.snapshot().live_bytes
    assert "most: DifferentiableGraphBackward" in shown
    assert freed > 5 * 8 * BYTES
    assert 0 < held - freed < 5 * 4096  # nodes


def test_parameters_are_the_script_s() -> None:
    """The module that it was made of hangs on its methods alone."""
    linear = torch.jit.script(torch.nn.Linear(100, 100))
    assert retained_bytes(linear) == 4 * 100 * 101
    holder = [linear]
    del linear
    assert retained_bytes(holder) == 4 * 100 * 101


def test_a_script_in_garbage_is_garbage() -> None:
    gc.disable()
    try:
        births = torch.jit.script(Births())
        grow(births, 1)
        tensor = torch.ones(SIZE)
        births.kept = [tensor]
        births.myself = [births]
        del births
        assert explain(tensor).verdict == "cycle"
    finally:
        gc.enable()


def found_in(births: torch.nn.Module, n: int) -> impactarbiter.Finding:
    """Of 40 steps that make it longer by so many."""
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(40):
            grow(births, n)
            arbiter.step()
        (finding,) = arbiter.report().findings
    return finding


def test_a_list_that_grows_is_a_leak_with_a_path() -> None:
    births = torch.jit.script(Births())
    finding = found_in(births, 2)
    assert (finding.verdict, finding.rule) == ("leak", "keeps-all")
    assert finding.holder is not None and finding.path is not None
    assert finding.holder.expression.endswith("births")
    assert str(finding.path).rpartition("[")[0].endswith("births.kept")
    assert finding.bytes_per_step == pytest.approx(2 * BYTES)
    assert finding.retained_bytes == finding.retained_tensors * BYTES
    assert finding.retained_tensors >= 2 * 36
    assert "births.kept`: bound it there" in finding.advice


def test_more_than_are_cut_one_by_one() -> None:
    finding = found_in(torch.jit.script(Births()), 20)
    assert finding.retained_bytes >= 20 * 36 * BYTES


def test_a_thread_that_runs_a_script_is_waited_for() -> None:
    """Its lists grow without the GIL: what cannot be read is left out."""
    births = torch.jit.script(Births())
    grow(births, 1)
    tensor = torch.ones(SIZE)
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            grow(births, 2000)
            births.kept = [tensor]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        verdicts = {explain(tensor).verdict for _ in range(30)}
    finally:
        over.set()
        thread.join()
    assert verdicts <= {"held", "native"}
