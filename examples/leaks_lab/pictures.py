"""The lab's pictures: one of each pair, and one page with all of them."""

import base64
import html
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


def draw_pair(name, leaky, fixed, path):
    """Memory at the steps' ends of both variants, on one scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for report, colour, label in (
        (leaky, LEAKY, "leaky"),
        (fixed, FIXED, "fixed"),
    ):
        axes.plot(*curve(report), color=colour, label=label)
    axes.set_ylim(bottom=0)
    axes.set_title(name.replace("_", " "), loc="left", fontsize=11)
    axes.set_xlabel("step")
    axes.set_ylabel("MiB at its end")
    axes.legend(loc="upper left", frameon=False)
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
