"""Why a verdict was given, and what would change it, for a reader."""

from __future__ import annotations

from ..base.units import format_bytes, format_count, plural
from ..judging.verdicts.rules import RULES
from ..model.finding import Finding
from .wording import subject

_WORDS = {rule.name: rule.words for rule in RULES}

#: Rule -> what would have given another verdict.
CHANGES = {
    "collected": "a cycle that the collector does not get to, or the collector"
    " turned off, would make it a leak",
    "garbage-cycle": "the collector freeing such a cycle, as gc.collect()"
    " does, would show that they are only waiting",
    "no-python-root": "a Python object that leads to the memory, found by"
    " another look, would name their holder",
    "rootless-so-far": "a second look that sees it grown confirms it, one that"
    " finds a Python object names the holder",
    "bounded": "a bound that memory cannot hold, or a graph that grows behind"
    " the items, would make it a leak",
    "outgrows": "a stretch in which as much leaves as comes would take it"
    " back",
    "lets-go": "growing for twice as long without letting go would make it a"
    " leak",
    "fills-up": "growing on when each of its items has something would make"
    " it a leak",
    "own-limit": "growing to the end of the run, or holding more than a"
    " sixty-fourth of the memory that is left, would make it a leak",
    "may-end": "growing to the end of the run, or holding more than a"
    " sixty-fourth of the memory that is left, would make it a leak; a time"
    " that it lets go settles that it is none",
    "collects": "steps of the program's own, by `arbiter.step()`, settle it;"
    " holding more than a sixty-fourth of the memory that is left makes it a"
    " leak",
    "one-pass": "another pass that finds it longer than before confirms it; a"
    " bound or a clear() settles that it is none",
    "one-turn": "being there when the call has returned confirms it; holding"
    " more than a sixty-fourth of the memory that is left does, too",
    "keeps-all": "one time that it lets go of what it kept, or a bound that"
    " memory can hold, would take it back",
    "unconfirmed": "a few more steps: growing on confirms it, letting go or"
    " standing still takes it back",
}


def why(finding: Finding) -> list[str]:
    """The rule, and what was seen that makes it hold."""
    said = []
    if finding.rule in _WORDS:
        words = _WORDS[finding.rule]
        said.append(f"{words[:1].upper()}{words[1:]}.")
    if finding.generations > 1:
        said.append(
            f"What {plural(finding.generations, 'step')} made, from step"
            f" {format_count(finding.first_step)} to"
            f" {format_count(finding.last_step)}, was still there."
        )
    holder = finding.holder
    if holder is not None and holder.length is not None:
        growth = holder.growth_per_step
        pace = f" and grew by {format_count(growth)} a step" if growth else ""
        items = plural(holder.length, "item")
        said.append(f"The {holder.type} had {items}{pace}.")
    if finding.graph_bytes_per_step:
        rate = format_bytes(finding.graph_bytes_per_step)
        said.append(f"The autograd graph behind it grew by {rate} a step.")
    if finding.confirmed_step is not None:
        step = format_count(finding.confirmed_step)
        said.append(f"It was confirmed at step {step}.")
    elif finding.verdict == "growing":
        said.append("It is not confirmed.")
    return said


def otherwise(finding: Finding) -> list[str]:
    """What would change the verdict, and how to say that it is meant so."""
    said = []
    change = CHANGES.get(finding.rule)
    if change:
        said.append(f"{change[:1].upper()}{change[1:]}.")
    if finding.confirmed and finding.path is not None:
        said.append(
            "Where this is kept on purpose, say so, and it is left out:"
            f' watch(allow=["{_glob(subject(finding))}"]).'
        )
    return said


def _glob(expression: str) -> str:
    return expression.replace("\\", "\\\\").replace('"', '\\"') + "*"
