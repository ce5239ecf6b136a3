"""What in C++ has what no Python object holds, and what made it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field

from ..base.records import dataclass, replace
from ..core import questions
from ..core.sources import site_of
from ..knowledge.advice import advise
from ..knowledge.native_code import telling
from ..model.finding import Finding, NativeCall, Variable

#: Rules by which C or C++ code alone holds something.
RULES = ("no-python-root", "rootless-so-far")
_NONE_NAMED = (
    " for the search for variables of C or C++ that hold tensors: none is"
    " named"
)


@dataclass
class NativeSearch:
    """Searches the process's memory for a report, once for each finding."""

    #: Why the last ones told nothing.
    _problems: set[str] = field(default_factory=set)
    _found: dict[str, tuple[Variable, ...]] = field(default_factory=dict)
    _made: dict[str, tuple[NativeCall, ...]] = field(default_factory=dict)

    def said(self) -> list[str]:
        """Why there is no variable where one was searched for."""
        return [problem + _NONE_NAMED for problem in sorted(self._problems)]

    def name(
        self, findings: Iterable[Finding], sites: Collection[int]
    ) -> list[Finding]:
        """The findings with the variables that lead to their lines' blocks and
        the calls that made some; what could not be searched for is searched
        for the next time."""
        self._problems.clear()
        return [self._named(f, sites) for f in findings]

    def _named(self, finding: Finding, sites: Collection[int]) -> Finding:
        if finding.rule not in RULES:
            return finding
        site = _site_of(finding, sites)
        held_in = self._found.get(finding.signature)
        if held_in is None and site is not None:
            held_in = self._searched(finding, site)
        made_in = self._made.get(finding.signature) or _made_at(site)
        self._made[finding.signature] = made_in
        if not held_in and not made_in:
            return finding
        named = replace(finding, held_in=held_in or (), made_in=made_in)
        return replace(named, advice=advise(named))

    def _searched(self, finding: Finding, site: int) -> tuple[Variable, ...]:
        held_in = questions.variables_of_site(site)
        if isinstance(held_in, str):
            self._problems.add(held_in)
            return ()
        self._found[finding.signature] = held_in
        return held_in


def _site_of(finding: Finding, sites: Collection[int]) -> int | None:
    same = (s for s in sites if site_of(s) == finding.allocated_at)
    return next(same, None)


def _made_at(site: int | None) -> tuple[NativeCall, ...]:
    return () if site is None else telling(questions.calls_of_site(site))
