"""Imports run one way, towards base; what is read here are the lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
#: Each room of src/core may include its own files and those of rooms before.
C_ROOMS = (
    "base",
    "ledger",
    "steps",
    "heap",
    "names",
    "holders",
    "answers",
    "recorder",
    "module",
)


def circle(graph: Mapping[Path, set[Path]]) -> str:
    """One circle of a graph in words, or ''."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(str(node) for node in error.args[1])
    return ""


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
