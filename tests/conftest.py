"""What all tests share."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

#: What brings torch._dynamo, or a library, into the process of the tests.
BRINGS = re.compile(r"\boptim\b|Optimizer|importorskip|matplotlib")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that import nothing more come first, the longest of each first.

    Every walk goes through all that was imported, and what one file has
    imported stays for those after it: the first optimizer alone brings 117,000
    objects, where torch has 167,000.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    items[:] = [
        item
        for path in sorted(
            files,
            key=lambda path: (
                bool(BRINGS.search(path.read_text(encoding="utf-8"))),
                -len(files[path]),
                path,
            ),
        )
        for item in files[path]
    ]


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """What was imported takes no time in the collections that tests make.

    It is walked as ever: only the collector leaves it out.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


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
