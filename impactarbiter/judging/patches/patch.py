"""Patches: the statement that grows a holder, keeping numbers or values only.

A patch is offered for a leak whose statement was seen, where one expression
of it is what is kept, all that was seen to pass it is what the patch assumes,
no later use that is understood minds, and nine tenths of the growth stop:
``history.append(loss)`` becomes ``history.append(loss.detach())``.  Else the
finding says why there is none.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence

from ...base.files import is_no_file
from ...base.records import dataclass, replace
from ...base.signals import Tolerated
from ...base.units import A_PERCENT, format_share
from ...knowledge.advice import advise, needs_graph, slice_part
from ...model.finding import Finding, Site
from ..program.origins import Value
from ..program.source_file import Names
from ..program.statement import name_of_holder, names_of_holder, user_files
from ..program.unparsed import MOST_PARSED, is_unread
from ..program.uses import is_tensor, uses_of
from ..program.writes import asked_of
from .diffs import diff, has_bare_returns, lines_of, read_source
from .offer import (
    ENOUGH,
    Description,
    Holding,
    NoPatchError,
    Seen,
    Taking,
    kept_of,
    parts_of,
    plain_parts,
    share_stopped,
    taking_of,
)
from .rewrite import Addition, Source, Thinning


def with_patches(
    findings: Sequence[Finding], holdings: Mapping[str, Holding]
) -> list[Finding]:
    """The findings, leaks with a unified diff or with why there is none.

    ``holdings`` are by signature.  What one line keeps in several holders is
    mended by one patch, as each of them keeps what the others do.
    """
    made = list(findings)
    lines: dict[tuple[str, int], list[int]] = {}
    for at, finding in enumerate(findings):
        holding = holdings.get(finding.signature)
        kept = kept_of(finding, holding.census if holding else None)
        made[at] = _advised(replace(finding, kept=kept), holding)
        if finding.verdict == "leak" and finding.grown_at is not None:
            site = finding.grown_at
            lines.setdefault((site.file, site.line), []).append(at)
    for together in lines.values():
        _mend_line(made, together, holdings)
    return made


def _mend_line(
    made: list[Finding], together: list[int], holdings: Mapping[str, Holding]
) -> None:
    group = [made[at] for at in together]
    for at, finding in zip(together, _mended(group, holdings), strict=True):
        made[at] = finding


def _advised(finding: Finding, holding: Holding | None) -> Finding:
    with Tolerated():
        return replace(finding, advice=_advice(finding, holding))
    return finding


def _advice(finding: Finding, holding: Holding | None) -> str:
    """What to do about a finding, as the program uses what is kept."""
    kept = finding.kept
    graphs = kept is None or kept.graphs
    if graphs and holding is not None and holding.chained:
        return advise(finding, carried=True)
    if kept is None or not graphs or finding.verdict != "leak":
        return advise(finding)
    uses = uses_of(names_of_holder(finding), user_files(finding))
    if uses.graph:
        return needs_graph(finding, uses.graph)
    return advise(finding, ("detach",) if uses.number else ())


def _is_chained(finding: Finding, holding: Holding) -> bool:
    """Whether what is carried from step to step keeps the graph as well."""
    holder = finding.holder
    return (
        holding.chained and holder is not None and (holder.length is not None)
    )


def _mended(
    group: Sequence[Finding], holdings: Mapping[str, Holding]
) -> list[Finding]:
    """Findings of one line, with the patch of that line or a note."""
    site = group[0].grown_at
    assert site is not None
    unread = NoPatchError("the source could not be followed")
    mended = [_without(f, unread) for f in group]
    # Whatever becomes of a program's source, the report goes on.
    with Tolerated():
        try:
            before = _read(site.file)
            plan = _planned(before, site, group, holdings)
        except NoPatchError as reason:
            # A frame of it has it, and with that all frames that called us.
            reason.__traceback__ = None
            return [_without(f, reason) for f in group]
        mended = _with_patch(group, plan, before)
    return mended


def _read(file: str) -> str:
    """A source that a diff can be made of; NoPatchError says why not."""
    if is_no_file(file):
        raise NoPatchError("its source was read from no regular file")
    text, _encoding = read_source(file)
    if has_bare_returns(text):
        raise NoPatchError("a carriage return alone ends lines of its source")
    return text


def _with_patch(
    group: Sequence[Finding], plan: _Plan, before: str
) -> list[Finding]:
    """Those of the findings that the plan is for have its patch."""
    site = group[0].grown_at
    assert site is not None
    after = plan.source.with_values(plan.new)
    patch = diff(site.file, before, after)
    methods = tuple(sorted(plan.methods))
    return [
        _without(f, plan.refused[f.signature])
        if f.signature in plan.refused
        else replace(f, patch=patch, advice=advise(f, methods))
        for f in group
    ]


def _without(finding: Finding, reason: NoPatchError) -> Finding:
    """The finding with why there is no patch."""
    return replace(
        finding,
        patch_note=str(reason),
        advice=reason.instead or finding.advice,
    )


# -- what to change -----------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    source: Source
    new: Mapping[ast.expr, str]
    methods: frozenset[str]
    refused: Mapping[str, NoPatchError]


def _planned(
    text: str,
    site: Site,
    group: Sequence[Finding],
    holdings: Mapping[str, Holding],
) -> _Plan:
    """All changes of one line; NoPatchError says why there are none."""
    _check(text, site, group, holdings)
    source = Source(text)
    additions = source.additions(site.line)
    new: dict[ast.expr, str] = {}
    methods: frozenset[str] = frozenset()
    refused: dict[str, NoPatchError] = {}
    owners = _owners(source, group, additions)
    for addition, findings in owners.items():
        found = _tried(source, site, addition, findings, holdings)
        if isinstance(found, NoPatchError):
            if len(owners) == 1 or any(map(_is_shared, group)):
                raise found
            # The other holders' graphs are their own.
            refused.update((f.signature, found) for f in findings)
            continue
        part, thinned = found
        new |= part
        methods |= thinned
    shared = any(map(_is_shared, group))
    for other in additions:
        for addition, (finding, *_more) in owners.items():
            if other in owners or not _is_same(source, addition, other):
                continue
            holding = holdings.get(finding.signature, Holding(None))
            names, shared = _names_in(other, site), False
            _thin(source, finding, other, names, holding, new, known=True)
    if shared and len(owners) == 1:
        raise NoPatchError("something else keeps the same graphs, too")
    if not new:
        raise next(
            iter(refused.values()),
            NoPatchError("what it keeps is no more than it needs already"),
        )
    return _Plan(source, new, methods, refused)


def _check(
    text: str,
    site: Site,
    group: Sequence[Finding],
    holdings: Mapping[str, Holding],
) -> None:
    """NoPatchError where nothing at this line can be changed, or that would
    stop too little."""
    if len(text) > MOST_PARSED:
        raise NoPatchError("the file is too large to be read")
    for finding in group:
        holding = holdings.get(finding.signature)
        if holding is not None and holding.elsewhere > 1.0 - ENOUGH:
            raise NoPatchError("it grows at another line, too")
        if finding.holder is not None and finding.holder.beside:
            others = finding.holder.others
            raise NoPatchError(f"{others} keeps the same graph, too")
    lines = lines_of(text)
    if (
        not 0 < site.line <= len(lines)
        or lines[site.line - 1].strip() != site.source.strip()
    ):
        raise NoPatchError("the line is not what it was when it ran")


def _thinned(
    source: Source,
    site: Site,
    addition: Addition,
    findings: Sequence[Finding],
    holdings: Mapping[str, Holding],
) -> tuple[dict[ast.expr, str], frozenset[str]]:
    """What one addition's values become, and the methods that they are of."""
    # Values that grow several holders are whatever any of them has.
    holding = _together([holdings.get(f.signature) for f in findings])
    names = _names_in(addition, site)
    for finding in findings:
        names |= names_of_holder(finding)
    known = holding.others <= len(findings) - 1 and all(
        _is_named(addition, finding) for finding in findings
    )
    new: dict[ast.expr, str] = {}
    methods: frozenset[str] = frozenset()
    for finding in findings:
        methods |= _thin(
            source, finding, addition, names, holding, new, known=known
        )
    return new, methods


def _tried(
    source: Source,
    site: Site,
    addition: Addition,
    findings: Sequence[Finding],
    holdings: Mapping[str, Holding],
) -> tuple[dict[ast.expr, str], frozenset[str]] | NoPatchError:
    """The same, or why there is none."""
    try:
        return _thinned(source, site, addition, findings, holdings)
    except NoPatchError as reason:
        return reason.with_traceback(None)


def _owners(
    source: Source, group: Sequence[Finding], additions: Sequence[Addition]
) -> dict[Addition, list[Finding]]:
    """Each statement of the line, and whose holders it grows."""
    owners: dict[Addition, list[Finding]] = {}
    for finding in group:
        addition = _addition_of(source, finding, additions)
        owners.setdefault(addition, []).append(finding)
    return owners


def _together(holdings: Sequence[Holding | None]) -> Holding:
    """What is known of what passes one statement, of all that it grows."""
    census: dict[Description, int] = {}
    known = [h for h in holdings if h is not None and h.census is not None]
    for holding in known:
        for one, n in (holding.census or {}).items():
            census[one] = census.get(one, 0) + n
    return Holding(
        census if len(known) == len(holdings) else None,
        max((h.others for h in known), default=0.0),
        any(h.chained for h in known),
    )


def _is_named(addition: Addition, finding: Finding) -> bool:
    return addition.receiver.lstrip(".") == name_of_holder(finding)


def _is_shared(finding: Finding) -> bool:
    """Whether its items' graphs would live on without it."""
    kept = finding.kept
    return kept is not None and kept.graphs and finding.graph is None


def _is_same(source: Source, one: Addition, other: Addition) -> bool:
    """Whether two statements of a line keep the same values."""
    return list(map(source.code, one.values)) == list(
        map(source.code, other.values)
    )


def _addition_of(
    source: Source, finding: Finding, additions: Sequence[Addition]
) -> Addition:
    """The one that adds to the finding's holder."""
    holder = finding.holder
    single = holder is None or holder.length is None
    found = [a for a in additions if a.single == single]
    if single and not found:
        found = list(additions)
    named = [a for a in found if _is_named(a, finding)]
    found = named or found
    if holder is not None and len(found) > 1:
        expression = holder.expression
        found = [a for a in found if source.is_for(a, expression)] or found
    if len(found) != 1:
        raise NoPatchError(
            "several statements on the line may be it"
            if found
            else "the line adds to it by what it calls: no value stands there"
            " that could be changed"
        )
    return found[0]


def _names_in(addition: Addition, site: Site) -> Names:
    """What a statement calls what it adds to."""
    name = addition.receiver.lstrip(".")
    if addition.receiver.startswith("."):
        return Names(attributes=frozenset({name}))
    function = site.function.rpartition(".")[2].strip("<>")
    return Names(variables=frozenset({(function, name), ("module", name)}))


def _thin(
    source: Source,
    finding: Finding,
    addition: Addition,
    names: Names,
    holding: Holding,
    new: dict[ast.expr, str],
    *,
    known: bool,
) -> frozenset[str]:
    """Adds what to change of one addition to ``new``; the methods taken.

    ``known``: the addition is to the holder, by its name, and no other.
    """
    seen, site, kept = holding.census, finding.grown_at, finding.kept
    assert site is not None
    if seen is None:
        raise NoPatchError(
            _itself(finding)
            if _is_the_growth(finding)
            else "what it holds could not be looked at"
        )
    if _is_chained(finding, holding):
        raise NoPatchError(
            "each graph leads back to the step before, which something else"
            " carries on"
        )
    tensors = finding.tensors
    plain = bool(tensors) and all(t.shape == () for t in tensors)
    files = [site.file, *user_files(finding)]
    uses = uses_of(
        names,
        files,
        zero_dim=plain,
        single=addition.single,
        parts=any(map(parts_of, seen)),
    )
    if kept is not None and not kept.graphs and not kept.numbers:
        raise NoPatchError(_itself(finding))
    if uses.graph and kept is not None and kept.graphs:
        raise NoPatchError(
            f"the graph may be needed by {uses.graph}",
            needs_graph(finding, uses.graph),
        )
    if uses.unread and (kept is None or kept.graphs):
        raise NoPatchError(f"the graph may be needed {uses.unread}")
    if uses.same:
        raise NoPatchError(f"another object may not do for {uses.same}")
    unread = next((f for f in files if is_unread(f, names.words)), None)
    if unread is not None:
        name = os.path.basename(unread)
        raise NoPatchError(f"{name}, which names it, is too large to be read")

    # Other holders' numbers, and sums, are not looked after.
    if not uses.number and (addition.single or not known):
        uses = replace(uses, number="what is made of it")

    def take(value: ast.expr, seen: Seen) -> Taking:
        sure = known and not addition.operand
        sure = sure or source.has_operand(
            value,
            lambda code: is_tensor(site.file, site.function, code),
        )
        taking = taking_of(seen, uses, sure=sure)
        if not taking.method:
            return taking
        asked, written = asked_of(
            [Value.of(site.file, value)],
            names,
            files,
            apart,
            single=addition.single,
        )
        if asked:
            raise NoPatchError(f"another object may not do for {asked}")
        if written and taking.method == "item":
            number = replace(uses, number=written)
            taking = taking_of(seen, number, sure=sure)
        return (
            replace(taking, method=finding.number_method)
            if taking.method == "item"
            else taking
        )

    apart = plain_parts(seen)
    thinning = Thinning(source, take, new)
    joined = False
    for value in addition.values:
        joined = joined or (addition.single and thinning.is_joined(value))
        thinning.value(value, seen)
    # Graphs that others of the line hold as well are in no holder's figure.
    stays = 0.0 if addition.single else thinning.stays
    share = share_stopped(finding, stays / len(addition.values))
    if joined and finding.all_bytes_per_step:
        # The tensor itself grows, with or without its graph.
        share = finding.graph_bytes_per_step / finding.all_bytes_per_step
    if _is_shared(finding) and "detach" in thinning.methods:
        share = 1.0
    if (
        not thinning.methods
        and uses.number
        and finding.kept
        and (finding.kept.numbers)
    ):
        raise NoPatchError(
            f"`.{finding.number_method}()` may change {uses.number}"
        )
    if share < ENOUGH:
        how = "` and `".join(f".{m}()" for m in sorted(thinning.methods))
        stops = f"`{how}` would stop {format_share(share)} of the growth: the"
        raise NoPatchError(
            f"{stops} {_the_rest(finding)} are the rest"
            if how and share >= A_PERCENT
            else _itself(finding)
        )
    return thinning.methods


def _is_the_growth(finding: Finding) -> bool:
    """Whether it is one tensor or array that gets longer, with no graph."""
    single = finding.holder is not None and finding.holder.length is None
    graphs = finding.graph is not None or finding.graph_bytes_per_step > 0
    return single and not finding.below_holder and not graphs


def _itself(finding: Finding) -> str:
    """What no method would take less of."""
    if _is_the_growth(finding):
        return f"the {finding.noun} itself is the growth"
    if slice_part(finding) is not None:
        return (
            "a copy does not follow what is written into the"
            f" {finding.noun} that a slice is of: whether the program needs"
            " that is not known"
        )
    return f"the {_the_rest(finding)} are the growth"


def _the_rest(finding: Finding) -> str:
    """What stays without the graphs."""
    if slice_part(finding) is not None:
        return f"{finding.noun}s that the slices are of"
    return f"{finding.noun}s themselves"
