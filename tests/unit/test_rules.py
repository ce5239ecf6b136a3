"""The table of verdicts, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from impactarbiter.judging.rules import RULES, Case, judge
from impactarbiter.model.words import VERDICTS

#: A holder that was seen growing for long, and nothing speaks for it.
LEAK = Case(gained=True, age=40, needed=12)

#: What makes each rule speak, in the order of the table.
CASES = {
    "collected": replace(LEAK, root="cycle", is_cycle=True, collected=True),
    "garbage-cycle": replace(LEAK, root="cycle", is_cycle=True),
    "no-python-root": replace(LEAK, root="native"),
    "rootless-so-far": replace(LEAK, root="outside", gained=False),
    "remade": replace(LEAK, remade=True),
    "bounded": replace(LEAK, bounded=True),
    "lets-go": replace(LEAK, lets_go=True),
    "stopped": replace(LEAK, overdue=True),
    "one-pass": replace(LEAK, one_pass=True),
    "keeps-all": LEAK,
    "unconfirmed": replace(LEAK, gained=False),
}


def test_every_rule_has_a_case() -> None:
    assert list(CASES) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", CASES)
def test_the_rule_speaks(name: str) -> None:
    assert judge(CASES[name]).name == name


@pytest.mark.parametrize(
    "name", [name for name in CASES if name != "unconfirmed"]
)
def test_without_the_rule_another_speaks(name: str) -> None:
    rest = [rule for rule in RULES if rule.name != name]
    other = next(rule for rule in rest if rule.when(CASES[name]))
    spoken = judge(CASES[name])
    assert (other.name, other.verdict) != (spoken.name, spoken.verdict)


def test_verdicts_are_known() -> None:
    assert {rule.verdict for rule in RULES} <= {*VERDICTS, None}
    assert all(rule.words for rule in RULES)


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        (replace(CASES["collected"], forever=True), "cycle"),
        (replace(CASES["collected"], collector=False), "cycle"),
        (replace(CASES["bounded"], graph_grows=True), "leak"),
        (replace(CASES["keeps-all"], age=11), "growing"),
        (replace(CASES["garbage-cycle"], gained=False), "growing"),
    ],
)
def test_what_overrides(case: Case, verdict: str) -> None:
    assert judge(case).verdict == verdict
