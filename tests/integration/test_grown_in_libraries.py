"""Values that a library makes longer in place of the ones before: what a model
keeps of a text, in a cache that the user has."""

from __future__ import annotations

import linecache
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import Report
from impactarbiter.watching.arbiter import current

LIBRARY = """\
import torch

class Layer:
    def __init__(self):
        self.keys = torch.zeros(0, 16)
        self.last = None

    def update(self, more):
        self.keys = torch.cat(
            [self.keys, more],
        )
        return self.keys

    def see(self, rows):
        last = torch.ones(rows, 16)
        last = torch.cat([last, last])
        self.last = last

class Model(torch.nn.Module):
    def forward(self, x, cache):
        return cache.update(x).sum()
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    left = current()
    if left is not None:
        left.stop()


@pytest.fixture
def library() -> Iterator[Any]:
    """A module that lies where libraries do, as far as its code says."""
    file = str(Path(sysconfig.get_path("purelib"), "texts", "cache.py"))
    lines = LIBRARY.splitlines(keepends=True)
    linecache.cache[file] = (len(LIBRARY), None, lines, file)
    names: dict[str, Any] = {"__name__": "texts.cache", "__file__": file}
    exec(compile(LIBRARY, file, "exec"), names)
    yield type("texts", (), names)
    del linecache.cache[file]


def leaks(report: Report) -> dict[str, str]:
    """Verdicts by the names that their holders end in."""
    return {
        f.holder.expression.rpartition(").")[2]: f.verdict
        for f in report.findings
        if f.holder is not None
    }


def test_what_a_library_makes_longer_leaks(library: Any) -> None:
    layer = library.Layer()
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(60):
            layer.update(torch.ones(4, 16))
            arbiter.step()
        report = arbiter.report()
    assert leaks(report) == {"layer.keys": "leak"}
    (finding,) = report.findings
    assert finding.bytes_per_step == pytest.approx(256, rel=0.1)


def test_larger_results_of_a_library_are_none(library: Any) -> None:
    """It computes them by steps, under one name, and none from the one that
    it made before."""
    layer = library.Layer()
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(60):
            layer.see(step + 1)
            arbiter.step()
        assert arbiter.report().findings == ()


class Service:
    """Gives all texts the one cache that it has."""

    def __init__(self, library: Any) -> None:
        self.model, self.shared = library.Model(), library.Layer()

    def answer(self, length: int) -> None:
        for _ in range(length):
            self.model(torch.ones(1, 16), self.shared)


def test_one_cache_for_all_texts_leaks(library: Any) -> None:
    service = Service(library)
    with impactarbiter.watch() as arbiter:
        for turn in range(30):
            service.answer(2 + turn % 3)
        report = arbiter.report()
    assert leaks(report) == {"service.shared.keys": "leak"}


def test_one_text_is_one_pass(library: Any) -> None:
    """A call that goes on with one text has what the model keeps of it for as
    long as the text is."""
    model, cache = library.Model(), library.Layer()
    told: list[str] = []
    with impactarbiter.watch(
        on_finding=lambda finding: told.append(finding.verdict)
    ) as arbiter:
        for _ in range(300):
            model(torch.ones(1, 16), cache)
        report = arbiter.report()
    assert leaks(report) == {"cache.keys": "growing"}
    assert [f.rule for f in report.findings] == ["one-pass"]
    assert told == []


class Bot:
    """Begins anew with each text."""

    def __init__(self, library: Any) -> None:
        self.model, self.library = library.Model(), library
        self.start()

    def start(self) -> None:
        self.cache = self.library.Layer()

    def answer(self, length: int) -> None:
        for _ in range(length):
            self.model(torch.ones(1, 16), self.cache)


@pytest.mark.parametrize("texts", [1, 3])
def test_a_cache_that_is_made_anew_for_each_text(
    library: Any, texts: int
) -> None:
    """Be there one text so far, or several."""
    bot = Bot(library)
    told: list[str] = []
    with impactarbiter.watch(
        on_finding=lambda finding: told.append(finding.verdict)
    ) as arbiter:
        for _ in range(texts):
            bot.start()
            bot.answer(90)
        report = arbiter.report()
    assert leaks(report) == {}
    assert told == []
