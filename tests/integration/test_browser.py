"""The page in a browser: windows, print and keyboard.

Needs chromium (Debian's will do); without one there is nothing to try.
"""

from __future__ import annotations

import base64
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path as File
from types import ModuleType
from typing import Any

import pytest

from impactarbiter.model.children import ChildFinding, Children
from impactarbiter.model.finding import Finding, Holder
from impactarbiter.model.history import Excerpt, History, PurposePoint
from impactarbiter.model.path import Edge, Path
from impactarbiter.model.report import Report
from impactarbiter.model.retention import InstanceGroup, Instances
from impactarbiter.model.site import Site

TOOL = File(__file__).parents[2] / "tools" / "look_at_pages.py"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("look_at_pages", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool
    spec.loader.exec_module(tool)
    return tool


tool = load_tool()
CHROMIUM = tool.find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium: apt-get install chromium"
)

LONG = "rows.append({" + ", ".join(f"'key{n}': {n}" for n in range(40)) + "})"
PATCH = f"""\
--- a/train.py
+++ b/train.py
@@ -7,1 +7,1 @@
-{LONG}
+rows.append(loss.item())
"""


def finding() -> Finding:
    site = Site("train.py", 7, "train", LONG)
    return Finding(
        verdict="leak",
        severity="critical",
        allocated_at=site,
        grown_at=site,
        path=Path("train()", (Edge("local", "rows", "list", ".rows"),)),
        holder=Holder("train().rows", "list", 90, 1.0, depth=1),
        bytes_per_step=4096.0,
        retained_bytes=1 << 20,
        retained_tensors=90,
        first_step=4,
        last_step=100,
        confirmed_step=40,
        rule="keeps-all",
        advice="keep `loss.item()` instead",
        patch=PATCH,
        stack=(site,),
    )


def report() -> Report:
    steps = tuple(range(1, 101))
    live = tuple(4096 * step for step in steps)
    child = ChildFinding(
        role="dataloader",
        on="DataLoader worker 0",
        processes=1,
        bytes_per_step=8.0,
        retained_bytes=80,
        worst=finding(),
    )
    return Report(
        findings=(finding(),),
        steps=100,
        live_bytes=live[-1],
        environment={"python": "3.11"},
        children=Children(
            answer="DataLoader worker 0 leaks",
            processes=1,
            severity="critical",
            findings=(child,),
        ),
        excerpts=(Excerpt("train.py", 6, ("for x in y:", LONG, "done()")),),
        history=History(
            steps=steps,
            live_bytes=live,
            purposes=tuple(
                PurposePoint(step, {"findings": 4096 * step, "other": 9})
                for step in (20, 100)
            ),
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> File:
    made = tmp_path_factory.mktemp("pages")
    report().to_html(made / "report.html")
    edge = Edge("key", "x", "dict", f"[{'x' * 90!r}]")
    group = InstanceGroup("main.blocks[*]", 9, Path("main", (edge,) * 9))
    Instances("Block", 9, (group,)).to_html(made / "class.html")
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    started = tool.Chromium(CHROMIUM, str(tmp_path_factory.mktemp("browser")))
    yield started
    started.close()


def value(browser: Any, expression: str) -> Any:
    """What a script says of the opened page."""
    answer = browser.ask(
        "Runtime.evaluate",
        expression=expression,
        returnByValue=True,
        awaitPromise=True,
    )
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")


def press(browser: Any, key: str, code: int, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        browser.ask(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            text=text if kind == "keyDown" else "",
        )


@pytest.mark.parametrize("scheme", tool.SCHEMES)
@pytest.mark.parametrize("page", ["report", "class"])
def test_it_fits_and_can_be_read(
    browser: Any, folder: File, page: str, scheme: str
) -> None:
    for width in tool.WIDTHS:
        tool.open_page(browser, folder / f"{page}.html", width, scheme)
        assert tool.complaints(browser) == []


#: What sticks out of its box, or is not shown; an icicle's boxes are as wide
#: as what they stand for.
CUT = """
Array.from(document.querySelectorAll("main *"))
  .filter((e) => !e.closest(".ice, svg, .xs, .bands") &&
    (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !==
      "visible" && e.clientWidth > 0 ||
     e.tagName !== "BUTTON" && !e.checkVisibility({
       contentVisibilityAuto: true})))
  .map((e) => e.tagName + "." + e.className + ": " +
    e.textContent.trim().slice(0, 40))
"""


def test_it_prints_whole_and_dark_on_light(browser: Any, folder: File) -> None:
    """On A4, from a desktop that is dark."""
    tool.open_page(browser, folder / "report.html", 718, "dark")
    assert value(browser, CUT) != []  # folded, and lines too long
    browser.ask(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    assert tool.complaints(browser) == []
    assert value(browser, CUT) == []
    assert value(browser, "getComputedStyle(document.body).color")
    assert value(
        browser, "getComputedStyle(document.body).backgroundColor"
    ) == ("rgb(255, 255, 255)")
    shown = "getComputedStyle(document.querySelector('button')).display"
    assert value(browser, shown) == "none"
    exact = "getComputedStyle(document.querySelector('.keys i'))"
    assert value(browser, f"{exact}.printColorAdjust") == "exact"
    printed = base64.b64decode(browser.ask("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page\n") >= 2


#: Where the keyboard is, and whether that can be seen.
PLACE = """
(() => {
  const e = document.activeElement;
  const all = Array.from(document.querySelectorAll("summary, button"));
  return [all.indexOf(e), getComputedStyle(e).outlineStyle];
})()
"""


def test_it_goes_by_keyboard(browser: Any, folder: File) -> None:
    tool.open_page(browser, folder / "report.html", 800, "light")
    count = value(browser, "document.querySelectorAll('summary').length")
    buttons = value(browser, "document.querySelectorAll('button').length")
    assert count >= 5 and buttons == 2
    order = []
    for _ in range(4 * (count + buttons)):
        press(browser, "Tab", 9)
        place, outline = value(browser, PLACE)
        if place >= 0:
            assert outline != "none"
            order.append(place)
            if len(order) == count + buttons:
                break
    assert order == list(range(count + buttons))  # as they are read
    value(browser, "document.querySelector('summary').focus()")
    opened = "document.querySelector('details').open"
    assert value(browser, opened) is False
    press(browser, "Enter", 13, "\r")
    assert value(browser, opened) is True


def test_the_patch_is_copied(browser: Any, folder: File) -> None:
    """Or, where that is not allowed, it is marked to be."""
    tool.open_page(browser, folder / "report.html", 800, "light")
    value(browser, "document.querySelector('button').focus()")
    press(browser, "Enter", 13, "\r")
    said, marked = value(
        browser,
        """(async () => {
  const button = document.querySelector("button");
  for (let i = 0; i < 500 && button.textContent === "copy the patch"; i++)
    await new Promise((done) => setTimeout(done, 10));
  return [button.textContent, String(getSelection())];
})()""",
    )
    assert said in ("copied", "selected: copy it by hand")
    if said != "copied":
        assert marked.split() == PATCH.split()
