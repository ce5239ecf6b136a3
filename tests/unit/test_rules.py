"""The table of verdicts: made-up holders, and what becomes of them."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from impactarbiter.judging.verdicts.rules import RULES, Case, Rule, judge
from impactarbiter.model.words import VERDICTS

DOCS = Path(__file__).parents[2] / "docs" / "verdicts.md"

#: A holder that was seen growing for long, and nothing speaks for it.
LEAK = Case(gained=True, age=40, needed=12)
#: One that was not seen growing for long enough.
NEW = replace(LEAK, age=11)
UNSEEN = replace(LEAK, gained=False)
CYCLE = replace(LEAK, root="cycle", is_cycle=True)

#: A holder, the rule that speaks, and its verdict.
CASES: dict[str, tuple[Case, str, str | None]] = {
    "a list that keeps all": (LEAK, "keeps-all", "leak"),
    "just old enough": (replace(LEAK, age=12), "keeps-all", "leak"),
    "not old enough": (NEW, "unconfirmed", "growing"),
    "not seen growing": (UNSEEN, "unconfirmed", "growing"),
    "a cycle": (CYCLE, "garbage-cycle", "cycle"),
    "a cycle, not old enough": (
        replace(CYCLE, age=11),
        "rootless-so-far",
        "growing",
    ),
    "a cycle that the collector may meet in time": (
        replace(CYCLE, in_time=True),
        "rootless-so-far",
        "growing",
    ),
    "a list that died in a cycle": (
        replace(LEAK, root="cycle", died=True),
        "keeps-all",
        "leak",
    ),
    "a deque that died in a cycle": (
        replace(LEAK, root="cycle", died=True, bounded=True),
        "bounded",
        "cache",
    ),
    "what died in a cycle, and long ago": (
        replace(UNSEEN, root="cycle", died=True, overdue=True),
        "stopped",
        None,
    ),
    "a cycle whose kin was collected": (
        replace(CYCLE, collected=True),
        "collected",
        "accumulation",
    ),
    "a cycle of a kind that is never freed": (
        replace(CYCLE, collected=True, forever=True),
        "garbage-cycle",
        "cycle",
    ),
    "a cycle while the collector is off": (
        replace(CYCLE, collected=True, collector=False),
        "garbage-cycle",
        "cycle",
    ),
    "a list of a line that also makes cycles": (
        replace(LEAK, collected=True),
        "keeps-all",
        "leak",
    ),
    "held in C++": (replace(LEAK, root="native"), "no-python-root", "native"),
    "held by a caller": (
        replace(LEAK, root="outside"),
        "no-python-root",
        "native",
    ),
    "a frame's variable": (replace(LEAK, root="frame"), "keeps-all", "leak"),
    "held in C++, not seen growing": (
        replace(UNSEEN, root="native"),
        "rootless-so-far",
        "growing",
    ),
    "held in C++, and it lets go": (
        replace(UNSEEN, root="native", lets_go=True),
        "rootless-so-far",
        "growing",
    ),
    "one value for another": (replace(LEAK, remade=True), "remade", None),
    "one value for another that was bounded": (
        replace(LEAK, remade=True, bounded=True),
        "remade",
        None,
    ),
    "a deque": (replace(LEAK, bounded=True), "bounded", "cache"),
    "a deque that was seen full": (
        replace(LEAK, bounded=True, lets_go=True),
        "bounded",
        "cache",
    ),
    "a deque whose items' graph grows": (
        replace(LEAK, bounded=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "what is cleared": (
        replace(LEAK, lets_go=True),
        "lets-go",
        "accumulation",
    ),
    "a queue that is filled faster than it is drained": (
        replace(LEAK, lets_go=True, outgrows=True),
        "outgrows",
        "leak",
    ),
    "the same, for a short time": (
        replace(UNSEEN, lets_go=True, outgrows=True),
        "lets-go",
        "accumulation",
    ),
    "what is cleared, while the graph behind it grows": (
        replace(LEAK, lets_go=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "what is cleared, and has stopped": (
        replace(LEAK, lets_go=True, overdue=True),
        "stopped",
        None,
    ),
    "what has stopped": (replace(LEAK, overdue=True), "stopped", None),
    "what never grew cannot have stopped": (
        replace(UNSEEN, overdue=True),
        "unconfirmed",
        "growing",
    ),
    "what did not grow for long, at a report": (
        replace(UNSEEN, overdue=True, last_word=True),
        "stopped",
        None,
    ),
    "what gives each of its items one thing": (
        replace(LEAK, fills=True),
        "fills-up",
        "growing",
    ),
    "the same, while the graph behind them grows": (
        replace(LEAK, fills=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "what its own source limits": (
        replace(LEAK, limited=True),
        "own-limit",
        "growing",
    ),
    "the same, while the graph behind it grows": (
        replace(LEAK, limited=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "what its own source may end": (
        replace(LEAK, source_may_end=True),
        "may-end",
        "growing",
    ),
    "the same, not old enough": (
        replace(NEW, source_may_end=True),
        "unconfirmed",
        "growing",
    ),
    "the same, where less leaves than comes so far": (
        replace(LEAK, source_may_end=True, outgrows=True),
        "may-end",
        "growing",
    ),
    "the same, and the graph behind it grows": (
        replace(LEAK, source_may_end=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "a full ring whose items are replaced": (
        replace(LEAK, lets_go=True, outgrows=True, limited=True),
        "lets-go",
        "accumulation",
    ),
    "the variable of a turn, longer in each": (
        replace(LEAK, lets_go=True, outgrows=True, one_turn=True),
        "lets-go",
        "accumulation",
    ),
    "answers of one pass": (
        replace(LEAK, one_pass=True),
        "one-pass",
        "growing",
    ),
    "answers of one pass whose graph reaches ever further back": (
        replace(LEAK, one_pass=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "what an epoch collects": (
        replace(LEAK, one_turn=True),
        "one-turn",
        "growing",
    ),
    "what an epoch has collected": (
        replace(LEAK, one_turn=True, returned=True),
        "turn-is-over",
        None,
    ),
    "what has outlived the call": (
        replace(LEAK, returned=True),
        "keeps-all",
        "leak",
    ),
    "an epoch's values whose graph reaches ever further back": (
        replace(LEAK, one_turn=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "what a script may be there to make": (
        replace(LEAK, collects=True),
        "collects",
        "growing",
    ),
    "a buffer that is read when it is emptied": (
        replace(LEAK, lets_go=True, outgrows=True, collects=True),
        "lets-go",
        "accumulation",
    ),
    "results whose graphs reach back": (
        replace(LEAK, collects=True, graph_grows=True),
        "keeps-all",
        "leak",
    ),
    "answers of one pass, which is over": (
        replace(LEAK, one_pass=True, overdue=True),
        "stopped",
        None,
    ),
}


def spoken(case: Case, rules: tuple[Rule, ...]) -> str | None:
    """The verdict of the first rule that holds; "silence" without one."""
    for rule in rules:
        if rule.when(case):
            return rule.verdict
    return "silence"


@pytest.mark.parametrize("name", CASES)
def test_which_rule_speaks(name: str) -> None:
    case, rule, verdict = CASES[name]
    assert (judge(case).name, judge(case).verdict) == (rule, verdict)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_can_go(rule: Rule) -> None:
    """Without it, one of the holders at least has another verdict."""
    rest = tuple(other for other in RULES if other is not rule)
    assert any(
        spoken(case, rest) != verdict
        for case, _rule, verdict in CASES.values()
    )


@pytest.mark.parametrize("field", [field.name for field in fields(Case)])
def test_no_fact_can_go(field: str) -> None:
    """Nothing is asked of a holder that makes no difference."""
    known = {getattr(case, field) for case, _rule, _verdict in CASES.values()}
    other = {"needed": {12, 41}, "root": known | {"cycle"}}.get(field, known)
    assert any(
        judge(replace(case, **{field: value})).verdict != verdict
        for case, _rule, verdict in CASES.values()
        for value in other
    )


def test_verdicts_are_known() -> None:
    assert {rule.verdict for rule in RULES} <= {*VERDICTS, None}
    assert all(rule.words for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_the_docs_explain_each_in_the_same_order() -> None:
    text = DOCS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| `?([a-z]+)`? \|", text, re.M)
    assert rows == [(rule.name, rule.verdict or "none") for rule in RULES]
