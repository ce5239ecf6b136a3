"""Verdicts as one table: a holder is judged by what leaves it.

``RULES`` is read from the top, and the first rule whose condition holds gives
the verdict; its name stands in the finding, and docs/verdicts.md explains it.
A verdict of None says nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.records import dataclass
from ...model.words import Verdict
from ..holders.known import HELD_BY_C


@dataclass(frozen=True)
class Case:
    """What a verdict is found from; nothing else is asked.

    ``root`` is the kind of the path's root; ``age`` counts positions (or
    ticks) since the holder's lines keep what they make.  ``gained`` says that
    the holder was seen grown since it was found, ``overdue`` that it has not
    been for a third of its age.  ``lets_go``: what it held was seen leaving.
    ``outgrows``: less of it than comes, so that it gets ever longer.
    ``died``: it is garbage that came about at once, and grows no more;
    ``collector``: that frees all of it, by itself or as the program has it run
    now and then; ``collected``: garbage of its lines was seen to be freed;
    ``in_time``: a run that frees it is still to come before it is much, or no
    walk has seen what one has left.
    ``bounded``: it has a bound that memory can hold, by its type or those of
    its items, and there are not ever more of it; ``fills``: it gets no longer,
    and each of its items gets its own, without a graph; ``limited``: a test of
    its length in the source decides on whether it grows, and the program goes
    on; ``source_may_end``: so it does, and the source empties it somewhere, or
    asks for a key before it sets it; that is said at a report too, where keys
    have paused or come ever more rarely.
    ``one_pass``: it is a variable of the very loop that fills it, where
    nothing but calls comes.  ``collects``: turns of loops are all there is,
    and it is such a variable, or the source goes through all that it has, at
    whatever place.  ``one_turn``: it is a variable of a call that a
    loop makes, one that a loop sets anew, or of one pass after a training;
    ``returned``: that has returned.  ``remade``: it is a single value that is
    made anew, and nothing says from the old one.  ``last_word``: a report
    asks, and what was not seen grown will not be.
    """

    root: str = "module"
    is_cycle: bool = False
    died: bool = False
    forever: bool = False
    collector: bool = True
    collected: bool = False
    in_time: bool = False
    bounded: bool = False
    fills: bool = False
    limited: bool = False
    source_may_end: bool = False
    graph_grows: bool = False
    remade: bool = False
    lets_go: bool = False
    outgrows: bool = False
    overdue: bool = False
    gained: bool = False
    one_pass: bool = False
    collects: bool = False
    one_turn: bool = False
    returned: bool = False
    last_word: bool = False
    age: int = 0
    needed: int = 0


@dataclass(frozen=True)
class Rule:
    """``when`` it holds, ``verdict``; ``words`` say why, for a reader."""

    name: str
    when: Callable[[Case], bool]
    verdict: Verdict | None
    words: str


#: The rule whose word is told while the program runs, though nothing is sure.
MAY_END = "may-end"
#: The rule for what takes in more than leaves it.
OUTGROWS = "outgrows"
#: The rule for what a script may be there to make.
COLLECTS = "collects"


#: What may be kept for a purpose is told once so many times as many steps have
#: left something there as are enough for a leak that is sure: an epoch's list
#: is emptied by then, and a program that dies of it first has little memory
#: left, where it is told at once.
UNSURE = 8

#: Kinds of roots to which nothing in Python leads.
ROOTLESS = HELD_BY_C | {"cycle"}


def _rootless(case: Case) -> bool:
    return case.root in ROOTLESS and not case.died


def _settled(case: Case) -> bool:
    return case.gained and case.age >= case.needed


RULES: tuple[Rule, ...] = (
    Rule(
        "collected",
        lambda case: (
            case.is_cycle
            and case.collector
            and case.collected
            and not case.forever
        ),
        "accumulation",
        "the collector has freed what hung on such cycles before",
    ),
    Rule(
        "garbage-cycle",
        lambda case: case.is_cycle and _settled(case) and not case.in_time,
        "cycle",
        "only a cycle of references that nothing leads to holds it",
    ),
    Rule(
        "no-python-root",
        lambda case: _rootless(case) and not case.is_cycle and _settled(case),
        "native",
        "no Python object was seen to lead to it",
    ),
    Rule(
        "rootless-so-far",
        _rootless,
        "growing",
        "nothing leads to it; a second walk has not seen it grown yet",
    ),
    Rule(
        "remade",
        lambda case: case.remade,
        None,
        "one value in place of another: a larger batch, a renewed local",
    ),
    Rule(
        "bounded",
        lambda case: case.bounded and not case.graph_grows,
        "cache",
        "its type has a bound that memory can hold",
    ),
    Rule(
        "stopped",
        lambda case: (
            (case.gained or case.died or case.last_word) and case.overdue
        ),
        None,
        "it has not grown for a third of the time that it was filled in",
    ),
    Rule(
        OUTGROWS,
        lambda case: (
            case.outgrows
            and _settled(case)
            and not (
                case.one_turn
                or case.limited
                or case.source_may_end
                or case.collects
            )
        ),
        "leak",
        "less of what it held was seen leaving than coming, all along",
    ),
    Rule(
        "lets-go",
        lambda case: case.lets_go and not case.graph_grows,
        "accumulation",
        "what it held was seen leaving",
    ),
    Rule(
        "fills-up",
        lambda case: case.fills and not case.graph_grows,
        "growing",
        "it gets no longer: ever more of its items have something, which may"
        " end when all have",
    ),
    Rule(
        "own-limit",
        lambda case: case.limited and not case.graph_grows,
        "growing",
        "the source grows it, or drops some of it, by a test of its length",
    ),
    Rule(
        "turn-is-over",
        lambda case: case.one_turn and case.returned and not case.graph_grows,
        None,
        "the call whose variable it was has returned",
    ),
    Rule(
        "one-turn",
        lambda case: case.one_turn and not case.graph_grows,
        "growing",
        "a variable of the call that fills it: nothing shows that it outlives"
        " the call",
    ),
    Rule(
        COLLECTS,
        lambda case: case.collects and not case.graph_grows,
        "growing",
        "the source goes through all of it, or it is a variable of the loop"
        " that fills it: it may be what that loop is for",
    ),
    Rule(
        "one-pass",
        lambda case: case.one_pass and not case.graph_grows,
        "growing",
        "a variable of the loop that fills it: nothing shows that it outlives"
        " the loop",
    ),
    Rule(
        MAY_END,
        lambda case: (
            case.source_may_end and _settled(case) and not case.graph_grows
        ),
        "growing",
        "its source empties it elsewhere, or asks for a key before it sets it",
    ),
    Rule(
        "keeps-all",
        _settled,
        "leak",
        "it was seen growing, all along, and nothing that it held ever left",
    ),
    Rule(
        "unconfirmed",
        lambda case: True,
        "growing",
        "its line keeps what it makes; the holder was not seen growing for"
        " long enough yet",
    ),
)


def judge(case: Case) -> Rule:
    """The first rule that holds."""
    return next(rule for rule in RULES if rule.when(case))
