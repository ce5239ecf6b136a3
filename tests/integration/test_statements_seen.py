"""The statement that was seen to grow a holder, whatever way it does."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import Finding
from impactarbiter.reports.text import finding_text

pytestmark = pytest.mark.usefixtures("no_watch_left")


def found(turn: Callable[[int], object], steps: int = 60) -> Finding:
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(steps):
            turn(step)
            arbiter.step()
        (finding,) = arbiter.report().findings
        return finding


def statement(finding: Finding) -> str:
    assert finding.verdict == "leak"
    assert finding.grown_at is not None
    return finding.grown_at.source


def report_of(
    folder: Path, text: str, **environment: str
) -> dict[str, Any]:
    """Of a script with this text."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text))
    output = folder / "report.json"
    command = [sys.executable, "-P", "-m", "impactarbiter", "run", "--quiet"]
    subprocess.run(
        [*command, "--json", output, script],
        check=True,
        cwd=folder,
        env=os.environ | environment,
    )
    report: dict[str, Any] = json.loads(output.read_text())
    return report


class Box:
    def __init__(self) -> None:
        self.kept: tuple[torch.Tensor, ...] = ()
        self.rows: list[torch.Tensor] = []


def test_a_list_that_is_sorted_by_a_function() -> None:
    """It is empty for whoever looks while the function runs."""
    box = Box()

    def turn(step: int) -> None:
        box.rows.append(torch.full((64,), float(step % 7)))
        box.rows.sort(key=lambda row: row[0].item())

    assert statement(found(turn)).startswith("box.rows.append(")


def test_a_tuple_that_is_made_anew_with_one_more() -> None:
    box = Box()

    def turn(step: int) -> None:
        value = torch.ones(64)
        box.kept = box.kept + (value,)  # noqa: RUF005

    finding = found(turn)
    assert statement(finding).startswith("box.kept = box.kept + (value,)")
    assert finding.holder is not None and finding.holder.length == 60


@pytest.mark.parametrize("asked", [False, True])
def test_attributes_of_names_that_are_made_up(asked: bool) -> None:
    """Who asks for their dict has it made."""
    box = Box()
    if asked:
        vars(box)

    def turn(step: int) -> None:
        setattr(box, f"step_{step}", torch.ones(64))

    seen = statement(found(turn))
    assert seen == 'setattr(box, f"step_{step}", torch.ones(64))'


def test_an_average_of_values_with_large_graphs_is_made_from_the_last() -> (
    None
):
    """More nodes lie behind what it takes in than are looked at."""
    weight = torch.ones(4, requires_grad=True)
    average = Average()

    def turn(step: int) -> None:
        value = weight
        for _ in range(21_000):
            value = -value
        average.update(value.sum())

    finding = found(turn, 16)
    assert statement(finding).startswith("self.value = 0.9 * self.value")
    assert finding.graph_bytes_per_step > 21_000 * 50


class Average:
    def __init__(self) -> None:
        self.value: torch.Tensor | None = None

    def update(self, value: torch.Tensor) -> None:
        if self.value is None:
            self.value = value
        else:
            self.value = 0.9 * self.value + 0.1 * value


def test_growth_in_one_step_of_sixteen() -> None:
    box = Box()

    def turn(step: int) -> None:
        value = torch.ones(64)
        if step % 16 == 3:
            box.rows.append(value)

    assert statement(found(turn, 400)) == "box.rows.append(value)"


def test_a_step_of_more_lines_than_are_followed_blames_none() -> None:
    box = Box()

    def turn(step: int) -> None:
        value = torch.ones(64)
        # More than a million lines, in the steps that can be watched alone.
        for _ in range(1_100_000 if step > 8 else 0):
            pass
        box.rows.append(value)

    finding = found(turn, 16)
    assert finding.verdict == "leak"
    assert finding.grown_at is None


def test_growth_in_another_thread_is_put_down_to_it() -> None:
    box = Box()
    inbox: queue.Queue[torch.Tensor | None] = queue.Queue(maxsize=1)
    done: queue.Queue[None] = queue.Queue()

    def work() -> None:
        while (value := inbox.get()) is not None:
            box.rows.append(value + 1)
            del value
            done.put(None)

    worker = threading.Thread(target=work)
    worker.start()

    def turn(step: int) -> None:
        inbox.put(torch.ones(64))
        done.get()

    try:
        assert statement(found(turn)) == "box.rows.append(value + 1)"
    finally:
        inbox.put(None)
        worker.join()


class Shadow:
    def __init__(self) -> None:
        self.values = {n: torch.ones(4) for n in "ab"}
        self.weight = torch.ones(4, requires_grad=True)

    def update(self) -> None:
        for name in self.values:
            self.values[name] = self.values[name] * 0.9 + self.weight


def test_values_of_a_dict_that_stays_as_long_as_it_was() -> None:
    shadow = Shadow()
    finding = found(lambda step: shadow.update())
    assert finding.holder is not None and finding.holder.length == 2
    assert statement(finding).startswith("self.values[name] = self.values[")


class Monitor:
    """Two attributes hang on one graph, and a full deque repeats the last."""

    def __init__(self) -> None:
        self.weight = torch.ones(4, requires_grad=True)
        self.guess, self.state = torch.ones(4), torch.ones(4)
        self.states: deque[torch.Tensor] = deque(maxlen=8)
        self.surprise = 0.0

    def observe(self) -> None:
        self.surprise += 0.1
        state = self.state * self.weight
        self.guess, self.state = state + 1, state
        self.states.append(self.state)


def test_attributes_on_one_graph_beside_a_full_deque() -> None:
    monitor = Monitor()
    told: list[Finding] = []
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for _step in range(60):
            monitor.observe()
            arbiter.step()
        leaks = [f for f in arbiter.report().findings if f.verdict == "leak"]
    (finding,) = leaks
    seen = "self.guess, self.state = state + 1, state"
    assert statement(finding) == seen
    # The deque's own items are as many as ever, and on the same graph.
    assert [f.signature for f in told if f.verdict == "leak"] == [
        finding.signature
    ]


def made(rows: int) -> torch.Tensor:
    return torch.ones(rows, 8)


def test_what_is_told_in_passing_names_the_statement_where_it_was_seen() -> (
    None
):
    kept: list[torch.Tensor] = []
    told: list[Finding] = []
    with impactarbiter.watch(step="manual", on_finding=told.append) as arbiter:
        for _step in range(24):
            value = made(4)
            kept.append(value)
            arbiter.step()
    (first,) = told
    assert statement(first) == "kept.append(value)"
    assert first.site == first.grown_at


class Bus:
    """Others' handlers are kept by the line of its own."""

    def __init__(self) -> None:
        self.handlers: list[object] = []

    def on(self, handler: object) -> None:
        self.handlers.append(handler)


def test_the_calls_around_a_statement_are_told() -> None:
    bus = Bus()
    bus.on(len)

    def turn(step: int) -> None:
        value = torch.ones(64)
        # A library's frame lies between the two of the user's.
        list(map(bus.on, (value for _ in "a")))

    finding = found(turn)
    assert statement(finding) == "self.handlers.append(handler)"
    nearest, next_one, *_ = finding.grown_stack
    assert nearest.source == "list(map(bus.on, (value for _ in \"a\")))"
    assert nearest.function.endswith("<locals>.turn")
    assert next_one.source == "turn(step)"
    assert len(finding.grown_stack) <= 3
    text = finding_text(finding)
    assert f"called from {nearest}\n" in text


def test_a_statement_that_calls_its_own_function_was_called_by_another() -> (
    None
):
    kept: list[torch.Tensor] = []

    def descend(levels: int) -> None:
        if levels:
            descend((kept.append(torch.ones(64)), levels - 1)[1])

    def turn(step: int) -> None:
        descend(1)

    finding = found(turn)
    assert statement(finding).startswith("descend((kept.append(")
    assert finding.grown_stack[0].source == "descend(1)"


def test_the_collector_may_free_what_has_just_grown(tmp_path: Path) -> None:
    """It runs where the calls around a statement are read, and with it code of
    the program's that lets go of the holder."""
    report = report_of(
        tmp_path,
        """
        import gc
        import torch

        class Killer:
            def __del__(self):
                global kept
                if armed:
                    kept = None

        def make():
            garbage = Killer()
            garbage.itself = garbage
            for i in range(3000):
                drain.append((i, i, armed))
            for i in range(100):
                drain.append([])

        def step(i):
            global armed, kept
            value = torch.ones(1000)
            if kept is None:
                kept = []
            added = [value]
            armed = True
            make()
            gc.enable(); kept += added
            armed = False
            gc.disable()
            if i % 50 == 0:
                drain.clear()

        gc.disable()
        gc.set_threshold(1)
        armed, kept, drain = False, [], []
        layer = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for i in range(100):
            step(i)
            layer(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        PYTHONMALLOC="debug",
    )
    assert report["steps"] == 100


def test_what_grows_at_the_top_of_a_module_was_called_by_nobody(
    tmp_path: Path,
) -> None:
    report = report_of(
        tmp_path,
        """
        import torch

        kept = []
        weight = torch.nn.Parameter(torch.ones(64))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(60):
            loss = (weight * 2).sum()
            loss.backward()
            optimizer.step()
            kept.append(weight.detach() * 2)
        """,
    )
    (finding,) = report["findings"]
    source = "kept.append(weight.detach() * 2)"
    assert finding["grown_at"]["source"] == source
    assert finding["grown_stack"] == []


def residual(
    value: torch.Tensor,
    seen: list[torch.Tensor] = [],  # noqa: B006
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    seen.append(value * 2)
    return value, seen


def test_a_name_that_comes_and_goes_with_a_call() -> None:
    """What a call's variable led to is named by what lasts."""

    def closure() -> None:
        _value, seen = residual(torch.ones(64))
        assert seen
        arbiter.step()

    with impactarbiter.watch(step="manual") as arbiter:
        for _step in range(80):
            closure()
            arbiter.step()
        (finding,) = arbiter.report().findings
    assert "__defaults__[0]" in str(finding.path)
    assert statement(finding) == "seen.append(value * 2)"


def graph_rate(bounded: bool) -> float:
    weight = torch.ones(64, requires_grad=True)
    box, recent = Box(), Box()

    def turn(step: int) -> None:
        box.rows.append((weight * 2).sum())
        if bounded and step % 8 == 4:
            recent.rows = box.rows[-20:]

    finding = found(turn, 90)
    assert finding.holder is not None and finding.holder.length == 90
    return finding.graph_bytes_per_step


def test_a_bounded_list_of_the_newest_does_not_make_the_rate_smaller() -> None:
    assert graph_rate(True) == pytest.approx(graph_rate(False), rel=0.15)


def test_a_leak_whose_path_broke_before_the_end_is_not_taken_back(
    tmp_path: Path,
) -> None:
    report = report_of(
        tmp_path,
        """
        import torch

        class Box:
            def __init__(self, kept):
                self.kept = kept

        def main():
            weight = torch.nn.Parameter(torch.ones(8))
            optimizer = torch.optim.SGD([weight], lr=0.1)
            box = Box(set())
            for step in range(120):
                (weight * 2).sum().backward()
                optimizer.step()
                box.kept.add((step, torch.ones(64)))
                if step > 60:
                    box = Box(box.kept)

        main()
        """,
    )
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "main().box.kept"
    assert report["taken_back"] == []


def test_of_an_iterator_that_is_behind_no_statement_is_told() -> None:
    """The block of items that it reads next is another one after it."""
    fast, slow = itertools.tee(torch.ones(64) * n for n in itertools.count())
    reader = [iter(slow)]

    def turn(step: int) -> None:
        for _ in range(90):
            next(fast)
        for _ in range(60):
            next(reader[0])

    finding = found(turn, 40)
    assert finding.holder is not None
    assert finding.holder.type == "_tee_dataobject"
    assert finding.grown_at is None


def test_what_a_library_holds_besides_keeps_the_name_that_it_had(
    tmp_path: Path,
) -> None:
    """The call whose variable it was has returned, and it is shorter than it
    was in the middle of a wave."""
    report = report_of(
        tmp_path,
        """
        import colorsys
        import torch

        class Server:
            def __init__(self):
                self.model = torch.nn.Linear(8, 256)
                self.sessions = {}

            @torch.no_grad()
            def serve(self, wave):
                visitors = range(6 * wave, 6 * wave + 6)
                for _ in range(4):
                    for one in visitors:
                        self.sessions[one] = self.model(torch.ones(8))
                for one in visitors[1:]:
                    del self.sessions[one]

        def main():
            server = Server()
            colorsys.servers = [server]
            for wave in range(300):
                server.serve(wave)

        main()
        """,
    )
    (finding,) = report["findings"]
    assert finding["rule"] == "outgrows"
    assert finding["holder"]["expression"] == "main().server.sessions"
    assert finding["holder"]["length"] == 300


def carried(cell: torch.nn.GRUCell) -> Iterator[float]:
    state = None
    while True:
        state = cell(torch.ones(1, 4), state)
        yield state.sum().item()


def test_a_variable_of_a_generator_grows_where_that_runs() -> None:
    answers = carried(torch.nn.GRUCell(4, 8))
    finding = found(lambda step: next(answers))
    assert statement(finding) == "state = cell(torch.ones(1, 4), state)"


class Record:
    """As a logger's: what it was called with lies two levels down."""

    def __init__(self, text: str, *args: object) -> None:
        self.text, self.args = text, args


class Batches:
    """Nothing but what goes through it has it."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def __iter__(self) -> Iterator[torch.Tensor]:
        return self

    def __next__(self) -> torch.Tensor:
        self.kept.append(torch.ones(64))
        return self.kept[-1]


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> torch.Tensor:
        self.kept.append(torch.ones(64))
        return self.kept[-1]


def counted() -> Iterator[torch.Tensor]:
    kept = []
    while True:
        kept.append(torch.ones(64))
        yield kept[-1]


@pytest.mark.parametrize(
    ("iterator", "grows"),
    [
        (lambda: Batches(), "self.kept.append(torch.ones(64))"),
        (lambda: counted(), "kept.append(torch.ones(64))"),
        (lambda: enumerate(counted()), "kept.append(torch.ones(64))"),
        (lambda: map(abs, Batches()), "self.kept.append(torch.ones(64))"),
        (
            lambda: torch.utils.data.DataLoader(Rows()),
            "self.kept.append(torch.ones(64))",
        ),
    ],
    ids=["object", "generator", "enumerate", "map", "DataLoader"],
)
def test_what_a_loop_goes_through_has_no_other_name(
    iterator: Callable[[], Iterable[object]], grows: str
) -> None:
    """The loop's frame does not show it while it makes an item."""
    with impactarbiter.watch(step="manual") as arbiter:
        for steps, _batch in enumerate(iterator()):
            arbiter.step()
            if steps == 50:
                (finding,) = arbiter.report().findings
                break
    assert statement(finding) == grows
    assert "().<loop>." in str(finding.path)


def test_of_several_those_that_bring_tensors() -> None:
    """Each call of a logger grows its buffer."""
    buffer: list[Record] = []

    def turn(step: int) -> None:
        buffer.append(Record("step %d", step))
        buffer.append(Record("loss %.3f", 0.5))
        buffer.append(Record("grad %s", torch.ones(64)))
        buffer.append(Record("done", lambda: step))

    assert '"grad %s"' in statement(found(turn))


def test_of_several_functions_those_that_close_over_tensors() -> None:
    hooks: list[Callable[[], object]] = []

    def turn(step: int) -> None:
        seen = torch.full((64,), float(step))
        hooks.append(lambda: step)
        hooks.append(lambda: seen)
        hooks.append(print)

    assert "lambda: seen" in statement(found(turn))
