"""What all tests share."""

from __future__ import annotations

import ast
import functools
import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# The tests' code with its assertions rewritten is kept from run to run,
# whatever the environment says of bytecode.  Programs that tests start still
# do as it says.
sys.dont_write_bytecode = False

#: What brings torch._dynamo, or a library, into the process of the tests.
BRINGS = re.compile(
    r"\boptim\b|Optimizer|SGD|Adam|checkpoint\(|importorskip|matplotlib"
    r"|Analyzer|fastapi|peers"
)
#: The same, in the name of a case.
BRINGING_CASE = re.compile(
    r"optimizer|parameter group|symbols|Dispatch|\b(png|svg|pdf)\b"
)
#: Behind the name of a file: those of its tests that do.
APART = "::apart"


@functools.cache
def bringing(path: Path) -> frozenset[str]:
    """What a file's own names stand for brings something, or uses such names.

    Tests, fixtures, functions and tables are such names.  What is made once
    for a file is made in one process: where one of these tests uses it, all do
    that use it.
    """
    text = path.read_text(encoding="utf-8")
    parts: dict[str, str] = {}
    for node in ast.parse(text).body:
        pieces = [node, *getattr(node, "decorator_list", [])]
        source = [ast.get_source_segment(text, each) or "" for each in pieces]
        for name in names_of(node):
            parts[name] = "\n".join([parts.get(name, ""), *source])
    once = {name for name in parts if 'scope="module"' in parts[name]}
    found: set[str] = set()
    using = BRINGS
    while new := {
        name
        for name, source in parts.items()
        if name not in found
        and (
            using.search(source)
            or (name in once and any(word(name, parts[n]) for n in found))
        )
    }:
        found |= new
        using = re.compile(rf"\b({'|'.join(map(re.escape, found))})\b")
    return frozenset(found)


def word(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [each.id for each in targets if isinstance(each, ast.Name)]


def brings(path: Path, test: str) -> bool:
    """Whether test[case] or Class::test of the file brings something."""
    name, _, case = test.partition("[")
    if BRINGING_CASE.search(case):
        return True
    return name.partition("::")[0] in bringing(path)


def test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that import nothing more come first, the longest files first.

    Every walk goes through all that was imported, and what one test has
    imported stays for those after it: the first optimizer alone brings 117,000
    objects, where torch has 167,000.
    """
    files: dict[tuple[bool, Path], list[pytest.Item]] = {}
    for item in items:
        key = brings(item.path, test_of(item)), item.path
        files.setdefault(key, []).append(item)
    items[:] = [
        item
        for key in sorted(
            files, key=lambda key: (key[0], -len(files[key]), key[1])
        )
        for item in files[key]
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests in one process, but those that import more in another."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            apart = brings(config.rootpath / file, test)
            return file + APART if apart else file

    if config.getoption("dist") != "loadfile":
        return None
    return Scheduling(config, log)


#: So many modules are worth a collection.
MANY = 100
modules_when_frozen = 0


def freeze() -> None:
    global modules_when_frozen
    gc.collect()
    gc.freeze()
    modules_when_frozen = len(sys.modules)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """What was imported takes no time in the collections that tests make.

    It is walked as ever: only the collector leaves it out.
    """
    freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def frozen_again(frozen: None) -> None:
    """The same of what the tests before imported, such as torch._dynamo."""
    if len(sys.modules) - modules_when_frozen > MANY:
        freeze()


@pytest.fixture(scope="module", autouse=True)
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """The other files of tests are no part of the program that is watched.

    A report reads the source of all modules that are the user's: 25,000 lines
    for each finding.
    """
    modules = dict(sys.modules)
    others = [
        name
        for name, module in modules.items()
        if ".test_" in name and module is not request.module
    ]
    for name in others:
        del sys.modules[name]
    yield
    sys.modules.update({name: modules[name] for name in others})


@pytest.fixture
def no_watch_left() -> Iterator[None]:
    """A test that fails within a watch leaves none to those after it."""
    from impactarbiter.watching.arbiter import current

    yield
    left = current()
    if left is not None:
        left.stop()


@pytest.fixture
def nobody_watches(no_watch_left: None) -> Iterator[None]:
    """Neither before the test nor after it."""
    from impactarbiter.watching.arbiter import current

    assert current() is None
    yield
    assert current() is None


@pytest.fixture
def quiet(no_watch_left: None) -> Iterator[None]:
    """The same numbers each time, on one thread, and nobody's garbage."""
    import torch

    torch.manual_seed(0)
    gc.collect()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # or tiny matrices wait for busy cores
    yield
    torch.set_num_threads(threads)
