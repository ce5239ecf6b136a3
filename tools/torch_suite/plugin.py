"""pytest plugin of the suite: writes outcomes, and watches where told to.

A line is written when a test begins and one when it has ended, so that a
crash costs one test: what the file of outcomes has is not run again.
"""

from __future__ import annotations

import os
from pathlib import Path

import forced
import pytest

OUTCOMES = Path(os.environ["IMPACTARBITER_SUITE_OUTCOMES"])
#: Tests after which the hooks are taken out and put in again.
RENEWED = 50

_order = ["passed", "skipped", "failed"]
_outcomes: dict[str, str] = {}
_tests = 0


def _write(*words: object) -> None:
    with OUTCOMES.open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    lines = OUTCOMES.read_text().splitlines() if OUTCOMES.exists() else []
    known = {line.split(" ", 1)[1] for line in lines}
    done = [item for item in items if item.nodeid in known]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item.nodeid not in known]


def pytest_collection_finish() -> None:
    if forced.SHARE:
        forced.watch_children()
        forced.start()


def pytest_runtest_logstart(nodeid: str) -> None:
    _write("began", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    said = report.outcome
    if hasattr(report, "wasxfail"):
        said = "passed" if report.failed else "skipped"
    before = _outcomes.get(report.nodeid, "passed")
    _outcomes[report.nodeid] = max(before, said, key=_order.index)


def pytest_runtest_logfinish(nodeid: str) -> None:
    global _tests
    _write(_outcomes.pop(nodeid, "skipped"), nodeid)
    _tests += 1
    if forced.SHARE:
        forced.look()
        if _tests % RENEWED == 0:
            forced.stop()
            forced.start()
        _write("looks", forced.looks)


def pytest_sessionfinish() -> None:
    if forced.SHARE:
        forced.stop()
