"""Whole programs of 80 to 200 steps: processor time watched over plain.

The programs are those of ``make whole`` that are of this length, each with
its leak and without.  A process each: starting, loading, looks and the report
are in it, as are the imports of torch and of the libraries.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pairs import Measures, Row, compare_each

WHOLE = Path(__file__).resolve().parent.parent / "tests" / "whole"
sys.path.append(str(WHOLE))

from runs import Run, Script, plain, watched  # noqa: E402

NAMES = (
    "sanity_eval_classifier",
    "transforms_dataset",
    "text_sampler_callback",
    "gan_ring",
    "grad_accumulation_lm",
    "maml_sines",
    "distill_hooks",
    "spike_function_ctx",
    "activation_registry",
    "segmentation_two_leaks",
    "hf_trainer_sampler",
    "lightning_epoch_outputs",
)
TWINS = ("leaky", "fixed")
EACH, MEDIAN = 1.10, 1.05


def measure(
    scripts: Sequence[Script], execute: Callable[[Script], Run]
) -> Measures:
    def seconds() -> list[float]:
        return [_seconds(execute(script), script) for script in scripts]

    return seconds


def _seconds(run: Run, script: Script) -> float:
    if run.exit != 0:
        raise SystemExit(f"{script.file.name}: {run.stderr[-300:]}")
    return run.cpu


def run(effort: float) -> list[Row]:
    rows: list[Row] = []
    for name in NAMES:
        scripts = [
            Script(WHOLE / "programs" / f"{name}_{twin}.py") for twin in TWINS
        ]
        rows += compare_each(
            {f"{name}, {twin}": EACH for twin in TWINS},
            measure(scripts, plain),
            measure(scripts, partial(watched, gate=False)),
            max(round(5 * effort), 2),
        )
    return [*rows, median(rows)]


def median(rows: list[Row]) -> Row:
    """Of the programs' ratios, with their quartiles."""
    ratios = [row.ratio for row in rows]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Row(
        f"the median of these {len(rows)}",
        statistics.median(row.base for row in rows),
        statistics.median(row.with_ for row in rows),
        low,
        ratio,
        high,
        rows[0].rounds,
        MEDIAN,
    )
