"""The page: what it shows, what it escapes, and that a leak looks like one."""

from __future__ import annotations

import html
import importlib.util
import re
from dataclasses import replace
from pathlib import Path as File

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import impactarbiter
from impactarbiter.commands import main
from impactarbiter.commands.assistant.words import full
from impactarbiter.judging.verdicts.rules import RULES
from impactarbiter.model.children import ChildFinding, Children
from impactarbiter.model.devices import DeviceMemory
from impactarbiter.model.finding import (
    Finding,
    GraphCost,
    Holder,
    TensorExample,
)
from impactarbiter.model.history import (
    Ages,
    Excerpt,
    History,
    LineCurve,
    PurposePoint,
)
from impactarbiter.model.path import Edge, Path
from impactarbiter.model.report import Report
from impactarbiter.model.retention import (
    InstanceGroup,
    Instances,
    Retention,
    Retentions,
)
from impactarbiter.model.site import Site
from impactarbiter.reports.charts import growth_of, slope
from impactarbiter.reports.html import report_fragment, report_page
from impactarbiter.reports.page_view import HEADLINE, view_of
from impactarbiter.reports.reasons import CHANGES

KIB = 1 << 10
PATCH = """\
--- a/train.py
+++ b/train.py
@@ -6,3 +6,3 @@
     loss.backward()
-    running += loss
+    running += loss.detach()
     step()
"""


def finding(name: str = "running", **fields: object) -> Finding:
    edge = Edge("local", name, "Tensor", f".{name}")
    made = Finding(
        verdict="leak",
        severity="critical",
        allocated_at=Site("train.py", 7, "train", "running += loss"),
        grown_at=Site("train.py", 7, "train", "running += loss"),
        path=Path("train()", (edge,)),
        holder=Holder(f"train().{name}", "Tensor", depth=1),
        graph_bytes_per_step=5.0 * KIB,
        retained_bytes=4,
        retained_tensors=1,
        graph=GraphCost(3000, 0, 0, (), 2 << 20),
        first_step=4,
        last_step=100,
        confirmed_step=40,
        rule="keeps-all",
        advice="detach before adding to `running`",
        patch=PATCH,
    )
    return replace(made, signature="", **fields)  # type: ignore[arg-type]


def history(node_rate: int, live_rate: int = 0) -> History:
    steps = tuple(range(1, 101))
    live = tuple(600 * KIB + live_rate * s for s in steps)
    return History(
        steps=steps,
        live_bytes=live,
        seconds=tuple(s / 10 for s in steps),
        resident_bytes=tuple((300 << 20) + s % 7 * KIB for s in steps),
        phases=("",) * 50 + ("train",) * 50,
        lines=(LineCurve(Site("train.py", 5, "train"), live),),
        node_steps=steps[::5],
        node_bytes=tuple(node_rate * s for s in steps[::5]),
    )


def report(*findings: Finding, rate: int = 5 * KIB) -> Report:
    lines = tuple(f"line {n}" for n in range(3, 12))
    return Report(
        findings=findings,
        steps=100,
        step_kind="optimizer",
        live_bytes=600 * KIB,
        history=history(rate if findings else 0),
        excerpts=(Excerpt("train.py", 3, lines),),
    )


def text_of(page: str) -> str:
    body = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def test_what_a_page_says() -> None:
    view = view_of(report(finding()))
    assert len(view.title) <= HEADLINE
    assert [line.text for line in view.change] == [
        "-    running += loss",
        "+    running += loss.detach()",
    ]
    (block,) = view.blocks
    (source,) = block.sources
    assert [line.number for line in source.lines if line.mark] == [7]
    (held,) = block.held
    assert [node.grows for node in held.tree] == [False, True]
    assert "2.0 MiB of autograd nodes" in str(held.tree[-1].notes)
    page = report_page(report(finding()))
    assert "signature" not in page and "generation" not in page
    words = text_of(page)
    assert "It was confirmed at step 40." in words
    assert 'watch(allow=["train().running*"])' in words


def test_of_arrays_nothing_is_called_a_tensor() -> None:
    example = TensorExample((8,), "float32", "jax:cpu:0", 9, 32)
    seen = finding(
        graph=None,
        graph_bytes_per_step=0.0,
        bytes_per_step=32.0 * KIB,
        advice="bound `kept`",
        patch=None,
        tensors=(example,),
        needed_by=(),
        path=Path("train()", (Edge("local", "kept", "list", ".kept"),)),
        holder=Holder("train().kept", "list", depth=1),
    )
    made = replace(
        report(seen),
        history=history(0, live_rate=32 * KIB),
        devices=(
            DeviceMemory(device="numpy", live_bytes=0, peak_bytes=0),
            DeviceMemory(device="jax:cpu:0", live_bytes=9, peak_bytes=9),
        ),
    )
    words = (
        text_of(report_page(made))
        + str(made)
        + str(full([seen], 1)["meaning"])
    )
    assert "to the array" in words and "live arrays at the end" in words
    assert "tensor" not in words.lower()


def test_findings_of_one_statement_are_one_block() -> None:
    view = view_of(report(finding(), finding("total")))
    (block,) = view.blocks
    assert len(block.held) == 2
    assert report_page(report(finding(), finding("total"))).count("@@ -6") == 1


def test_what_children_found_has_a_block_each() -> None:
    other = finding("seen", severity="warning", patch=None)
    child = ChildFinding(
        role="dataloader",
        on="DataLoader worker 0 and 1",
        processes=2,
        bytes_per_step=16.0 * KIB,
        retained_bytes=64 * KIB,
        worst=other,
    )
    children = Children(
        answer="DataLoader worker 0 and 1 leak",
        processes=2,
        severity="warning",
        findings=(child,),
    )
    alone = replace(report(), children=children)
    view = view_of(alone)
    assert view.state == "warning" and view.todo == other.advice
    assert view.blocks == () and view.children is not None
    words = text_of(report_page(alone))
    assert "On DataLoader worker 0 and 1" in words
    assert "train().seen" in words and "train.py:7 in train" in words
    both = replace(report(finding()), children=children)
    anchors = re.findall(r'id="(finding-\d+)"', report_page(both))
    assert anchors == ["finding-1", "finding-2"]
    assert view_of(both).state == "critical" and view_of(both).change
    quiet = replace(children, answer="no leak", severity=None, findings=())
    said = text_of(report_page(replace(report(), children=quiet)))
    assert "The processes that it started" in said and "no leak" in said


WAY = (
    Edge("local", "trainer", "Trainer", ".trainer", 4 * KIB, KIB),
    Edge("attribute", "loop", "Loop", ".loop"),
    Edge("attribute", "prev", "Link", ".prev", 3 * KIB, 0),
    Edge("attribute", "prev", "Link", ".prev", 2 * KIB, 0),
    Edge("attribute", "seen", "Seen", ".seen", 0, 0),
    Edge("attribute", "history", "list", ".history", 2 * KIB, 0),
    Edge("index", "17", "Tensor", "[17]"),
)


def on_a_way(*edges: Edge) -> Finding:
    return finding(
        path=Path("train()", edges),
        holder=Holder("train().history", "list", length=20, depth=6),
        retained_bytes=2 * KIB,
        retained_tensors=20,
        graph=None,
    )


def test_what_the_objects_on_a_path_retain() -> None:
    made = on_a_way(*WAY)
    (block,) = view_of(report(made)).blocks
    said = {n.text: (n.notes, n.share) for n in block.held[0].tree}
    notes = "retains 4.0 KiB and 1.0 KiB of autograd nodes"
    assert said.pop(".trainer") == ((notes,), 100)
    unknown = "what it retains was not measured"
    assert said.pop(".loop") == ((unknown,), None)
    nothing = "retains nothing: others hold the same"
    assert said.pop(".seen") == ((nothing,), 0)
    assert said.pop(".history")[1] == pytest.approx(40)
    assert said.pop("train()") == said.pop("[17]") == ((), None)
    # What the first of a run retains has what the others do in it.
    assert said == {".prev.prev": (("retains 3.0 KiB",), 60)}
    assert str(made.path) == "train().trainer.loop.prev.prev.seen.history[17]"
    page = report_page(report(made))
    assert 'class="share"' in page and 'style="width:40.00%"' in page
    assert notes in text_of(page)


def test_a_path_of_which_nothing_was_measured_says_nothing_of_it() -> None:
    bare = [Edge(e.kind, e.name, e.type, e.text) for e in WAY]
    page = report_page(report(on_a_way(*bare)))
    assert "not measured" not in text_of(page)
    assert 'class="share"' not in page
    # Old files have no such fields; what an edge is goes without them.
    data = report(on_a_way(*WAY)).to_dict()
    for edge in data["findings"][0]["path"]["edges"]:
        del edge["retained_bytes"], edge["retained_node_bytes"]
    old = Report.from_dict(data)
    assert old == report(on_a_way(*WAY)) == report(on_a_way(*bare))
    again = Report.from_dict(report(on_a_way(*WAY)).to_dict())
    assert again.findings[0].path is not None
    assert [e.retained_bytes for e in again.findings[0].path.edges] == [
        e.retained_bytes for e in WAY
    ]


def test_nobody_is_told_to_change_what_is_unconfirmed() -> None:
    growing = finding(verdict="growing", rule="unconfirmed")
    view = view_of(report(replace(growing, confirmed_step=None)))
    assert view.change == () and view.todo == ""
    page = text_of(report_page(report(growing)))
    assert "If it is a leak:" in page and "Suggested patch" not in page


def test_every_rule_says_what_would_change_it() -> None:
    assert set(CHANGES) == {rule.name for rule in RULES if rule.verdict}


def test_a_leak_of_nodes_and_its_fix_differ_by_slope() -> None:
    leaky, fixed = growth_of(history(5 * KIB)), growth_of(history(0))
    assert leaky is not None and fixed is not None
    assert slope(leaky.nodes) == pytest.approx(5 * KIB)
    assert slope(fixed.nodes) == slope(fixed.tensors) == 0
    # The highest of the leak's curve and of the fix's, in percent from above.
    charts = [view_of(r).charts[0] for r in (report(finding()), report())]
    tops = []
    for chart in charts:
        (curve,) = (s for s in chart.curves if s.look == "nodes")
        heights = [float(y) for y in re.findall(r" ([\d.]+)(?: L|$)", curve.d)]
        tops.append(heights[0] - min(heights))
    assert tops[0] > 25 and tops[1] == 0


def test_what_was_not_measured_is_said_so() -> None:
    bare = replace(history(0), node_steps=(), node_bytes=())
    chart = view_of(replace(report(), history=bare)).charts[0]
    assert ("nodes", "not measured") in [(k.look, k.value) for k in chart.keys]
    assert all(shape.look != "nodes" for shape in chart.curves)


def test_until_when_nodes_were_counted_is_said() -> None:
    """The area above the lines goes on to the end."""

    def said(last: int) -> list[str]:
        counted = replace(
            history(5 * KIB), node_steps=(1, last), node_bytes=(1, 9)
        )
        chart = view_of(replace(report(), history=counted)).charts[1]
        return [key.text for key in chart.keys if key.look == "nodes"]

    assert said(96) == ["autograd nodes, as of step 96"]
    assert said(100) == ["autograd nodes"]


def test_purposes_are_drawn_where_they_were_measured() -> None:
    seen = [
        PurposePoint(step, {"parameters": 600, "findings": held, "other": 9})
        for step, held in ((10, 0), (50, 400), (50, 500), (100, 1000))
    ]
    made = report(finding())
    walked = replace(made.history, purposes=tuple(seen))
    charts = view_of(replace(made, history=walked)).charts
    (chart,) = (c for c in charts if c.title == "Memory by purpose")
    assert [shape.look for shape in chart.areas] == ["other", "c1", "c0"]
    assert chart.keys[0].text == "what findings are about"
    assert chart.keys[0].value == "1000 B"
    # Of the last walk at each step, from the first to the last of them.
    findings = chart.areas[-1].d.removesuffix("Z").removeprefix("M")
    xs, ys = zip(*(p.split() for p in findings.split(" L")), strict=True)
    assert len(xs) == 6 and xs[:3] == xs[:2:-1]
    high = [
        float(below) - float(y) for y, below in zip(ys, ys[::-1], strict=True)
    ][:3]
    assert high == pytest.approx([0, high[2] / 2, high[2]], abs=0.02)
    assert len(chart.curves) == 3 and "3 walks" in chart.said
    once = replace(made.history, purposes=tuple(seen[:1]))
    charts = view_of(replace(made, history=once)).charts
    assert [c.title for c in charts][1:] == ["Memory by line"]


def test_a_staircase_and_a_flat_line() -> None:
    leak = Ages(tuple(range(1, 33)), (2,) * 32, 32)
    cache = Ages(tuple(range(1, 33)), (64,) + (0,) * 31, 32)
    found = [
        view_of(report(finding(ages=ages))).blocks[0].held[0].ages
        for ages in (leak, cache)
    ]
    heights = [
        {float(y) for y in re.findall(r"V([\d.]+)", a.d)} for a in found if a
    ]
    assert [len(h) for h in heights] == [32, 1]


def test_one_script_that_is_named_by_its_hash() -> None:
    page = report_page(report(finding()))
    assert page.count("<script>") == page.count("<script") == 1
    assert not re.search(r"(src|href)=|url\(|@import", page)
    assert "<script" not in report_fragment(report(finding()))


NASTY = st.text(
    st.sampled_from("<>&'\"`{}%#\\/=\n\t\0\x1b\u202e\ud800ax "), max_size=24
)


@settings(max_examples=25, deadline=None)
@given(NASTY, NASTY, NASTY)
def test_no_name_leaves_its_place(name: str, file: str, words: str) -> None:
    site = Site(file + "x", 7, name, words)
    made = finding(
        name,
        allocated_at=site,
        grown_at=site,
        advice=words,
        patch=f"--- {file}\n+++ {file}\n@@ -1 +1 @@\n-{words}\n+{name}\n",
        phase=name,
        ages=Ages((1, 2), (1, 1), 3),
        stack=(site,),
    )
    hostile = replace(
        report(made),
        excerpts=(Excerpt(site.file, 6, (words, name, file)),),
        warnings=(words,),
        environment={name: words},
        history=replace(
            history(1),
            lines=(LineCurve(site, (1,) * 100),),
            phases=(name,) * 100,
        ),
    )
    plain = re.sub(r"\d", "", report_page(report(finding())))
    page = report_page(hostile)
    # Whatever the names are, the tags and attributes are the template's.
    allowed = set(re.findall(r"<[/!]?[a-zA-Z]+", plain)) | {
        "<b",
        "<code",
        "</code",
        "<i",
        "</i",
    }
    assert set(re.findall(r"<[/!]?[a-zA-Z]+", page)) <= allowed | TEMPLATES
    assert "\x1b" not in page and "\u202e" not in page and "\0" not in page
    assert page.count("<script") == 1


TEMPLATES = {
    tag
    for file in File(
        importlib.util.find_spec("impactarbiter.reports").origin  # type: ignore[union-attr,arg-type]
    )
    .with_name("templates")
    .glob("*.j2")
    for tag in re.findall(r"<[/!]?[a-zA-Z]+", file.read_text())
}


def test_the_picture_draws_what_was_measured(tmp_path: File) -> None:
    pytest.importorskip("matplotlib")
    made = report(finding())
    axes = made.plot(tmp_path / "run.png")
    labels = axes.get_legend_handles_labels()[1]
    nodes = "autograd nodes, as of step 96"
    assert {nodes, "live tensors"} <= set(labels)
    assert "confirmed: step 40" in labels
    _, growth = axes.figure.axes
    curves = {line.get_label(): line for line in growth.get_lines()}
    xs, ys = curves["autograd nodes"].get_data()
    assert slope(list(zip(xs, ys, strict=True))) == pytest.approx(5 * KIB)
    assert set(curves["tensors"].get_ydata()) == {0}
    low, high = growth.get_ylim()
    assert max(ys) > 0.2 * (high - low)


def test_the_picture_has_memory_by_purpose(tmp_path: File) -> None:
    pytest.importorskip("matplotlib")
    made = report(finding())
    seen = (
        PurposePoint(5, {"parameters": 100, "findings": 0, "other": 1}),
        PurposePoint(95, {"parameters": 100, "findings": 900, "other": 1}),
    )
    walked = replace(made, history=replace(made.history, purposes=seen))
    axes = walked.plot(tmp_path / "run.png")
    assert len(axes.figure.axes) == 3
    assert len(made.plot(tmp_path / "less.png").figure.axes) == 2
    purposes = axes.figure.axes[2]
    areas = dict(
        zip(
            purposes.get_legend_handles_labels()[1],
            purposes.collections,
            strict=False,
        )
    )
    assert list(areas) == [
        "no purpose that is known: 1 B",
        "parameters: 100 B",
        "what findings are about: 900 B",
    ]
    corners = areas["what findings are about: 900 B"].get_paths()[0].vertices
    assert {(5, 101), (95, 101), (95, 1001)} <= {tuple(c) for c in corners}
    assert purposes.get_xlim() == (1, 100)
    assert "measured by 2 walks" in purposes.get_title(loc="left")


def test_a_page_of_who_holds_an_object(tmp_path: File) -> None:
    evil = Path("__main__", (Edge("key", "<b>", "dict", "['<b>&']"),))
    found = Retention(
        "Tensor [2]", (evil,), 8, 1, "held", note="<i>really</i>"
    )
    found.to_html(tmp_path / "one.html")
    Retentions([found, found]).to_html(tmp_path / "two.html")
    page = (tmp_path / "one.html").read_text()
    assert "who holds Tensor [2]" in text_of(page)
    assert "<b>&" not in page and "<i>really" not in page
    assert "2 objects" in (tmp_path / "two.html").read_text()
    for part in (found._repr_html_(), Retentions([found])._repr_html_()):
        assert "<main" in part and "<script" not in part
        assert "<b>&" not in part and "<i>really" not in part


def test_what_the_objects_on_a_path_to_an_explained_one_retain() -> None:
    found = Retention("Tensor [2]", (Path("train()", WAY),), 8, 1, "held")
    tree = str(found).splitlines()[2:]
    assert [
        line.split("  ", 1)[1].strip() for line in map(str.lstrip, tree[1:])
    ] == [
        "(Trainer)  retains 4.0 KiB and 1.0 KiB of autograd nodes",
        "(Loop)  what it retains was not measured",
        "(Link)  retains 3.0 KiB",
        "(Seen)  retains nothing",
        "(list)  retains 2.0 KiB",
        "(Tensor)  what it retains was not measured",
    ]
    page = found._repr_html_()
    assert page.count('class="share"') == 4 and "width:60.00%" in page
    for line in tree[1:]:
        assert line.split(")  ")[1] in text_of(page)
    bare = tuple(Edge(e.kind, e.name, e.type, e.text) for e in WAY)
    other = Retention("Tensor [2]", (Path("train()", bare),), 8, 1, "held")
    assert "retain" not in str(other).split("\n", 1)[1]
    assert 'class="share"' not in other._repr_html_()


def test_a_page_of_the_instances_of_a_class(tmp_path: File) -> None:
    hangs = Path("__main__", (Edge("key", "<b>", "dict", "['<b>&']"),))
    group = InstanceGroup("__main__[<b>]", 7, hangs)
    found = Instances("Block", 9, (group,))
    found.to_html(tmp_path / "class.html")
    page = (tmp_path / "class.html").read_text()
    for text in (page, found._repr_html_()):
        words = text_of(text)
        assert "9 live instances" in words and "7 at __main__[<b>]" in words
        assert "not shown 2" in " ".join(words.split())
        assert "<b>&" not in text and "<b>]" not in text


def test_a_page_of_two_runs(
    tmp_path: File, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, made in (("old", report()), ("new", report(finding("<b>")))):
        made.to_json(tmp_path / f"{name}.json")
    files = [str(tmp_path / f"{name}.json") for name in ("old", "new")]
    page = tmp_path / "diff.html"
    assert main(["diff", *files, "--html", str(page)]) == 0
    assert "1 new" in capsys.readouterr().out
    words = text_of(page.read_text())
    assert "NEW" in words and "train.py:7 in train" in words
    assert page.read_text().count("<figure>") == 4


@pytest.mark.parametrize("short", [False, True])
def test_a_page_of_a_bundle(tmp_path: File, short: bool) -> None:
    with impactarbiter.FlightRecorder(tmp_path / "dumps") as recorder:
        folder = recorder.capture("test")
    assert folder is not None
    if short:  # there was no memory for a report
        (File(folder) / "report.json").unlink()
    page = tmp_path / "bundle.html"
    assert main(["report", str(folder), "--html", str(page)]) == 0
    words = text_of(page.read_text())
    assert "at step 0 of process" in words
    assert ("Memory was too short for a report." in words) == short
    assert ("This run" in words) != short


def test_a_page_may_lie_in_its_bundle_and_take_no_place_there(
    tmp_path: File, capsys: pytest.CaptureFixture[str]
) -> None:
    with impactarbiter.FlightRecorder(tmp_path / "dumps") as recorder:
        folder = recorder.capture("test")
    assert folder is not None
    page, report_file = (File(folder) / n for n in ("a.html", "report.json"))
    for _ in range(2):
        assert main(["report", str(folder), "--html", str(page)]) == 0
    before = report_file.read_text()
    assert main(["report", str(folder), "--json", str(report_file)]) == 2
    assert "which is to be read" in capsys.readouterr().err
    assert report_file.read_text() == before
