"""Allocations of Python's that fail while we work.

Each case is a forked child, in which one allocation in a call of ours fails,
or all from one on: the numbers are those of the 1st, 2nd, ... allocation of
that call.  What came of a case is a line of JSON.  A case may end in a
MemoryError only where somebody asked us for something.

All from one on fail everywhere but in a report.
"""

from __future__ import annotations

import _testcapi
import gc
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import scenario
import torch

import impactarbiter
from impactarbiter.judging.diagnostician import Diagnostician

#: Allocations of the longest of these calls, about.
MOST = 200_000


def fail_once(owner: Any, method: str, first: int, last: int) -> None:
    """In the next call the allocations fail (last 0: all from ``first``)."""
    work = getattr(owner, method)

    def call(*args: Any) -> Any:
        setattr(owner, method, work)
        _testcapi.set_nomemory(first, last)
        try:
            return work(*args)
        finally:
            _testcapi.remove_mem_hooks()

    setattr(owner, method, call)


class Case:
    """One call of ours, and which of its allocations fail."""

    def __init__(self, name: str, first: int, last: int) -> None:
        self.name, self.first, self.last = name, first, last

    def run(self, expected: dict[str, Any]) -> dict[str, Any]:
        out, again = scenario.Outcome(), scenario.Outcome()
        asks = self.name == "explain"
        work = scenario.questions if asks else scenario.training
        owner = impactarbiter if asks else Diagnostician
        whole = getattr(owner, self.name)
        fail_once(owner, self.name, self.first, self.last)
        with tempfile.TemporaryDirectory() as folder:
            work(out, folder)
            if getattr(owner, self.name) is not whole:
                out.wrong.append("the call was not made")
            gc.collect()
            work(again, folder)
        if again.given != expected or again.raised or again.wrong:
            out.wrong.append(f"afterwards: {vars(again)}")
        losses = expected.get("losses")
        if out.given.get("losses", losses) != losses:
            out.wrong.append("the program computed something else")
        if self.name == "look" and out.raised:
            out.wrong.append("raised in the program")
        return {"raised": out.raised, "said": out.said, "wrong": out.wrong}

    run_in_child = scenario.Case.run_in_child


def numbers(share: int) -> Iterator[int]:
    """Ever further apart, as calls that allocate much repeat themselves."""
    number = 0
    while number < MOST:
        yield number
        number += max(share, number * share // 100)


def main(share: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    gc.disable()
    gc.freeze()
    scenario.program(lambda: None)
    trained, _ = scenario.count(scenario.training)
    answered, _ = scenario.count(scenario.questions)
    for name, expected in (
        ("look", trained),
        ("report", trained),
        ("explain", answered),
    ):
        for nth, number in enumerate(numbers(share)):
            on = name != "report" and nth % 2
            case = Case(name, number, 0 if on else number + 1)
            told = {"call": name, "first": number, "on": bool(on)}
            print(json.dumps(told | case.run_in_child(expected)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
