"""The peers' figures as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from machine import remark

OURS, OTHERS, NOISE = "#2f6f9f", "#b5b5b5", "#e2e2e2"
MARKS = {"Y": "right and named", "n": "right, nameless", "-": "none or wrong"}
SHADES = {"Y": "#2f6f9f", "n": "#a9c7dd", "-": "#eeeeee"}


def draw(data: dict[str, Any], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    kinds = list(dict.fromkeys(row["kind"] for row in data["steps"]))
    for ax, kind in zip(axes[0], kinds, strict=True):
        costs(ax, [row for row in data["steps"] if row["kind"] == kind])
    times(axes[1][0], data["holders"])
    answers(axes[1][1], data["holders"])
    figure.suptitle(remark(data["machine"]), fontsize=8, color="#666666")
    figure.savefig(path, dpi=110)


def colour(tool: str) -> str:
    if tool.startswith("nothing"):
        return NOISE
    return OURS if tool.lower() == "impactarbiter" else OTHERS


def costs(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Ratio of a step's time with its quartiles; extra memory in words."""
    rows = rows[::-1]
    ratios = [row["ratio"] for row in rows]
    spread = [
        [row["ratio"] - row["low"] for row in rows],
        [row["high"] - row["ratio"] for row in rows],
    ]
    ax.barh(
        [row["tool"] for row in rows],
        ratios,
        xerr=spread,
        color=[colour(row["tool"]) for row in rows],
        error_kw={"elinewidth": 1, "ecolor": "#555555"},
    )
    ax.axvline(1, color="#555555", linewidth=0.8)
    for at, row in enumerate(rows):
        text = f" {row['ratio']:.2f}   +{row['extra'] / 1e6:.0f} MB"
        ax.text(row["high"], at, text, va="center", fontsize=8)
    ax.set_xlim(0, 1.35 * max(row["high"] for row in rows))
    ax.set_title(
        f"{rows[0]['kind']} step of {1e3 * rows[-1]['base']:.3g} ms:"
        " time with / without",
        fontsize=10,
    )
    tidy(ax)


def times(ax: Any, rows: list[dict[str, Any]]) -> None:
    rows = rows[::-1]
    units = [row["median"] / row["collection"] for row in rows]
    ax.barh(
        [row["tool"] for row in rows],
        units,
        color=[colour(row["tool"]) for row in rows],
    )
    ax.set_xscale("log")
    ax.set_xlim(min(units) / 2, 12 * max(units))
    for at, (row, unit) in enumerate(zip(rows, units, strict=True)):
        text = f" {unit:.3g}   +{row['extra'] / 1e6:.0f} MB"
        ax.text(unit, at, text, va="center", fontsize=8)
    ax.set_title(
        f"who holds it, {rows[0]['objects'] / 1e6:.1f} M objects:"
        " time in gc.collect()s",
        fontsize=10,
    )
    tidy(ax)


def answers(ax: Any, rows: list[dict[str, Any]]) -> None:
    rows = rows[::-1]
    for at, row in enumerate(rows):
        for i, reply in enumerate(row["replies"]):
            shade = SHADES[reply["mark"]]
            ax.barh(at, 0.92, left=i, color=shade, height=0.8)
    ax.set_yticks(range(len(rows)), [row["tool"] for row in rows])
    kinds = [reply["kind"] for reply in rows[0]["replies"]]
    places = [i + 0.46 for i in range(len(kinds))]
    ax.set_xticks(places, kinds, rotation=45, ha="right", fontsize=8)
    for mark, words in MARKS.items():
        ax.barh(0, 0, color=SHADES[mark], label=words)
    ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8,
    )
    tidy(ax)


def tidy(ax: Any) -> None:
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=8)
