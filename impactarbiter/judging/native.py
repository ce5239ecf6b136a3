"""What in C++ has what no Python object holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from ..core import questions
from ..core.sources import site_of
from ..knowledge.advice import advise
from ..model.finding import Finding, Variable

#: Rules by which C or C++ code alone holds something.
RULES = ("no-python-root", "rootless-so-far")


@dataclass
class NativeSearch:
    """Searches the process's memory for a report, once for each finding."""

    _found: dict[str, tuple[Variable, ...]] = field(default_factory=dict)

    def named(self, finding: Finding, sites: Collection[int]) -> Finding:
        """The finding with what leads to its line's blocks."""
        if finding.rule not in RULES:
            return finding
        if finding.signature not in self._found:
            self._found[finding.signature] = next(
                (
                    questions.variables_of_site(site)
                    for site in sites
                    if site_of(site) == finding.allocated_at
                ),
                (),
            )
        held_in = self._found[finding.signature]
        if not held_in:
            return finding
        named = replace(finding, held_in=held_in)
        return replace(named, advice=advise(named))
