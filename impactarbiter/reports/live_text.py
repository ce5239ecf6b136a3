"""The picture of a run that goes on, for a terminal (rich)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
#: Columns of a curve.
_COLUMNS = 48
_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold"}


def picture(view: dict[str, Any]) -> Group:
    """Status, curves, findings, lines and holders, as ``live_view`` has
    them."""
    from rich.console import Group
    from rich.text import Text

    alarming = bool(view["moment"]["findings"])
    style = "bold yellow" if alarming else "bold"
    parts: list[Any] = [Text(view["summary"] or view["status"], style)]
    if view["over"]:
        parts.append(Text(f"ended: {view['status']}", "dim"))
    parts += [Text(), *_curves(view["timeline"])]
    for finding in view["findings"]:
        parts += [Text(), *_finding(finding)]
    if view["findings_left_out"]:
        parts.append(Text(f"{view['findings_left_out']} more", "dim"))
    if view["lines"]:
        parts += [Text(), _lines(view["lines"])]
    if view["holders"]:
        parts += [Text(), _holders(view["holders"])]
    return Group(*parts)


def curve(sizes: Sequence[float]) -> str:
    """Sizes as blocks, from nothing to the largest."""
    stride = -(-len(sizes) // _COLUMNS) or 1
    chosen = [max(sizes[i : i + stride]) for i in range(0, len(sizes), stride)]
    top = max(chosen, default=0) or 1
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(size / top * last)] for size in chosen)


def _curves(timeline: dict[str, Any]) -> list[Text]:
    from rich.text import Text

    made = []
    for name, sizes in (
        ("live", timeline["live"]),
        ("resident", timeline["resident"]),
    ):
        if len(sizes) > 1:
            made.append(Text.assemble((f"{name:<9}", "dim"), curve(sizes)))
    return made


def _finding(finding: dict[str, Any]) -> list[Any]:
    from rich.padding import Padding
    from rich.text import Text

    bounded = finding["bounded"]
    style = "dim" if bounded else _STYLES[finding["severity"]]
    word = "" if bounded else finding["severity"].upper() + " "
    head = Text.assemble(
        (f"{word}{finding['verdict']}: ", style), finding["says"]
    )
    told = [f"{finding['at']}, since step {finding['since']}"]
    if finding["source"]:
        told.append(f"  {finding['source']}")
    if finding["path"]:
        told.append(f"kept by {finding['path']}")
    below = [Padding(Text(text, "dim"), (0, 0, 0, 2)) for text in told]
    if finding["do"]:
        below.append(Padding(Text(finding["do"], "green"), (0, 0, 0, 2)))
    return [head, *below]


def _lines(lines: list[dict[str, Any]]) -> Table:
    table = _table("bytes", "lines that hold most", "")
    for line in lines:
        _row(table, line["size"], line["at"], line["source"])
    return table


def _holders(holders: list[dict[str, Any]]) -> Table:
    table = _table("bytes", "holders that keep most", "type", "items", "")
    for one in holders:
        length = "" if one["length"] is None else f"{one['length']:,}"
        _row(
            table,
            one["size"],
            one["expression"],
            one["type"],
            length,
            one["verdict"],
        )
    return table


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        right = name in ("bytes", "items")
        table.add_column(
            name, justify="right" if right else "left", overflow="fold"
        )
    return table


def _row(table: Table, *cells: str) -> None:
    """As it stands: no cell is read as rich's markup."""
    from rich.text import Text

    table.add_row(*map(Text, cells))
