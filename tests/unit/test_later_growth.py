"""What grows after the last step, in words and in files."""

from __future__ import annotations

import dataclasses
import json

import impactarbiter
from impactarbiter import LaterGrowth, LaterLine, Report, Site
from impactarbiter.judging.masks import obfuscated
from impactarbiter.model.path import Edge, Path
from impactarbiter.reports.first_line import summary

LINE = LaterLine(
    Site("/srv/zebra.py", 12, "zebra", "zebra = model(x)"),
    Path("zebra()", (Edge("attribute", "zebra", "list", ".zebra"),)),
)
GROWN = LaterGrowth(
    after_step=200,
    calls=250,
    call_kind="module call",
    bytes_per_call=1024.0,
    lines=(LINE,),
)
REPORT = Report(steps=200, step_kind="optimizer", later_growth=GROWN)


def test_the_first_line_names_rate_and_line() -> None:
    assert summary(REPORT) == (
        "no leak in 200 steps; then 1.0 KiB a module call more at zebra.py:12"
    )
    nobody = dataclasses.replace(GROWN, lines=())
    report = dataclasses.replace(REPORT, later_growth=nobody)
    assert summary(report).endswith("then 1.0 KiB a module call more")


def test_the_holder_is_named_below() -> None:
    assert (
        "after step 200 tensor memory went on to grow, 1.0 KiB a module call"
        " in 250 of them, of /srv/zebra.py:12 in zebra, kept by zebra().zebra:"
        " no verdict is about that" in str(REPORT).replace("\n", " ")
    )


def test_a_file_has_it_all() -> None:
    data = json.loads(json.dumps(REPORT.to_dict()))
    again = impactarbiter.Report.from_dict(data)
    assert again.later_growth == GROWN


def test_names_are_masked() -> None:
    masked = obfuscated(REPORT)
    assert masked.later_growth is not None
    assert "zebra" not in str(masked) + json.dumps(masked.to_dict())
    assert masked.later_growth.bytes_per_call == 1024.0
