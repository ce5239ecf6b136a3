"""The house: imports run one way, towards base, and in no circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = ROOT / "impactarbiter"

Node = TypeVar("Node")
#: Each room of src/core may include its own files and those of rooms before.
C_ROOMS = (
    "base",
    "native",
    "ledger",
    "steps",
    "heap",
    "names",
    "holders",
    "answers",
    "recorder",
    "module",
)


def circle(graph: Mapping[Node, set[Node]]) -> str:
    """One circle of a graph in words, or ''."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(str(node) for node in error.args[1])
    return ""


# -- C and C++ ----------------------------------------------------------------


def includes() -> dict[Path, set[Path]]:
    """Files of src without their suffix (x.c and x.h are one), by includer."""
    graph: dict[Path, set[Path]] = {}
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in (".c", ".cpp", ".h"):
            continue
        lines = re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)
        files = ((path.parent / line).resolve() for line in lines)
        found = {file.relative_to(SRC) for file in files if file.is_file()}
        own = path.relative_to(SRC).with_suffix("")
        others = {file.with_suffix("") for file in found} - {own}
        graph[own] = graph.get(own, set()) | others
    return graph


@pytest.mark.skipif(not SRC.is_dir(), reason="no sources beside the tests")
def test_includes_run_towards_base() -> None:
    graph = includes()
    assert {file.parts[1] for file in graph if file.parts[0] == "core"} == set(
        C_ROOMS
    )
    upwards = [
        f"{file} includes {other}"
        for file, others in graph.items()
        for other in others
        if (
            file.parts[0] != other.parts[0]
            and other.parts[:2] != ("core", "base")
        )
        or (
            file.parts[0] == other.parts[0] == "core"
            and C_ROOMS.index(file.parts[1]) < C_ROOMS.index(other.parts[1])
        )
    ]
    assert not upwards
    assert not circle(graph)


# -- Python -------------------------------------------------------------------

#: A room may import itself and those before it, a room within a room those
#: before it; the package's own files (``__init__``: the names handed on,
#: ``__main__``) may import every room.
ROOMS = (
    "base",
    "model",
    "core",
    "knowledge",
    "judging.sums",
    "judging.program",
    "judging.holders",
    "judging.verdicts",
    "judging.patches",
    "judging",
    "reports",
    "watching",
    "analysis",
    "integrations",
    "attaching",
    "commands",
)
#: The C modules, which ``core`` alone imports; ``base`` imports ``_signals``,
#: which knows no framework.
C_MODULES = {"_arrays", "_core", "_torch", "_cuda", "_signals"}


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = {module_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str) -> Iterator[str]:
    """Modules of ours that a module imports, at its top or in a function.

    What only type checkers read counts as well.
    """
    file = FILES[module]
    package = module if file.name == "__init__.py" else above(module)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if is_ours(a.name))
        if not isinstance(node, ast.ImportFrom):
            continue
        base = node.module or ""
        if node.level:
            outer = package.split(".")[: -(node.level - 1) or None]
            base = ".".join([*outer, *filter(None, [base])])
        if is_ours(base):
            for alias in node.names:
                name = f"{base}.{alias.name}"
                known = name in FILES or alias.name in C_MODULES
                yield name if known else base


def above(module: str) -> str:
    return module.rpartition(".")[0]


def is_ours(module: str) -> bool:
    return module == "impactarbiter" or module.startswith("impactarbiter.")


def room(module: str) -> str:
    """``base`` of ``impactarbiter.base.units``; "" for the package's own."""
    name = module.removeprefix("impactarbiter.")
    while name and name not in ROOMS:
        name = above(name)
    return name


GRAPH = {module: set(imports(module)) for module in FILES}


def test_every_file_stands_in_a_room() -> None:
    packages = {m for m, file in FILES.items() if file.name == "__init__.py"}
    within = {m for m in packages if m.startswith("impactarbiter.judging")}
    assert within == {
        f"impactarbiter.{name}" for name in ROOMS if "judging" in name
    }
    outside = {m for m in FILES if room(m) not in ROOMS}
    assert outside == {
        "impactarbiter",
        "impactarbiter.__main__",
    }


@pytest.mark.parametrize("name", ROOMS)
def test_imports_run_towards_base(name: str) -> None:
    floor = ROOMS.index(name)
    upwards = [
        f"{module} imports {other}"
        for module in FILES
        if room(module) == name
        for other in GRAPH[module]
        if room(other) in ROOMS and ROOMS.index(room(other)) > floor
    ]
    assert not upwards


def test_core_alone_imports_the_c_modules() -> None:
    assert {
        (module, name)
        for module in FILES
        if room(module) != "core"
        for other in GRAPH[module]
        if (name := other.rpartition(".")[2]) in C_MODULES
    } == {("impactarbiter.base.waiting", "_signals")}


def test_no_import_circle() -> None:
    """A package's face hands names on: its imports close no circle."""
    graph = {
        module: {other for other in GRAPH[module] if other in FILES}
        for module, file in FILES.items()
        if file.name != "__init__.py"
    }
    assert not circle(graph)


def test_the_model_s_door_leads_somewhere() -> None:
    """What a report asks for by name is a function of a room above."""
    from impactarbiter.model import door

    for name in door._RENDERERS:
        assert callable(door.renderer(name))
