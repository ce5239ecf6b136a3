"""What users of the types meet: every field's type has a public name, and
objects show themselves in a line."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import numpy
import pytest

import impactarbiter
from impactarbiter import Finding, Holder, Report, Site

HERE = "impactarbiter."


def parts(annotation: object) -> set[object]:
    """A type, and what it is made of."""
    found = {annotation}
    for part in typing.get_args(annotation):
        if not isinstance(part, str):
            found |= parts(part)
    return found


def test_the_type_of_every_field_is_exported() -> None:
    public = [getattr(impactarbiter, name) for name in impactarbiter.__all__]
    # What a module imports for type checkers alone.
    names = {"np": numpy, "Site": Site}
    seen = 0
    for cls in public:
        if not dataclasses.is_dataclass(cls):
            continue
        hints = typing.get_type_hints(cls, localns=names)
        for field in dataclasses.fields(cls):
            for part in parts(hints[field.name]):
                if getattr(part, "__module__", "").startswith(HERE):
                    assert part in public, (cls, field.name)
                    seen += 1
    assert seen > 20


LEAK = Finding(
    verdict="leak",
    severity="warning",
    allocated_at=Site("train.py", 12, "main"),
    holder=Holder("main().kept\x1b", "list"),
)


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (Report(), "Report(0 steps)"),
        (Report(findings=(LEAK,), steps=60), "Report(1 leak, 60 steps)"),
        (
            Report(
                findings=(
                    LEAK,
                    LEAK,
                    dataclasses.replace(LEAK, verdict="growing"),
                    dataclasses.replace(LEAK, verdict="cache"),
                ),
                steps=1,
            ),
            "Report(2 leaks, 1 growing, 1 cache, 1 step)",
        ),
        (LEAK, "Finding(warning leak: main().kept\\x1b)"),
        (
            dataclasses.replace(LEAK, holder=None),
            "Finding(warning leak: train.py:12 in main)",
        ),
    ],
)
def test_short_reprs(thing: object, shown: str) -> None:
    assert repr(thing) == shown


def test_an_arbiter_says_what_it_does() -> None:
    with impactarbiter.watch(step="manual") as arbiter:
        assert repr(arbiter) == "Arbiter(watching, step 0)"
        arbiter.step()
        arbiter.step()
        assert repr(arbiter) == "Arbiter(watching, step 2)"
    assert repr(arbiter) == "Arbiter(stopped, step 2)"


def test_words_of_the_types_are_those_that_are_checked() -> None:
    assert typing.get_args(impactarbiter.StepMode) == ("auto", "manual")
    with pytest.raises(impactarbiter.UsageError):
        Finding(verdict="leek", allocated_at=LEAK.allocated_at)  # type: ignore[arg-type]


def test_the_stub_of_types_comes_with_the_package() -> None:
    assert Path(impactarbiter.__file__).with_name("py.typed").is_file()
