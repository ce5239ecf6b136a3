"""Pages of what is no report: a bundle, an answer of explain(), two runs."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence

from ..base.errors import MissingExtraError
from ..base.records import dataclass
from ..base.units import format_bytes, format_count, plural
from ..model.bundle import Bundle
from ..model.retention import Instances, Retention
from .bundle import TOP, bundle_lines
from .console import plain
from .html import fragment_of, page_of, write_page
from .page_view import Node, ReportView, path_nodes, view_of
from .retention import headline_of, notes_of, whose

Rows = tuple[tuple[str, ...], ...]
_EXPLAIN = "explain.html.j2"


@dataclass(frozen=True)
class BundleView:
    """A flight recorder's bundle."""

    title: str
    said: tuple[str, ...]
    by_line: Rows
    by_holder: Rows
    report: ReportView | None


def bundle_page(bundle: Bundle) -> str:
    """A whole page; also where memory was too short for a report."""
    head, *rest = plain(bundle_lines(bundle)).splitlines()
    lines = [("line", "alive", "storages")]
    lines += [
        (site, format_bytes(size), format_count(count))
        for site, count, size in bundle.by_site()[: 2 * TOP]
    ]
    holders = [("holder", "holds", "storages")]
    holders += [
        (h.path, format_bytes(h.bytes), format_count(h.storages))
        for h in bundle.holders[: 2 * TOP]
    ]
    # What follows the first blank line is shown better below.
    said = rest[: rest.index("")] if "" in rest else rest
    view = BundleView(
        title=head.removeprefix("Flight recorder: "),
        said=tuple(text.strip() for text in said),
        by_line=tuple(lines) if len(lines) > 1 else (),
        by_holder=tuple(holders) if len(holders) > 1 else (),
        report=None if bundle.report is None else view_of(bundle.report),
    )
    return page_of("bundle.html.j2", view)


def write_bundle(bundle: Bundle, path: str | os.PathLike[str]) -> None:
    """Writes the page atomically; ReportError where it can't."""
    write_page(bundle_page(bundle), path)


# -- who holds an object ------------------------------------------------------


@dataclass(frozen=True)
class HeldBy:
    """One object that was asked about."""

    target: str
    headline: str
    trees: tuple[tuple[str, tuple[Node, ...]], ...]
    notes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ExplainView:
    """All of them."""

    title: str
    held: tuple[HeldBy, ...]


def _explain_view(found: Sequence[Retention]) -> ExplainView:
    title = found[0].target if len(found) == 1 else f"{len(found)} objects"
    return ExplainView(
        f"who holds {title}",
        tuple(
            HeldBy(
                r.target,
                headline_of(r),
                tuple(
                    (f"{path}{whose(path)}", path_nodes(path))
                    for path in r.paths
                ),
                tuple(notes_of(r)),
            )
            for r in found
        ),
    )


def _instances_view(found: Instances) -> ExplainView:
    shown = sum(group.count for group in found.groups)
    more = format_count(found.count - shown)
    return ExplainView(
        f"where the instances of {found.type} hang",
        (
            HeldBy(
                found.type,
                plural(found.count, "live instance"),
                tuple(
                    (
                        f"{format_count(group.count)} at {group.pattern}",
                        path_nodes(group.example),
                    )
                    for group in found.groups
                ),
                (("not shown", more),) if shown < found.count else (),
            ),
        ),
    )


def explain_page(found: Sequence[Retention]) -> str:
    """A whole page of what explain() has answered."""
    return page_of(_EXPLAIN, _explain_view(found))


def write_explain(
    found: Sequence[Retention], path: str | os.PathLike[str]
) -> None:
    """Writes the page atomically; ReportError where it can't."""
    write_page(explain_page(found), path)


def write_instances(found: Instances, path: str | os.PathLike[str]) -> None:
    """The same of a class."""
    write_page(page_of(_EXPLAIN, _instances_view(found)), path)


def retention_fragment(found: Retention) -> str:
    """The same for a notebook; without jinja2 the text."""
    return _fragment(_explain_view([found]), found)


def retentions_fragment(found: Sequence[Retention]) -> str:
    """Of several objects."""
    return _fragment(_explain_view(found), found)


def instances_fragment(found: Instances) -> str:
    """Of a class."""
    return _fragment(_instances_view(found), found)


def _fragment(view: ExplainView, found: object) -> str:
    try:
        return fragment_of(_EXPLAIN, view)
    except MissingExtraError:
        return f"<pre>{html.escape(str(found))}</pre>"


# -- two runs -----------------------------------------------------------------


@dataclass(frozen=True)
class ChangeView:
    """A finding of one of two runs, or of both.

    ``kind`` is "new", "worse", "gone", "better" or "same".
    """

    kind: str
    headline: str
    where: str
    said: str = ""

    @property
    def look(self) -> str:
        if self.kind in ("new", "worse"):
            return "critical"
        return "quiet" if self.kind == "same" else "info"


@dataclass(frozen=True)
class DiffView:
    """Two runs; ``figures`` is a table of both."""

    title: str
    changes: tuple[ChangeView, ...]
    figures: Rows
    runs: tuple[tuple[str, ReportView], ...]


def diff_page(view: DiffView) -> str:
    """A whole page of what has changed between two runs."""
    return page_of("diff.html.j2", view)
