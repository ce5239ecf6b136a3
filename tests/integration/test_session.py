"""What the integrations share: one voice, one watch, an end in any case."""

from __future__ import annotations

import copy
import logging
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

import impactarbiter
from impactarbiter.base.ranks import of_rank
from impactarbiter.integrations.serving import LeakDetectionMiddleware
from impactarbiter.integrations.session import open_session, say
from impactarbiter.model.report import Report
from impactarbiter.reports.outputs import write_report
from impactarbiter.watching.arbiter import current

DOCS = Path(__file__).parents[2] / "docs"

LEAK = """
import os, sys, torch
from impactarbiter.integrations.session import open_session
session = open_session(step="manual")
kept = []
for _ in range(20):
    kept.append(torch.ones(64))
    session.arbiter.step()
"""


@pytest.mark.parametrize(
    ("end", "reports"),
    [
        ("raise MemoryError('no more')", 1),
        ("session.close()", 1),
        ("sys.exit(0)", 1),
        ("os.fork() == 0 and sys.exit(0); os.wait()", 1),
    ],
)
def test_the_end_of_a_program(end: str, reports: int) -> None:
    done = warm.run(["-c", LEAK + end])
    assert len(re.findall("1 leak: ", done.stderr)) == reports, done.stderr
    assert "__main__.kept" in done.stderr
    assert done.stdout == ""
    assert ("MemoryError: no more" in done.stderr) == ("raise" in end)


def test_one_voice() -> None:
    session = open_session()
    assert session is not None and session.owned
    assert open_session() is None
    session.close()
    assert current() is None
    with impactarbiter.watch() as arbiter:
        session = open_session()
        assert session is not None and not session.owned
        assert session.arbiter is arbiter
        session.close()
        assert current() is arbiter
        again = open_session()
        assert again is not None
    # The watch is over: who comes next begins his own.
    other = open_session()
    assert other is not None and other.owned
    other.close()
    again.close()


def application() -> None:
    """To be wrapped, and pickled by its name."""


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_has_the_options_and_no_session(
    copied: Callable[[Any], Any],
) -> None:
    ours = LeakDetectionMiddleware(application, every=3)  # type: ignore[arg-type]
    ours._begin()
    assert ours._session is not None
    other = copied(ours)
    assert (other._app, other._watch) == (ours._app, ours._watch)
    assert other._session is None and not other._begun
    other._end()
    assert current() is ours._session.arbiter
    ours._end()
    other._begin()
    assert other._session is not None and other._session.owned
    other._end()


def test_phases_replace_one_another() -> None:
    session = open_session()
    assert session is not None
    session.enter("evaluation")
    session.enter("saving")
    assert session.arbiter._phases == ["saving"]
    session.enter(None)
    assert session.arbiter._phases == []
    session.enter("evaluation")
    session.close()
    assert session.arbiter._phases == []


def test_the_log_is_masked_as_the_report_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret_list = []
    with impactarbiter.watch(step="manual", obfuscate=True) as arbiter:
        session = open_session()
        assert session is not None
        for _ in range(20):
            secret_list.append(torch.ones(64))
            arbiter.step()
        session.close()
    assert len(caplog.messages) == 2
    assert "secret_list" not in caplog.text
    assert "test_session" not in " ".join(caplog.messages)


def test_the_launcher_has_the_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = []
    with impactarbiter.watch(step="manual") as arbiter:
        arbiter.told = True
        session = open_session()
        assert session is not None
        for _ in range(20):
            kept.append(torch.ones(64))
            arbiter.step()
        assert session.close().findings
    assert caplog.messages == []


def test_ranks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert of_rank("a/run.json") == "a/run.json"
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert of_rank("a/run.json") == "a/run.rank3.json"
    say(logging.WARNING, "two\nlines\x1b[2J")
    assert caplog.messages == [
        "ImpactArbiter (rank 3): two\nlines\\x1b[2J",
    ]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("r.json", b"{"),
        ("r", b"{"),
        ("r.HTML", b"<!"),
        ("r.sarif", b"{"),
        ("r.png", b"\x89PNG"),
    ],
)
def test_the_files_name_tells_its_form(
    tmp_path: Path, name: str, start: bytes
) -> None:
    report = Report(steps=9)
    write_report(report, str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(start)


PAGES = (
    "transformers",
    "lightning",
    "accelerate",
    "serving",
    "mlflow",
    "wandb",
    "tensorboard",
    "prometheus",
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_starts_with_three_lines_to_copy(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    first = blocks[0][1].splitlines()
    assert len(first) == 3
    assert text.index("```") < 200
    names = re.findall(r"from (impactarbiter\S*) import (.+)", text)
    assert names or blocks[0][0] == "sh"
    for module, imported in names:
        for each in imported.split(","):
            exec(f"from {module} import {each.strip()}")
    for kind, block in blocks:
        if kind == "python":
            compile(block, name, "exec")
