"""The magics in a real kernel, and the notebook in examples/."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module", autouse=True)
def framework() -> None:
    """Not at the collection: what that imports, all walks go through."""
    global nbformat, nbclient
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")


def execute(notebook: Any, folder: Path, errors: bool = False) -> None:
    client = nbclient.NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        allow_errors=errors,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


def shown(cell: Any, kind: str = "text/plain") -> str:
    """All that a cell has printed and displayed."""
    parts: list[str] = []
    streaming = False
    for output in cell.outputs:
        # One print may come in two pieces.
        goes_on, streaming = streaming, output.output_type == "stream"
        if streaming and goes_on:
            parts[-1] += output.text
        elif streaming:
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append(f"{output.ename}: {output.evalue}")
        else:
            parts.append(output.data.get(kind, ""))
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(parts))


def code_cells(notebook: Any) -> dict[str, Any]:
    """First line -> cell."""
    return {
        cell.source.splitlines()[0]: cell
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def check_example(notebook: Any) -> None:
    cells = code_cells(notebook)
    assert "leak: __main__.losses keeps 4 B in 1 tensor" in shown(
        cells["losses = []"]
    )
    report = shown(cells["%watch_memory report"])
    assert "grown at    In[3]:7 in <module>\n" in report
    assert "losses.append(loss)" in report
    page = shown(cells["%watch_memory report"], "text/html")
    assert page.count("<details") >= 3
    assert '<code>.losses</code> <span class="soft">list</span>' in page
    first = r"5\.\d KiB a step at In\[3\]:7; store"
    assert re.search(first, report.splitlines()[0])
    assert "ImpactArbiter: no leak in 40 steps" in shown(
        cells["%%memory_leaks"]
    )
    again = shown(cells["%%memory_leaks --runs 12"])
    assert "holder      __main__.cache: dict of 12" in again
    assert "allocated   In[8]:2 in <module>\n" in again
    assert "watched 12 steps" in again
    held = shown(cells["predictions = model(torch.randn(4, 32))"])
    assert "kept by  __main__.history['best'][0]\n" in held
    assert "__main__.predictions" not in held
    out = shown(cells["%who_holds answer"])
    assert "path 1  __main__.Out[10]\n" in out
    assert "%reset -f out" in out
    tree = shown(cells["%who_holds answer"], "text/html")
    assert '<code>.Out</code> <span class="soft">dict</span>' in tree


def test_the_example_as_it_ships() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    check_example(notebook)


def test_the_example_run_again(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    execute(notebook, tmp_path)
    check_example(notebook)


def made(*sources: str) -> Any:
    new = nbformat.v4
    return new.new_notebook(cells=[new.new_code_cell(s) for s in sources])


def test_what_a_notebook_keeps(tmp_path: Path) -> None:
    """Out and the last traceback are known; what is advised helps."""
    show = "torch.ones(70)[:2]"
    notebook = made(
        "%load_ext impactarbiter\n"
        "import gc, sys, weakref, torch, impactarbiter",
        "%watch_memory --warmup 1 --allow 'nothing*'",
        *[show] * 9,
        "%watch_memory report",
        "%watch_memory off",
        "def fail():\n"
        "    local = torch.ones(500)\n"
        "    globals()['v'] = weakref.ref(local)\n"
        "    raise ValueError(len(local))\n"
        "fail()",
        "%who_holds v()",
        "1/0",
        "gc.collect(); print(v())",
        "x = torch.ones(5)\nv = weakref.ref(x)\nx",
        "del x\n%who_holds v()",
        "%xdel _18\nprint(v())",
        "y = torch.ones(5)\nv = weakref.ref(y)\ny",
        "1", "2", "3",
        "del y\n%reset -f out\nprint(v())",
        "z = torch.ones(5)\nv = weakref.ref(z)\nz;",
        "del z\nprint(v())",
    )  # fmt: skip
    execute(notebook, tmp_path, errors=True)
    cells = notebook.cells
    report = shown(cells[11])
    assert "holder      __main__.Out: dict of 9" in report
    assert "not confirmed yet" in report and "\n  do " not in report
    assert "allocated   In[11]:1 in <module>\n" in report
    assert "watched 9 steps" in report
    assert "allow rule 'nothing*' matched nothing" in report
    held = shown(cells[14])
    assert ".InteractiveTB.tb" in held and "f_locals['local']" in held
    assert "note  the traceback of the last error keeps" in held
    assert shown(cells[16]) == "None\n"
    assert "`%xdel _18` drops this one" in shown(cells[18])
    for freed in (19, 24, 26):
        assert shown(cells[freed]).endswith("None\n"), freed


def test_wrong_uses_and_errors(tmp_path: Path) -> None:
    leaky = "%%memory_leaks\nkept = []\nvalue = 1\nvalue / 0"
    sources = {
        "%load_ext impactarbiter\nimport torch, impactarbiter": "",
        "%watch_memory report": "nothing is watched: type %watch_memory on",
        "%watch_memory on --window 1": "UsageError: window is 1",
        "%watch_memory on": "ImpactArbiter watches",
        "%watch_memory on ": "watching already",
        "%watch_memory off": "no step was seen",
        leaky: "ZeroDivisionError: division by zero",
        "%%memory_leaks\npass": "--runs 11",
        "%%memory_leaks --runs 0\npass": "expected at least 1",
        "%%memory_leaks -r 2\n%%time\npass": "Wall time",
        "%watch_memory on --allow 'x": "No closing quotation: expected words",
        "%%memory_leaks\nimport asyncio\nawait asyncio.sleep(0)": "awaits",
        "%%memory_leaks\nasync def later():\n    await x": "--runs 11",
        "%%memory_leaks\n%watch_memory off": "has ended the watch itself",
        "%%memory_leaks\n%unload_ext impactarbiter": "has ended the watch",
        "%load_ext impactarbiter ": "",
        "a = impactarbiter.watch()": "",
        "%watch_memory on  ": "impactarbiter.watch() is active",
        "a.stop()": "ImpactArbiter: no step was seen",
        "%who_holds missing": "NameError: name 'missing' is not defined",
        "%who_holds torch --paths 0": "expected at least 1",
        "%who_holds torch.nn.Linear": "0 live instances of Linear",
        "d = {'a b': [torch.ones(3)]}": "",
        "%who_holds d['a b'][0] --paths 1": "kept by  __main__.d['a b'][0]",
        "%unload_ext impactarbiter": "",
        "%who_holds torch": "not found",
        "%load_ext impactarbiter": "",
        "%watch_memory": "ImpactArbiter watches",
    }
    notebook = made(*sources)
    execute(notebook, tmp_path, errors=True)
    for cell, said in zip(notebook.cells, sources.values(), strict=True):
        if said:
            assert said in shown(cell), cell.source
        else:
            assert shown(cell) == "", cell.source
    failed = notebook.cells[6]
    assert [o.output_type for o in failed.outputs].count("error") == 2
    assert "line 4" in str(failed.outputs[0].traceback)
    assert failed.outputs[-1].ename == "CellFailed"


def said_of(cells: list[str], folder: Path) -> str:
    """The report of cells that are watched."""
    notebook = made(
        "%load_ext impactarbiter\nimport torch\nkept = []\n"
        "def collect():\n    for i in range(100):\n"
        "        kept.append(torch.ones(1000) * i)",
        "%watch_memory on",
        *cells,
        "%watch_memory off",
    )
    execute(notebook, folder)
    return shown(notebook.cells[-1])


def test_cells_that_show_what_they_keep(tmp_path: Path) -> None:
    """What prints whole numbers takes them one by one."""
    keeps = "kept.append(torch.ones(1000))\nprint(kept[-1])"
    report = said_of([keeps] * 20, tmp_path)
    assert "watched 20 steps" in report
    assert "CRITICAL leak" in report or "WARNING leak" in report
    assert "holder      __main__.kept: list of 20, +1 a step" in report


@pytest.mark.parametrize(
    "loop",
    ["for i in range(100): kept.append(torch.ones(1000) * i)", "collect()"],
)
def test_cells_with_a_loop_of_their_own(tmp_path: Path, loop: str) -> None:
    report = said_of([loop] * 3, tmp_path)
    assert "holder      __main__.kept: list of 300" in report
    assert "leak" in report.splitlines()[0]


class Strict(type):
    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(name)


class Odd(metaclass=Strict):
    pass


def test_whose_a_called_object_is_asks_no_class_of_the_program_s() -> None:
    jupyter = pytest.importorskip("impactarbiter.integrations.jupyter")
    known = {"odd": Odd(), "kept": [], "textwrap": textwrap}
    asked = ("odd.run()", "kept.append(1)", "print(1)", "textwrap.dedent('')")
    calls = [ast.parse(one, mode="eval").body.func for one in asked]
    found = [jupyter._is_library(one, known) for one in calls]
    assert found == [False, True, True, False]


def test_the_package_stays_light() -> None:
    code = (
        "import sys, impactarbiter\n"
        "assert callable(impactarbiter.load_ipython_extension)\n"
        "print({'IPython', 'torch', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True
    )
    assert done.stdout == "set()\n", done.stderr


def test_without_ipython() -> None:
    code = (
        "import sys; sys.modules['IPython'] = None\n"
        "import impactarbiter; dir(impactarbiter)\n"
        "try: impactarbiter.load_ipython_extension(None)\n"
        "except impactarbiter.MissingExtraError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True
    )
    assert "pip install 'ipython>=8' 'jinja2>=3.1'" in done.stdout, done.stderr
