"""The lab's pictures: one of each pair, and one page with all of them."""

import base64
import html
from bisect import bisect_left
from pathlib import Path

from original import ACCURACY, LEAKY_ACCURACY, ORIGINAL

LEAKY, FIXED = "#c0392b", "#2f6f9f"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
       max-width: 60rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: .3rem .5rem; text-align: right;
         border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 2rem 0; } img { width: 100%; height: auto; }
figcaption { color: #555; font-size: 13px; }
"""


def curve(report):
    """Steps, and at the end of each MiB of live tensors and graph nodes."""
    history = report["history"]
    pairs = zip(history["node_steps"], history["node_bytes"], strict=True)
    nodes = dict(pairs)
    # The last of a step's points is its end.
    live = dict(zip(history["steps"], history["live_bytes"], strict=True))
    newest, sizes = 0, []
    for step, size in live.items():
        newest = nodes.get(step, newest)
        sizes.append((size + newest) / 2**20)
    return list(live), sizes


#: What is built up in this part of a run is no growth.
BUILD_UP = 8


def gained(report):
    """Steps as parts of the run, and MiB that came since it was built up.

    From where graph nodes were measured, too; without the last step: its end
    is that of the validation after it.
    """
    steps, sizes = (values[:-1] or values for values in curve(report))
    counted = min(report["history"]["node_steps"], default=0)
    first = max(len(steps) // BUILD_UP, bisect_left(steps, counted))
    first = min(first, len(steps) - 1)
    parts = [
        (step - steps[0]) / max(steps[-1] - steps[0], 1) for step in steps
    ]
    return parts[first:], [size - sizes[first] for size in sizes[first:]]


#: The least that a picture spans: flatter than that looks flat.
LEAST_MIB = 0.05


def draw_pair(name, leaky, fixed, path):
    """What both variants gained over the same batches, on one scale.

    One may have fewer optimizer steps than the other: micro-batches.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for report, colour, label in (
        (leaky, LEAKY, "leaky"),
        (fixed, FIXED, "fixed"),
    ):
        parts, sizes = gained(report)
        axes.plot([100 * part for part in parts], sizes, color=colour)
        axes.annotate(f" {label}", (100, sizes[-1]), color=colour, va="center")
    # What is nothing looks like nothing.
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -LEAST_MIB / 8), max(high, LEAST_MIB))
    axes.set_xlim(0, 108)
    axes.set_title(name.replace("_", " "), loc="left", fontsize=11)
    axes.set_xlabel("% of the run")
    axes.set_ylabel("MiB gained")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)


def cells(run):
    """One line of the page's table, as texts."""
    peaks = [r["peak_bytes"] / 2**20 for r in (run.leaky, run.fixed)]
    cuda, mps = ORIGINAL[run.name]
    return [
        run.name.replace("_", " "),
        f"{peaks[0]:.1f} MiB",
        f"{peaks[1]:.1f} MiB",
        f"{peaks[0] / peaks[1]:.2f}x",
        str(cuda),
        str(mps),
        f"{run.leaky_accuracy:.1%}",
        f"{run.fixed_accuracy:.1%}",
        run.verdict,
    ]


TITLES = (
    "leak",
    "leaky peak",
    "fixed peak",
    "ratio",
    "original, CUDA",
    "original, MPS",
    "accuracy, leaky",
    "accuracy, fixed",
    "verdict",
)


def row(words, tag="td"):
    inside = "".join(f"<{tag}>{html.escape(w)}</{tag}>" for w in words)
    return f"<tr>{inside}</tr>"


def figure(run, picture):
    data = base64.b64encode(picture.read_bytes()).decode()
    said = html.escape(run.said)
    return (
        f'<figure><img alt="{html.escape(run.name)}"'
        f' src="data:image/png;base64,{data}">'
        f"<figcaption>{said}</figcaption></figure>"
    )


def write_page(runs, backend, folder):
    """PNG files and ``lab.html`` in the folder; returns the page's path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    for run in runs:
        picture = folder / f"{run.name}.png"
        draw_pair(run.name, run.leaky, run.fixed, picture)
        figures.append(figure(run, picture))
    page = folder / "lab.html"
    page.write_text(
        f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Leaks lab</title>
<style>{STYLE}</style>
<h1>Leaks lab</h1>
<p>Here: {html.escape(backend)}. Peaks are of live tensors. The original's
are of the device, with a larger model and more steps: compare directions,
not figures. Its accuracy without a leak was {ACCURACY[0]} % on CUDA and
{ACCURACY[1]} % on MPS; {leaky_words()}.</p>
<table>{row(TITLES, "th")}{"".join(row(cells(run)) for run in runs)}</table>
{"".join(figures)}
</html>
""",
        encoding="utf-8",
    )
    return page


def leaky_words():
    return "; ".join(
        f"with {name.replace('_', ' ')} it was {cuda} and {mps}"
        for name, (cuda, mps) in LEAKY_ACCURACY.items()
    )
