"""What other tools load: the live table, its page, a trace."""

from __future__ import annotations

import csv
import html.parser
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter.commands import main
from impactarbiter.judging.sums.live_table import fuller, live_table
from impactarbiter.model.finding import Finding, Site
from impactarbiter.model.history import History, LineCurve
from impactarbiter.model.live import LiveStack, LiveTable
from impactarbiter.model.report import Report
from impactarbiter.reports.perfetto import trace


def big() -> torch.Tensor:
    return torch.ones(1000)


def small() -> torch.Tensor:
    return torch.nn.functional.relu(torch.ones(10))


@pytest.fixture
def watched() -> Iterator[impactarbiter.Arbiter]:
    with impactarbiter.watch(step="manual") as arbiter:
        yield arbiter


def test_the_table_is_what_is_alive(watched: impactarbiter.Arbiter) -> None:
    kept = [big(), big(), small()]
    table = live_table(7)
    now = impactarbiter.snapshot()
    assert table.live_bytes == now.live_bytes
    assert table.storages == len(now) == len(kept)
    assert table.rest_bytes == table.rest_storages == 0
    first, last = table.stacks
    assert first.bytes == 8000 and first.storages == 2
    assert last.bytes == 40 and last.device == "cpu"
    # The user's line, though torch's own is the innermost.
    inner, line = table.sites_of(last)[0], table.line_of(last)
    assert inner.function == "relu" and line.function == "small"
    assert line.source == "return torch.nn.functional.relu(torch.ones(10))"
    cut = live_table(7, most=1)
    assert cut.rest_bytes == 40 and cut.rest_storages == 1
    kept.clear()
    assert live_table(8).live_bytes == 0


def test_the_end_of_a_program_does_not_empty_the_table() -> None:
    full, half, none = (LiveTable(live_bytes=n) for n in (100, 50, 0))
    assert fuller(full, none) is full
    assert fuller(full, half) is half


def table(name: str = "train", file: str = "/home/me/a.py") -> LiveTable:
    sites = (Site(file, 3, name, "x = f()"), Site("/lib/b.py", 9, "f"))
    return LiveTable(
        step=60,
        live_bytes=1000,
        storages=5,
        frames=sites,
        stacks=(
            LiveStack(700, 2, "cpu", (1, 0), user=1),
            LiveStack(200, 2, "cuda:0", (0,)),
        ),
    )


def test_csv_is_read_back(tmp_path: Path) -> None:
    saved, made = tmp_path / "run.json", tmp_path / "live.csv"
    Report(live=table('tr"ain,\n')).to_json(saved)
    assert main(["report", str(saved), "--csv", str(made)]) == 0
    with open(made, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["bytes"]) for row in rows] == [700, 200, 100]
    assert [int(row["storages"]) for row in rows] == [2, 2, 1]
    assert rows[0]["file"] == "/home/me/a.py" and rows[0]["line"] == "3"
    assert rows[0]["function"] == 'tr"ain,\\n'
    assert rows[0]["stack"].endswith("> /lib/b.py:9 in f")
    assert rows[1]["device"] == "cuda:0"


class Page(html.parser.HTMLParser):
    """Elements of a page, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.boxes: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.loads: list[str | None] = []
        self.feed(text)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        known = dict(attrs)
        self.tags.append(tag)
        self.loads += [known[a] for a in ("src", "href") if a in known]
        if tag == "button":
            self.boxes.append(known)


def test_flame_page(tmp_path: Path) -> None:
    saved, made = tmp_path / "run.json", tmp_path / "flame.html"
    evil = "</title><script>alert(1)</script>\"'"
    Report(live=table(evil, f"/{evil}.py")).to_json(saved)
    assert main(["report", str(saved), "--flame", str(made)]) == 0
    text = made.read_text()
    page = Page(text)
    assert page.tags.count("script") == 1 and "alert(1)</script>" not in text
    assert not page.loads and "http" not in text.replace("http-equiv", "")
    # Both stacks begin at the same call: one box, and what it called.
    places = [
        (box["data-depth"], box["data-left"], box["data-width"])
        for box in page.boxes
    ]
    assert places == [("0", "0.000", "90.000"), ("1", "0.000", "70.000")]
    assert str(page.boxes[1]["title"]).startswith(
        "700 B in 2 storages, 70.0 %"
    )
    assert "100 B of it in stacks that are left out" in text


def test_flame_page_of_a_thousand_calls(tmp_path: Path) -> None:
    deep = 1500
    live = LiveTable(
        live_bytes=1,
        storages=1,
        frames=tuple(Site("a.py", i, f"f{i}") for i in range(deep)),
        stacks=(LiveStack(1, 1, "cpu", tuple(range(deep))),),
    )
    Report(live=live).to_flame(tmp_path / "f.html")
    boxes = Page((tmp_path / "f.html").read_text()).boxes
    assert [box["data-depth"] for box in boxes] == [*map(str, range(deep))]


def test_flame_page_of_nothing(tmp_path: Path) -> None:
    Report().to_flame(tmp_path / "f.html")
    assert "Nothing was alive." in (tmp_path / "f.html").read_text()


def test_a_table_with_a_frame_too_few_is_no_report() -> None:
    data = Report(live=table()).to_dict()
    data["live"]["frames"].pop()
    with pytest.raises(impactarbiter.ReportError, match="not there"):
        Report.from_dict(data)


# -- traces -------------------------------------------------------------------


def ran(**more: Any) -> Report:
    site = Site("/home/me/a.py", 3, "train", "keep.append(x)")
    finding = Finding(
        verdict="leak",
        severity="warning",
        allocated_at=site,
        first_step=2,
        last_step=4,
        confirmed_step=4,
    )
    history = History(
        steps=(1, 2, 3, 4),
        live_bytes=(10, 20, 30, 40),
        seconds=(0.5, 1.0, 2.0, 4.0),
        phases=("a", "a/b", "a/b", ""),
        lines=(LineCurve(site, (None, 5, 6, 7)),),
        node_steps=(3,),
        node_bytes=(99,),
    )
    given: dict[str, Any] = {"history": history, "findings": (finding,)}
    return Report(steps=4, **(given | more))


def test_a_trace_has_counters_phases_and_findings(tmp_path: Path) -> None:
    ran().to_perfetto(tmp_path / "t.json")
    loaded = json.loads((tmp_path / "t.json").read_text())
    events = loaded["traceEvents"]
    for event in events:
        assert event["ph"] in "MCXi" and event["name"] and event["pid"] == 1
        assert event["ph"] == "M" or event["ts"] >= 0
    sizes: dict[str, list[tuple[float, int]]] = {}
    for event in events:
        if event["ph"] == "C":
            at = event["ts"], event["args"]["bytes"]
            sizes.setdefault(event["name"], []).append(at)
    assert sizes.pop("live tensor memory") == [
        (5e5, 10),
        (1e6, 20),
        (2e6, 30),
        (4e6, 40),
    ]
    assert sizes.pop("autograd nodes") == [(2e6, 99)]
    ((name, of_line),) = sizes.items()
    assert name.startswith("line ") and of_line[0] == (1e6, 5)
    slices = [
        (e["name"], e["ts"], e["ts"] + e["dur"])
        for e in events
        if e["ph"] == "X"
    ]
    assert slices == [("a", 5e5, 2e6), ("b", 5e5, 2e6)]
    marks = [
        (re.sub(":.*", "", e["name"]), e["ts"])
        for e in events
        if e["ph"] == "i"
    ]
    assert marks == [("leak began", 1e6), ("leak confirmed", 4e6)]


def test_ranks_are_processes_and_steps_are_time_where_none_was_taken() -> None:
    history = History(steps=(1, 5), live_bytes=(1, 2))
    made = trace(ran(history=history, environment={"rank": "3"}))
    events = made["traceEvents"]
    assert {event["pid"] for event in events} == {4}
    assert [e["ts"] for e in events if e["ph"] == "C"] == [1000, 5000]


def test_a_trace_of_nothing() -> None:
    kinds = [event["ph"] for event in trace(Report())["traceEvents"]]
    assert set(kinds) == {"M"}
