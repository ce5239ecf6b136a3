"""What in C++ has what no Python object holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from ..core import questions
from ..core.sources import site_of
from ..knowledge.advice import advise
from ..model.finding import Finding, Variable

#: Rules by which C or C++ code alone holds something.
RULES = ("no-python-root", "rootless-so-far")
NO_MEMORY = (
    "memory was short for the search for variables of C or C++ that hold"
    " tensors: none is named"
)


@dataclass
class NativeSearch:
    """Searches the process's memory for a report, once for each finding."""

    #: Got the last one memory of its own?
    whole: bool = True
    _found: dict[str, tuple[Variable, ...]] = field(default_factory=dict)

    def name(
        self, findings: Iterable[Finding], sites: Collection[int]
    ) -> list[Finding]:
        """The findings with the variables that lead to their lines' blocks;
        what could not be searched for is searched for the next time."""
        self.whole = True
        return [self._named(f, sites) for f in findings]

    def _named(self, finding: Finding, sites: Collection[int]) -> Finding:
        if finding.rule not in RULES:
            return finding
        held_in = self._found.get(finding.signature)
        if held_in is None:
            held_in = self._searched(finding, sites)
        if not held_in:
            return finding
        named = replace(finding, held_in=held_in)
        return replace(named, advice=advise(named))

    def _searched(
        self, finding: Finding, sites: Collection[int]
    ) -> tuple[Variable, ...]:
        same = (s for s in sites if site_of(s) == finding.allocated_at)
        site = next(same, None)
        held_in = () if site is None else questions.variables_of_site(site)
        if held_in is None:
            self.whole = False
            return ()
        self._found[finding.signature] = held_in
        return held_in
