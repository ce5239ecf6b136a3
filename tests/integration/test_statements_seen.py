"""The statement that was seen to grow a holder, whatever way it does."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import impactarbiter
from impactarbiter import Finding
from impactarbiter.watching.arbiter import current


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    left = current()
    if left is not None:
        left.stop()


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


class Box:
    def __init__(self) -> None:
        self.kept: tuple[torch.Tensor, ...] = ()
        self.rows: list[torch.Tensor] = []


def test_a_tuple_that_is_made_anew_with_one_more() -> None:
    box = Box()

    def turn(step: int) -> None:
        value = torch.ones(64)
        box.kept = box.kept + (value,)  # noqa: RUF005

    finding = found(turn)
    assert statement(finding).startswith("box.kept = box.kept + (value,)")
    assert finding.holder is not None and finding.holder.length == 60


def test_attributes_of_names_that_are_made_up() -> None:
    box = Box()

    def turn(step: int) -> None:
        setattr(box, f"step_{step}", torch.ones(64))

    seen = statement(found(turn))
    assert seen == 'setattr(box, f"step_{step}", torch.ones(64))'


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

    finding = found(turn, 24)
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


def test_a_leak_whose_path_broke_before_the_end_is_not_taken_back(
    tmp_path: Path,
) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
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
        """)
    )
    output = tmp_path / "report.json"
    command = [sys.executable, "-P", "-m", "impactarbiter", "run", "--quiet"]
    subprocess.run(
        [*command, "--json", output, script], check=True, cwd=tmp_path
    )
    report = json.loads(output.read_text())
    (finding,) = report["findings"]
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "main().box.kept"
    assert report["taken_back"] == []
