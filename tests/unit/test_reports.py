"""Renderers: the words, what is escaped, and reading a report back."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import os
import pty
import struct
import sys
import termios
from pathlib import Path as File
from typing import Any

import pytest

from impactarbiter.base.errors import MissingExtraError, ReportError
from impactarbiter.base.files import check_writable, write_atomic
from impactarbiter.base.text import clean
from impactarbiter.judging.masks import obfuscated
from impactarbiter.model.children import ChildFinding, Children
from impactarbiter.model.finding import (
    Cycle,
    Finding,
    GraphCost,
    Holder,
    Site,
    TensorExample,
)
from impactarbiter.model.growth import ProcessGrowth
from impactarbiter.model.path import Edge, Path
from impactarbiter.model.report import Cost, GrowingLine, History, Report
from impactarbiter.model.words import VERDICTS, Severity
from impactarbiter.reports.console import broken, emit, line, plain
from impactarbiter.reports.first_line import ROOM, summary
from impactarbiter.reports.html import report_fragment, report_page
from impactarbiter.reports.jsonio import report_json
from impactarbiter.reports.outputs import FOUND, UNJUDGED, gate
from impactarbiter.reports.sarif import sarif_log
from impactarbiter.reports.scales import Box
from impactarbiter.reports.text import report_lines, report_text
from impactarbiter.reports.wording import announcement

MIB = 1 << 20
NASTY = "\x1b[31m[bold]x[/bold]\r\n<script>alert(1)</script>\u202e{{7*7}}"


def leak(**fields: Any) -> Finding:
    known: dict[str, Any] = {
        "verdict": "leak",
        "severity": "critical",
        "allocated_at": Site("/w/train.py", 38, "loss_of", "loss = f(x)"),
        "path": Path(
            "__main__",
            tuple(
                Edge("edge", text, "object", text)
                for text in (".trainer", ".history", "[17]")
            ),
            True,
        ),
        "holder": Holder("__main__.trainer.history", "list", 120, 1.0),
        "grown_at": Site("/w/train.py", 41, "on_step", "history.append(x)"),
        "bytes_per_step": 10.0 * MIB,
        "tensors_per_step": 3.0,
        "retained_bytes": 1200 * MIB,
        "retained_tensors": 390,
        "generations": 117,
        "first_step": 4,
        "last_step": 120,
        "graph": GraphCost(28, 12, 800 * MIB, (("MmBackward0", 4, MIB),)),
        "steps_to_oom": 1204,
        "seconds_to_oom": 11520.0,
        "tensors": (TensorExample((2, 3), "float32", "cpu", 9, 24),),
        "advice": "Keep loss.item() instead.",
        "patch": "-history.append(x)\n+history.append(x.item())\n",
        "stack": (Site("/w/train.py", 38, "loss_of", "loss = f(x)"),),
    }
    return Finding(**{**known, **fields})


@pytest.mark.parametrize(
    ("tensors", "nodes", "first"),
    [
        (48.0, 0.0, "grew 64 B a step; findings explain 48 B"),
        (48.0, 1 * MIB, "CRITICAL, 1 leak: "),
        (0.0, 8.0, "grew 72 B a step; findings explain 8 B"),
        (64.0, 0.0, "CRITICAL, 1 leak: "),
    ],
)
def test_the_nodes_of_a_graph_are_growth_that_is_explained(
    tensors: float, nodes: float, first: str
) -> None:
    report = Report(
        steps=200,
        findings=(leak(bytes_per_step=tensors, graph_bytes_per_step=nodes),),
        grown_bytes_per_step=64.0,
        explained_bytes_per_step=tensors,
    )
    assert summary(report).startswith(first)


def test_of_several_leaks_the_first_line_says_what_is_at_its_line() -> None:
    small = leak(
        grown_at=Site("/w/train.py", 52, "log"),
        holder=Holder("__main__.log", "list"),
        bytes_per_step=2048.0,
        severity="info",
    )
    beside = leak(holder=Holder("__main__.more", "list"), bytes_per_step=1.0)
    total = "CRITICAL, 2 leaks: "
    for other, said in [
        (small, f"{total}12.0 KiB a step, 10.0 KiB of it at train.py:41"),
        (beside, f"{total}10.0 KiB a step at train.py:41"),
    ]:
        big = leak(bytes_per_step=10240.0)
        assert summary(Report(findings=(big, other), steps=9)).startswith(said)


@pytest.mark.parametrize(
    ("own", "severity", "first"),
    [
        (None, "critical", "CRITICAL: worker 0 leaks at data.py:9"),
        (None, None, "no leak in 200 steps"),
        ("critical", "info", "CRITICAL, 1 leak: "),
        ("info", "critical", "CRITICAL: worker 0 leaks at data.py:9; the"),
    ],
)
def test_the_first_line_is_the_answer_for_children_too(
    own: Severity | None, severity: Severity | None, first: str
) -> None:
    worst = leak(severity=severity or "info")
    child = ChildFinding(
        role="dataloader",
        on="worker 0",
        processes=1,
        bytes_per_step=8.0,
        retained_bytes=80,
        worst=worst,
    )
    children = Children(
        answer="worker 0 leaks at data.py:9" if severity else "no leak",
        processes=2,
        severity=severity,
        findings=(child,) if severity else (),
    )
    found = [leak(severity=own)] if own else []
    made = Report(findings=tuple(found), steps=200, children=children)
    said = summary(made)
    assert said.startswith(first) and len(said) <= ROOM
    assert ("children leak, too" in said) == (own == "critical")
    assert Report.from_dict(made.to_dict()) == made
    assert report_text(made).count("on worker 0") == bool(severity)
    assert len(sarif_log(made)["runs"][0]["results"]) == len(found) + bool(
        severity
    )
    masked = obfuscated(made)
    assert "data.py" not in str(masked.children)
    assert str(worst.path) not in str(masked.children)


def report(*findings: Finding, **fields: Any) -> Report:
    known: dict[str, Any] = {
        "findings": findings,
        "steps": 120,
        "live_bytes": 1300 * MIB,
        "peak_bytes": 1400 * MIB,
        "accounted": {"parameters": 100 * MIB, "findings": 1200 * MIB},
        "cost": Cost(0.12, 35.0, 4096, 4, 140.0),
        "environment": {"python": "3.11", "cwd": "/w"},
        "history": History((1, 60, 120), (MIB, 600 * MIB, 1300 * MIB)),
        "memory_limit": 16 << 30,
        "needed_steps": 8,
    }
    return Report(**{**known, **fields})


GOLDEN = """\
ImpactArbiter: CRITICAL, 1 leak: 10.0 MiB a step at train.py:41; Keep\
 loss.item() instead

CRITICAL leak: __main__.trainer.history keeps 10.0 MiB in 3 tensors more a\
 step, and nothing has let it go
  allocated   /w/train.py:38 in loss_of
              loss = f(x)
  kept by     __main__.trainer.history[17]
  holder      __main__.trainer.history: list of 120, +1 a step
  grown at    /w/train.py:41 in on_step
              history.append(x)
  growth      10.0 MiB in 3 tensors more a step; what 117 steps made is\
 still there, from step 4 to 120
  retained    1.2 GiB in 390 tensors, freed if the path is cut at the holder
  graph       28 nodes of autograd, 12 tensors saved for backward (800 MiB);\
 biggest MmBackward0 \u00d74 (1.0 MiB)
  tensors     such as [2, 3] float32 on cpu (24 B, step 9)
  forecast    out of memory in 1,204 steps (~3 h 12 min)
  do          Keep loss.item() instead.
  patch       suggested:
              -history.append(x)
              +history.append(x.item())

watched 120 steps; 1.3 GiB live at the end, 1.4 GiB at the peak
live: findings 1.2 GiB, parameters 100 MiB
watching cost 0.12 ms a step, 140 ms for 4 looks at suspects,\
 4.0 KiB of ledger"""


def test_text() -> None:
    assert report_text(report(leak())) == GOLDEN
    assert str(report(leak())) == GOLDEN


ADVICE = (
    "store `.item()` in `main().trainer.loss_history_of_all_steps` instead of"
    " the tensor: each one keeps the graph that made it; that stops all of it"
)


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"advice": "store `.item()`: it is enough"}, ": it is enough"),
        ({"advice": ADVICE, "patch": None}, "; store `.item()`"),
        ({"advice": ADVICE}, "; history.append(x.item())"),
        (
            {"advice": "word " * 40, "patch": None},
            "; kept in `__main__.trainer.history`",
        ),
        (
            {
                "advice": "word " * 40,
                "patch": None,
                "grown_at": Site("/a/a_long_name_of_a_file.py", 3, "f"),
            },
            "; kept in `\u2026.history`",
        ),
        ({"grown_at": Site("x" * 90 + ".py", 3, "f"), "advice": ""}, ".py:3"),
        ({"verdict": "growing"}, " at train.py:41"),
    ],
)
def test_the_first_line_fits(fields: dict[str, Any], end: str) -> None:
    first = str(report(leak(**fields))).splitlines()[0]
    assert len(first) <= 100
    assert first.startswith("ImpactArbiter: CRITICAL, 1 ")
    assert first.endswith(end)


LINES = tuple(
    GrowingLine(Site(f"/w/{name}.py", 51, "Client.begin_round"), 1638.0)
    for name in ("fed_wrap", "serving")
)
NOTHING = dict.fromkeys(
    (
        *("tensors", "arrays", "nodes", "objects", "heap", "kept", "files"),
        *("shared", "watching", "rest"),
    ),
    0.0,
)


@pytest.mark.parametrize(
    ("growth", "lines", "first"),
    [
        (
            {"heap": 7782.0, "rest": -2867.0},
            (),
            "no leak among tensors; grew 4.8 KiB a step: memory of C"
            " libraries",
        ),
        (
            {"heap": 4915.0},
            (),
            "no leak among tensors; grew 4.8 KiB a step: memory of C"
            " libraries (4.8 KiB)",
        ),
        (
            {"heap": 2500.0, "files": 2415.0},
            (),
            "a step: memory of C libraries, mapped files",
        ),
        (
            {"heap": 1000.0, "tensors": 3915.0},
            LINES,
            "grew 4.8 KiB a step: tensors from /w/fed_wrap.py:51 in"
            " Client.begin_round (3.8 KiB)",
        ),
        (
            None,
            (),
            "grew 1.6 KiB a step, at no line steadily; no finding explains it",
        ),
        (
            None,
            LINES[:1],
            "grew 1.6 KiB a step; no finding explains it: fed_wrap.py:51"
            " (1.6 KiB)",
        ),
        (
            None,
            LINES,
            "grew 1.6 KiB a step; no finding explains it: fed_wrap.py:51"
            " (1.6 KiB)",
        ),
    ],
)
def test_a_first_line_that_is_too_long_leaves_parts_out_whole(
    growth: dict[str, float] | None, lines: tuple[GrowingLine, ...], first: str
) -> None:
    made = Report(
        steps=200,
        grown_bytes_per_step=0.0 if growth else 1638.0,
        process_growth=growth
        and ProcessGrowth(
            process=4915.0,
            first_step=66,
            last_step=192,
            types=(),
            **{**NOTHING, **growth},  # type: ignore[arg-type]
        ),
        growing_lines=lines,
    )
    said = summary(made)
    assert said.endswith(first)
    assert len(said) <= ROOM


def test_many_verdicts_are_counted_where_they_do_not_fit() -> None:
    site = Site("/w/" + "x" * 40 + ".py", 412, "f")
    several = [
        leak(
            verdict=verdict,
            advice="",
            patch=None,
            grown_at=site,
            holder=Holder(f"__main__.{verdict}", "list"),
        )
        for verdict in ("leak", "cycle", "native", "growing")
    ]
    said = summary(report(*several))
    assert said.startswith("CRITICAL, 4 findings: 40.0 MiB a step at \u2026xx")
    assert said.endswith("x.py:412") and len(said) <= ROOM


def test_what_the_collector_frees_is_no_part_of_the_rate() -> None:
    cycle = leak(
        verdict="cycle",
        severity="info",
        cycle=Cycle(Path("<Tensor>", ()), freed_in_time=True),
    )
    said = summary(report(leak(), cycle))
    assert said.startswith("CRITICAL, 1 leak, 1 garbage cycle: 10.0 MiB a ")
    assert "INFO, 1 garbage cycle: 10.0 MiB a step" in summary(report(cycle))


def test_what_is_not_settled_orders_nothing() -> None:
    text = str(leak(verdict="growing"))
    assert "  if a leak   Keep" in text
    assert "patch" not in text


def test_a_patch_is_shown_once() -> None:
    other = leak(allocated_at=Site("/w/train.py", 39, "loss_of"))
    text = str(report(leak(), other))
    assert text.count("+history.append(x.item())") == 1
    assert "  patch       the same as above" in text


def test_more_and_less_is_said() -> None:
    from impactarbiter.reports.text import report_lines as lines

    found = report(leak(rule="items grew"))
    assert plain(lines(found, "short")) == GOLDEN.splitlines()[0]
    assert "rule        items grew" in plain(lines(found, "full"))
    assert "rule " not in plain(lines(found))


def test_a_line_that_only_allocates_is_no_place_to_look_at() -> None:
    site = Site("/w/env.py", 16, "picture", "img = torch.zeros(3, 16, 16)")
    found = leak(allocated_at=site, grown_at=None)
    said = announcement(found)
    assert said.endswith("so far; allocated at /w/env.py:16 in picture")
    first = summary(report(dataclasses.replace(found, advice="", patch=None)))
    assert "10.0 MiB a step, allocated at env.py:16" in first
    seen = dataclasses.replace(found, grown_at=Site("/w/env.py", 55, "step"))
    assert announcement(seen).endswith("; look at /w/env.py:55 in step")
    assert " a step at env.py:55" in summary(report(seen))


@pytest.mark.parametrize("width", [80, 160])
def test_a_sentence_on_a_terminal_and_in_a_pipe(width: int) -> None:
    """What is told while a program runs: words stay whole."""
    said = announcement(
        leak(verdict="leak", holder=Holder(f"main().{'x' * 90}.y", "list"))
    )
    assert len(said) > 160
    main, ours = pty.openpty()
    size = struct.pack("HHHH", 24, width, 0, 0)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, size)
    with os.fdopen(ours, "w") as terminal, os.fdopen(main, "r"):
        rows = broken(said, terminal).splitlines()
    assert " ".join(row.strip() for row in rows) == said
    assert all(row.startswith("  ") for row in rows[1:])
    long = [row for row in rows if len(row) > width]
    assert all(len(row.split()) == 1 for row in long)
    assert len(long) == (width == 80)
    assert broken(said, io.StringIO()) == said


@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_breaks_between_words(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    pytest.importorskip("rich")
    from rich.text import Text

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    made = report(leak(advice=ADVICE, patch=None))
    emit(report_lines(made), terminal)
    rows = Text.from_ansi(terminal.getvalue()).plain.splitlines()
    assert max(map(len, rows)) <= width
    plainly = plain(report_lines(made))
    assert " ".join(" ".join(rows).split()) == " ".join(plainly.split())
    if width == 80:
        at = next(i for i, row in enumerate(rows) if row.startswith("  do "))
        assert rows[at + 1].startswith(" " * 14 + "instead")


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({}, "no leak in 120 steps"),
        (
            {
                "process_bytes_per_step": 4096.0,
                "gained_bytes_per_step": 0.0,
                "grown_bytes_per_step": 1024.0,
                "explained_bytes_per_step": 1024.0,
            },
            "no leak among tensors in 120 steps; the process grew 4.0 KiB"
            " a step",
        ),
        (
            {
                "process_bytes_per_step": 4096.0,
                "gained_bytes_per_step": 0.0,
                "grown_bytes_per_step": 3600.0,
                "explained_bytes_per_step": 3600.0,
            },
            "no leak in 120 steps",
        ),
        ({"steps": 5}, "only 5 steps seen, 8 are needed"),
        (
            {"steps": 5, "grown_bytes_per_step": 4.0},
            "only 5 steps seen, 8 are needed",
        ),
        ({"steps": 0}, "no step was seen"),
    ],
)
def test_text_without_findings(fields: dict[str, int], first: str) -> None:
    text = str(report(**fields))
    assert text.startswith("ImpactArbiter: " + first)
    assert "live at the end" in text
    assert "watching cost 0.12 ms a step" in text


def test_without_steps_what_was_not_watched_is_no_matter_of_steps() -> None:
    why = "torch is not watched: MemoryError"
    text = str(report(steps=0, warnings=(why,)))
    first = "ImpactArbiter: no step was seen, as torch is not watched\n"
    assert text.startswith(first)
    assert "arbiter.step()" not in text
    assert text.count("MemoryError") == 1
    # Steps are not NumPy's.
    numpy = report(steps=0, warnings=("numpy is not watched: MemoryError",))
    assert "arbiter.step()" in str(numpy)


def test_a_report_that_could_not_be_made() -> None:
    """What it has is told; what it has not is no good news."""
    made = report(complete=False)
    assert str(made).startswith("ImpactArbiter: no report could be made\n")
    # Nothing is known to be clean; what looks have found is found.
    assert gate(made, "critical") == UNJUDGED
    assert gate(report(leak(), complete=False), "critical") == FOUND
    assert summary(report(leak(), complete=False)).startswith("CRITICAL, 1")
    assert not sarif_log(made)["runs"][0]["invocations"][0][
        "executionSuccessful"
    ]


def test_text_of_other_verdicts() -> None:
    cache = leak(verdict="cache", severity="info", holder=None, advice="")
    assert "1 bounded growth, for information only" in str(report(cache))
    growing = leak(verdict="growing", confirmation="Two more looks.")
    text = str(report(growing, warnings=("rule 'x' matched nothing",)))
    assert text.startswith("ImpactArbiter: CRITICAL, 1 growing, unconfirmed: ")
    assert "  settled by  Two more looks." in text
    assert text.endswith("warning: rule 'x' matched nothing")


def test_where_a_key_is_asked_for_nothing_ends() -> None:
    """`made.get(key)` removes nothing; that the key comes again does."""
    asks = Site("/home/me/train.py", 7, "made", "one = made.get(key)")
    growing = leak(verdict="growing", rule="may-end", asked_at=asks)
    text = str(report(growing))
    assert "; keys that come again may end that" in text
    assert "  asked at    /home/me/train.py:7 in made" in text


def test_text_of_a_slow_leak_is_honest() -> None:
    slow = leak(
        severity="info",
        bytes_per_step=4.0,
        steps_to_oom=None,
        seconds_to_oom=None,
    )
    text = str(report(slow))
    assert "not within this horizon: it takes 268,435,456 steps" in text


def test_a_bare_finding_prints() -> None:
    for verdict in VERDICTS:
        bare = Finding(verdict=verdict, allocated_at=Site("", 0, ""))
        assert "outside Python" in str(bare)
        assert str(report(bare))


def nasty_report() -> Report:
    site = Site(NASTY, 3, NASTY, NASTY)
    return report(
        leak(
            allocated_at=site,
            grown_at=None,
            path=Path(NASTY, (Edge(NASTY, NASTY, NASTY, NASTY),)),
            holder=Holder(NASTY, NASTY),
            advice=NASTY,
            patch=NASTY,
            note=NASTY,
            phase=NASTY,
            rule=NASTY,
            patch_note=NASTY,
            signature=NASTY,
            stack=(site,),
            graph=GraphCost(1, 1, 1, ((NASTY, 1, 1),)),
            tensors=(TensorExample(None, NASTY, NASTY, 1, 1),),
        ),
        warnings=(NASTY, "\udc80"),
        environment={NASTY: NASTY},
        accounted={NASTY: 1},
    )


def test_clean() -> None:
    assert clean("a\tb \u2192 \u00e9") == "a    b \u2192 \u00e9"
    assert clean("\x1b]0;x\x07\n\u202e\udc80\x9b") == (
        r"\x1b]0;x\x07\n\u202e\udc80\x9b"
    )


def test_terminal_is_not_steered() -> None:
    text = str(nasty_report())
    for char in "\x1b\r\u202e\udc80":
        assert char not in text
    assert "[bold]x[/bold]" in text


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("made", [report(leak()), nasty_report()])
def test_rich_says_the_same_words(
    made: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    from rich.text import Text

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "500")
    stream = Terminal()
    emit(report_lines(made), stream)
    coloured = stream.getvalue()
    assert "\x1b[" in coloured
    words = Text.from_ansi(coloured).plain
    assert [row.rstrip() for row in words.splitlines()] == (
        str(made).splitlines()
    )


def test_a_broken_line_keeps_its_styles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    emit([line(("  do    ", "dim"), ("word " * 12, "bold"))], stream)
    rows = stream.getvalue().splitlines()
    assert len(rows) == 3 and all("\x1b[1mword" in row for row in rows)


def test_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    emit(report_lines(report(leak())), stream)
    assert stream.getvalue() == GOLDEN + "\n"


def test_narrow_encoding() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    emit([line("a \u2192 b")], stream)
    assert raw.getvalue() == b"a \\u2192 b\n"
    assert plain([line("a "), line(("b", "bold"))]) == "a\nb"


def test_html_escapes_everything() -> None:
    page = report_page(nasty_report())
    assert page.count("<script") == 1  # ours, named by its hash
    assert "&lt;script&gt;" in page
    assert "{{7*7}}" in page
    assert "\x1b" not in page and "\u202e" not in page
    assert "http:" not in page and "https:" not in page
    assert "<details" in report_fragment(report(leak()))
    assert "<svg" in report(leak())._repr_html_()


@pytest.mark.parametrize("start", [0.0, 7.0, 2e12, -3e300])
def test_a_scale_has_a_length_whatever_its_start(start: float) -> None:
    box = Box(start, start - 1, start, start)
    assert (box.x(start), box.y(start)) == (0, 100)


def test_html_without_jinja(monkeypatch: pytest.MonkeyPatch) -> None:
    from impactarbiter.reports import html

    monkeypatch.setitem(sys.modules, "jinja2", None)
    html._environment.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install .*jinja2"):
        report_page(report())
    fragment = report_fragment(nasty_report())
    assert fragment.startswith("<pre>") and "<script" not in fragment


@pytest.mark.parametrize(
    "made", [report(), report(leak()), nasty_report(), Report()]
)
def test_json_round_trip(made: Report, tmp_path: File) -> None:
    file = tmp_path / "r.json"
    made.to_json(file)
    assert Report.load(file) == made
    assert Report.from_dict(made.to_dict()) == made
    data = json.loads(file.read_bytes())
    assert data == made.to_dict()
    assert data["schema"] == "impactarbiter/1"


def test_json_has_finite_numbers_and_path_text() -> None:
    made = report(leak(seconds_to_oom=float("inf")))
    data = json.loads(report_json(made))
    assert data["findings"][0]["seconds_to_oom"] is None
    assert data["findings"][0]["path"]["text"] == (
        "__main__.trainer.history[17]"
    )


def test_unknown_fields_are_ignored_and_defaults_filled() -> None:
    assert Report.from_dict(
        {"schema": "impactarbiter/1", "steps": 4, "later": {"x": 1}}
    ) == Report(steps=4)


def changed(*keys: Any, value: Any) -> dict[str, Any]:
    data = json.loads(report_json(report(leak())))
    inner = data
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return dict(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "is no report"),
        ({}, "is no report"),
        ({"schema": "impactarbiter/2"}, 'expected "impactarbiter/1"'),
        (changed("steps", value="4"), "steps is '4': expected a whole"),
        (changed("steps", value=True), "steps is True: expected a whole"),
        (changed("steps", value=None), "steps is None: expected a whole"),
        (changed("live_bytes", value=1 << 70), "expected below 2**63"),
        (changed("live_bytes", value=10**400), "expected below 2**63"),
        (
            changed("findings", 0, "bytes_per_step", value=10**400),
            "bytes_per_step is 1000",
        ),
        (changed("warnings", value="x"), "expected a list"),
        (changed("environment", value={"a": 1}), "expected a text"),
        (changed("findings", 0, "verdict", value="x"), "verdict is 'x'"),
        (
            changed("findings", 0, "allocated_at", value=None),
            "findings[0].allocated_at is None: expected an object",
        ),
        (
            changed("findings", 0, "tensors", 0, "shape", value=[1.5]),
            "findings[0].tensors[0].shape[0] is 1.5",
        ),
        (
            changed("findings", 0, "graph", "biggest", value=[["a", 1]]),
            "graph.biggest[0] has 2 items: expected 3",
        ),
        (changed("history", "steps", value=[1]), "history is wrong"),
        (changed("process", value={"rank": 1 << 40}), "process.rank is 1099"),
        (
            changed("process", value={"world_size": -1}),
            "process.world_size is -1: expected 0 to",
        ),
    ],
)
def test_wrong_reports(data: object, said: str) -> None:
    with pytest.raises(ReportError) as caught:
        Report.from_dict(data, "run.json")
    message = str(caught.value)
    assert said in message
    assert "'run.json'" in message and "\n" not in message


def test_missing_field() -> None:
    data = report(leak()).to_dict()
    del data["findings"][0]["allocated_at"]["line"]
    with pytest.raises(ReportError, match=r"allocated_at\.line is missing"):
        Report.from_dict(data)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b'{"schema": NaN}',
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"schema": "impactarbiter/1", "steps": 1e999}',
        b"\x1b[31m",
    ],
)
def test_files_that_are_no_reports(tmp_path: File, raw: bytes) -> None:
    file = tmp_path / "r.json"
    file.write_bytes(raw)
    with pytest.raises(ReportError) as caught:
        Report.load(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["\0", "\ud800", ""])
def test_names_that_no_file_has(name: str) -> None:
    with pytest.raises(ReportError) as caught:
        Report.load(name)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: File) -> None:
    with pytest.raises(ReportError, match="no such file"):
        Report.load(tmp_path / "none.json")


def test_sarif(tmp_path: File) -> None:
    made = report(
        leak(),
        leak(
            verdict="native",
            severity="info",
            grown_at=None,
            allocated_at=Site("/else/where it is.py", 0, ""),
        ),
        leak(
            verdict="cycle",
            grown_at=None,
            allocated_at=Site("", 0, ""),
            stack=(),
        ),
    )
    log = sarif_log(made)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [f"memory/{v}" for v in VERDICTS]
    by_rule = {result["ruleId"]: result for result in run["results"]}
    for rule_id, result in by_rule.items():
        assert rules[result["ruleIndex"]]["id"] == rule_id
        assert result["message"]["text"]
    first = by_rule["memory/leak"]
    assert first["level"] == "error"
    assert first["partialFingerprints"] == {
        "impactarbiter/v1": leak().signature
    }
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {
        "uri": "train.py",
        "uriBaseId": "SRCROOT",
    }
    assert place["region"]["startLine"] == 41
    assert "SRCROOT" in run["originalUriBaseIds"]
    native = by_rule["memory/native"]["locations"][0]["physicalLocation"]
    assert native == {
        "artifactLocation": {"uri": "file:///else/where%20it%20is.py"}
    }
    assert by_rule["memory/native"]["level"] == "note"
    # Without any line there is no place to show a result at.
    assert "memory/cycle" not in by_rule
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["associatedRule"]["id"] == "memory/cycle"
    made.to_sarif(tmp_path / "r.sarif")
    assert json.loads((tmp_path / "r.sarif").read_bytes()) == log
    assert nasty_report().to_sarif(tmp_path / "n.sarif") is None


def test_timeline(tmp_path: File) -> None:
    pytest.importorskip("matplotlib")
    had_pyplot = "matplotlib.pyplot" in sys.modules
    for made in (report(leak()), report(), Report(), nasty_report()):
        axes = made.plot(tmp_path / "t.png")
        assert axes.get_xlabel() == f"{made.step_kind} step"
        assert (tmp_path / "t.png").read_bytes()[:4] == b"\x89PNG"
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot
    soon = dataclasses.replace(report(leak()), memory_limit=1400 * MIB)
    labels = soon.plot(tmp_path / "t.svg").get_legend_handles_labels()[1]
    assert "limit" in labels
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "t.png",
        "t.svg",
    ]
    with pytest.raises(ReportError, match=r"ends in \.png"):
        report().plot(tmp_path / "t.txt")
    for wrong in (5, None, b"t.png", io.StringIO()):
        with pytest.raises(TypeError, match=r"got .*: expected a file name"):
            report().plot(wrong)


def test_files_are_whole_or_not_there(tmp_path: File) -> None:
    file, link = tmp_path / "a", tmp_path / "b"
    write_atomic(file, b"one")
    link.symlink_to("a")
    write_atomic(link, b"two")
    assert file.read_bytes() == b"two" and link.is_symlink()
    check_writable(link)
    check_writable("/dev/null")
    write_atomic("/dev/null", b"gone")
    assert not File("/dev/null").is_file()
    for bad in (tmp_path, tmp_path / "no" / "where", file / "below"):
        with pytest.raises(ReportError, match="cannot write"):
            check_writable(bad)
        with pytest.raises(ReportError, match="cannot write"):
            write_atomic(bad, b"")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a", "b"]
