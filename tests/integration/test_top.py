"""``impactarbiter top``: a process or a job, in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from impactarbiter.attaching.errand import sent
from impactarbiter.attaching.target import AttachError, find
from impactarbiter.base.errors import ReportError, UsageError
from impactarbiter.commands import main, top
from impactarbiter.commands.top_sources import of_job
from impactarbiter.model.finding import Finding, Holder, Site
from impactarbiter.model.history import History, LineCurve
from impactarbiter.model.moment import Moment
from impactarbiter.model.process import Process
from impactarbiter.model.report import Report
from impactarbiter.reports.live_text import curve, picture
from impactarbiter.reports.live_view import live_view

#: Seconds after which a test that waits has failed.
LIMIT = 60
#: Seconds between two looks of a screen that the test makes look.
NEVER = 1e6


def ran(name: str = "history", **more: Any) -> Report:
    site = Site("/home/me/a.py", 3, "train", "[/red]history.append(loss)")
    finding = Finding(
        verdict="leak",
        severity="warning",
        allocated_at=site,
        grown_at=site,
        holder=Holder(f"__main__.{name}", "list", length=1234),
        bytes_per_step=1024.0,
        retained_bytes=4096,
        first_step=4,
        advice="store a number",
    )
    history = History(
        steps=(1, 2, 3),
        live_bytes=(0, 512, 1024),
        resident_bytes=(8, 8, 8),
        lines=(LineCurve(site, (None, 512, 1024)),),
    )
    return Report(steps=3, findings=(finding,), history=history, **more)


def view(over: bool = False) -> dict[str, Any]:
    moment = Moment(3, "optimizer", 1024, 2048, 1 << 20, 1024.0, 1)
    return live_view(ran(), moment, over)


def test_the_picture_in_80_columns() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(picture(view()))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("step 3 \u00b7 live 1.0 KiB (peak 2.0 KiB)")
    text = "\n".join(lines)
    # No cell is read as markup.
    assert "[/red]history.append(loss)" in text
    assert "WARNING leak: __main__.history keeps" in text
    assert "4.0 KiB  __main__.history" in text and "1,234" in text
    console.print(picture(view(over=True)))
    assert "ended: step 3" in console.export_text()


def test_curves() -> None:
    assert curve([0, 1, 2]) == "\u2581\u2585\u2588"
    assert curve([0, 0]) == "\u2581\u2581"
    assert len(curve(range(1000))) <= 48


def job(folder: Path, *ranks: int) -> None:
    for rank in ranks:
        process = Process(
            rank=rank, world_size=len(ranks), pid=rank + 1, ended="finished"
        )
        report = ran(f"of_rank_{rank}", process=process)
        report.to_json(folder / process.file_name)


def test_a_job_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ReportError, match="no file of a job yet"):
        of_job(str(tmp_path))
    job(tmp_path, 0, 1)
    assert main(["top", str(tmp_path), "--once"]) == 0
    said = capsys.readouterr().out
    assert "leak" in said.splitlines()[0]
    assert said.count("finished") == 2


def test_at_once_where_there_is_ascii_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also with no columns, which says nothing of how many there are."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "0")
    top._print(view)
    said = written.getvalue().decode("ascii")
    assert said.startswith("step 3 \\xb7 live 1.0 KiB (peak 2.0 KiB)")
    assert "WARNING leak: __main__.history keeps" in said


def test_what_cannot_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--once", "999999999"]) == 2
    assert "there is no process" in capsys.readouterr().err
    assert main(["top", "--once", str(tmp_path / "no")]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert main(["top", "--once", "9" * 5000]) == 2
    assert "cannot read" in capsys.readouterr().err
    with pytest.raises(UsageError, match="number of a process"):
        top.execute([])
    pytest.importorskip("textual")
    with pytest.raises(UsageError, match="needs a terminal"):
        top.execute(["1"])


def test_the_screen_follows_a_process() -> None:
    pytest.importorskip("textual")
    from textual.widgets import Static

    from impactarbiter.commands.top_screen import Screen

    told: list[Any] = [None, view(), AttachError("process 7 has ended")]

    async def follow() -> None:
        screen = Screen("7", lambda: _next(told), pause=NEVER)
        async with screen.run_test(size=(80, 24)) as pilot:
            shown = screen.query_one("#picture", Static)
            assert "waiting" in str(shown.render())
            screen.look()
            await pilot.pause()
            assert "__main__.history" in _text(shown)
            screen.look()
            await pilot.pause()
            answer = screen.query_one("#answer", Static)
            assert "process 7 has ended" in str(answer.render())
            await pilot.press("q")
        assert not screen.is_running

    asyncio.run(follow())


def test_the_screen_follows_a_job(tmp_path: Path) -> None:
    pytest.importorskip("textual")
    from textual.widgets import DataTable, Static

    from impactarbiter.commands.top_screen import Screen

    job(tmp_path, 0, 1)

    async def follow() -> None:
        screen = Screen("job", lambda: of_job(str(tmp_path)), NEVER)
        async with screen.run_test(size=(100, 40)) as pilot:
            shown = screen.query_one("#picture", Static)
            table = screen.query_one(DataTable)
            assert table.row_count == 2
            assert "of_rank_0" in _text(shown)
            table.focus()
            await pilot.pause()
            await pilot.press("down")
            await pilot.pause()
            screen.look()
            await pilot.pause()
            assert table.cursor_row == 1 and "of_rank_1" in _text(shown)

    asyncio.run(follow())


def _next(told: list[Any]) -> Any:
    one = told.pop(0) if len(told) > 1 else told[0]
    if isinstance(one, Exception):
        raise one
    return one


def _text(shown: Any) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(shown._Static__content)
    return console.export_text()


LOOP = """
import time, torch

class Trainer:
    def __init__(self):
        self.history = []

trainer = Trainer()
step = 0
while True:
    model = torch.nn.Linear(8, 8)
    trainer.history.append(model(torch.ones(4, 8)).sum())
    step += 1
    if step == 100:
        print("ready", flush=True)
    time.sleep(0.005)
"""


@contextlib.contextmanager
def running(folder: Path, *before: str) -> Iterator[int]:
    (folder / "loop.py").write_text(LOOP)
    with subprocess.Popen(
        [sys.executable, "-P", *before, str(folder / "loop.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def test_a_process_that_is_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyinjector")
    with running(tmp_path, "-m", "impactarbiter", "run") as pid:
        give_up = time.monotonic() + LIMIT
        said = ""
        while "__main__.trainer.history" not in said:
            assert time.monotonic() < give_up, said
            assert main(["top", "--once", str(pid)]) == 0
            said = capsys.readouterr().out
        # It goes on, watched as before.
        task = {"action": "watch", "options": {}}
        with (
            pytest.raises(AttachError, match="watched already"),
            sent(find(pid), task),
        ):
            pass


def test_a_process_that_is_not_watched_is_let_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyinjector")
    with running(tmp_path) as pid:
        assert main(["top", "--once", str(pid)]) == 0
        # Steps may have come meanwhile.
        said = capsys.readouterr().out
        assert "no step yet" in said or "no leak so far" in said
        give_up = time.monotonic() + LIMIT
        while True:
            try:
                with sent(find(pid), {"action": "report"}):
                    assert time.monotonic() < give_up
            except AttachError as error:
                assert "is not watched" in str(error)
                break


def test_a_picture_is_plain_data() -> None:
    assert json.loads(json.dumps(view())) == view()
