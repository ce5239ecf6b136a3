"""``impactarbiter mcp``, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from impactarbiter.commands.assistant import calls, words
from impactarbiter.commands.assistant.server import build
from impactarbiter.commands.assistant.shelf import Shelf
from impactarbiter.model.finding import Finding, Holder, Site
from impactarbiter.model.path import Edge
from impactarbiter.model.path import Path as Held
from impactarbiter.model.report import Report

SCRIPT = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(16, 16)
my_history = []
for step in range(40):
    loss = model(torch.ones(4, 16)).pow(2).mean()
    my_history.append(loss)
    loss.backward()
print("kept", len(my_history))
"""
Call = Callable[..., Awaitable[dict[str, Any]]]


def talk(
    server: Any, conversation: Callable[[Client], Awaitable[None]]
) -> None:
    """One session of a client with the server."""

    async def session() -> None:
        async with Client(server) as client:
            await conversation(client)

    asyncio.run(session())


async def answer(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """What a tool answers where it refuses nothing."""
    result = await client.call_tool(tool, given)
    assert not result.is_error, result.content[0].text
    assert isinstance(result.structured_content, dict)
    text = result.content[0].text
    assert len(text) <= 2 * words.MOST_ANSWER
    return result.structured_content


async def refusal(client: Client, tool: str, **given: Any) -> str:
    result = await client.call_tool(tool, given)
    assert result.is_error
    return str(result.content[0].text)


def program(folder: Path) -> Path:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    return script


def test_from_a_leaky_script_to_a_verified_patch(tmp_path: Path) -> None:
    """Over stdio, as an assistant starts it."""
    script = program(tmp_path)
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "impactarbiter", "mcp"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    async def conversation(client: Client) -> None:
        ran = await answer(
            client, "run_script", script="train.py", folder=str(tmp_path)
        )
        assert ran["exit_code"] == 0 and ran["output"] == "kept 40"
        (group,) = ran["groups"]
        assert group["verdict"] == "leak" and group["rule"] == "keeps-all"
        assert group["holder"]["expression"] == "__main__.my_history"
        assert group["holder"]["length"] == 40
        assert group["statement"]["source"] == "my_history.append(loss)"
        assert group["statement"]["seen"] is True
        assert group["has_patch"] is True
        told = await answer(client, "finding", report=ran["report"])
        assert "+    my_history.append(loss.item())" in told["patch"] or (
            "+    my_history.append(loss.detach())" in told["patch"]
        )
        shown = await answer(client, "source", report=ran["report"], context=1)
        assert (
            shown["text"]
            .splitlines()[1]
            .endswith("    my_history.append(loss)")
        )
        patch = told["patch"].replace(".detach()", ".item()")
        verified = await answer(
            client, "verify_patch", report=ran["report"], patch=patch
        )
        assert verified["holds"] is True
        assert any("the patches hold" in text for text in verified["says"])
        assert script.read_text() == SCRIPT
        fixed = SCRIPT.replace("append(loss)", "append(loss.item())")
        script.write_text(fixed)
        again = await answer(
            client, "run_script", script="train.py", folder=str(tmp_path)
        )
        assert again["groups"] == []
        compared = await answer(
            client, "diff", old=ran["report"], new=again["report"]
        )
        assert compared["counts"] == {"gone": 1}
        assert not compared["regression"]
        # The line that the first report names is another one now.
        said = await refusal(client, "source", report=ran["report"])
        assert "the line is not what it was" in said

    talk(server, conversation)


def saved(folder: Path, *findings: Finding, **more: Any) -> str:
    path = folder / "saved.json"
    Report(findings=findings, steps=60, **more).to_json(path)
    return str(path)


def leak(file: str = "/home/me/train.py", name: str = "secret") -> Finding:
    site = Site(file, 3, "main", "secret.append(loss)")
    return Finding(
        verdict="leak",
        rule="keeps-all",
        allocated_at=site,
        grown_at=site,
        path=Held("__main__", (Edge("attribute", name, "list", f".{name}"),)),
        holder=Holder(f"__main__.{name}", "list", length=60, depth=1),
        bytes_per_step=4096.0,
        tensors_per_step=1.0,
        generations=50,
        first_step=4,
        last_step=59,
        patch="--- a\n+++ b\n",
    )


def served_by(
    redirected: str, stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """The command, asked once; its streams as a shell's words have them."""
    command = f'exec "$0" -P -m impactarbiter mcp {redirected}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable],
        input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


def test_a_stream_that_cannot_be_used_is_a_line() -> None:
    for redirected, code, said in (
        ("<&-", 2, "one of them is closed"),
        (">&-", 2, "one of them is closed"),
        (">/dev/full", 1, "cannot write standard output: no space left"),
    ):
        done = served_by(redirected)
        assert done.returncode == code, done.stderr
        assert said in done.stderr and done.stderr.count("\n") == 1


def test_an_assistant_that_is_gone_is_no_error_of_ours() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = served_by("", theirs)
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_read_only_refuses_what_runs_or_enters_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(calls, "called", never)
    path = saved(tmp_path, leak())
    tried: dict[str, dict[str, Any]] = {
        "run_script": {"script": "train.py"},
        "attach": {"pid": os.getpid()},
        "report_of": {"pid": os.getpid()},
        "who_holds": {"pid": os.getpid(), "expression": "x"},
        "verify_patch": {"report": "r1"},
    }

    async def conversation(client: Client) -> None:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        report = (await answer(client, "load_report", path=path))["report"]
        assert report == "r1"
        for name, given in tried.items():
            said = await refusal(client, name, **given)
            assert f": refused: {name} " in said, said
            assert "--read-only" in tools[name].description
            assert not tools[name].annotations.read_only_hint
        for name in tools.keys() - tried.keys():
            assert "hanges nothing" in tools[name].description
            assert tools[name].annotations.read_only_hint
        found = (await answer(client, "list_processes"))["processes"]
        assert isinstance(found, list)

    talk(build(Shelf(str(tmp_path)), read_only=True), conversation)


def test_masked_nothing_of_the_program_goes_out(tmp_path: Path) -> None:
    path = saved(tmp_path, leak())

    async def conversation(client: Client) -> None:
        for told in (
            await answer(client, "load_report", path=path),
            await answer(client, "finding", report="r1"),
            await answer(client, "diff", old="r1", new="r1"),
        ):
            text = json.dumps(told)
            assert not [
                name
                for name in ("secret", "train", "/home", "main()")
                if name in text
            ]
        assert "masked" in await refusal(client, "source", report="r1")
        said = await refusal(client, "who_holds", pid=1, expression="x")
        assert "masked" in said
        assert "no patch" in await refusal(client, "verify_patch", report="r1")
        listed = await answer(client, "list_processes")
        assert not [p for p in listed["processes"] if "command" in p]

    talk(build(Shelf(str(tmp_path), masked=True), False), conversation)


def test_answers_are_bounded(tmp_path: Path) -> None:
    """A thousand findings with names of a thousand characters."""
    many = [
        leak(f"/home/me/{i}.py", f"n{i}" + "x" * 1000) for i in range(1000)
    ]
    path = saved(tmp_path, *many, warnings=("w" * 5000,) * 100)

    async def conversation(client: Client) -> None:
        told = await answer(client, "load_report", path=path)
        assert len(told["groups"]) + told["groups_left_out"] == 1000
        assert 0 < len(told["groups"]) <= words.MOST_GROUPS
        assert len(json.dumps(told)) <= words.MOST_ANSWER
        await answer(client, "finding", report="r1", rank=1000)
        said = await refusal(client, "finding", report="r1", rank=1001)
        assert "from 1 to 1000" in said

    talk(build(Shelf(str(tmp_path)), True), conversation)


def test_source_reads_no_file_but_what_the_report_knows(
    tmp_path: Path,
) -> None:
    """A report is no trusted file: it may name any."""
    secret = tmp_path / "secrets.py"
    secret.write_text("\n\nTOKEN = 'x'\n")
    other = tmp_path / "passwd"
    other.write_text("\n\nsecret.append(loss)\n")
    for file in (secret, other, tmp_path / "none.py"):
        path = saved(tmp_path, leak(str(file)))

        async def conversation(client: Client, path: str = path) -> None:
            name = (await answer(client, "load_report", path=path))["report"]
            said = await refusal(client, "source", report=name)
            assert "cannot be shown" in said and "TOKEN" not in said

        talk(build(Shelf(str(tmp_path)), True), conversation)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    async def conversation(client: Client) -> None:
        said = await refusal(client, "finding", report="r9")
        assert "there is no report 'r9': known are none yet" in said
        said = await refusal(
            client, "run_script", script="x.py", folder=str(tmp_path / "no")
        )
        assert "is no folder" in said
        said = await refusal(
            client, "load_report", path=str(tmp_path / "no.json")
        )
        assert "no.json" in said
        said = await refusal(client, "attach", pid=os.getpid(), seconds=1e9)
        assert "seconds" in said

    talk(build(Shelf(str(tmp_path)), False), conversation)


LOOP = """
import time, torch

class Trainer:
    def __init__(self):
        self.my_history = []

trainer = Trainer()
print("ready", flush=True)
while True:
    model = torch.nn.Linear(8, 8)
    trainer.my_history.append(model(torch.ones(4, 8)).sum())
    time.sleep(0.005)
"""


def test_a_process_that_runs_is_entered(tmp_path: Path) -> None:
    pytest.importorskip("pyinjector")
    with subprocess.Popen(
        [sys.executable, "-P", "-c", LOOP],
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        async def conversation(client: Client) -> None:
            listed = (await answer(client, "list_processes"))["processes"]
            (ours,) = [p for p in listed if p["pid"] == process.pid]
            assert ours["can_be_attached_to"], ours["hindrance"]
            assert not ours["has_impactarbiter_loaded"]
            held = await answer(
                client,
                "who_holds",
                pid=process.pid,
                expression="trainer.my_history[0]",
            )
            assert "__main__.trainer.my_history[0]" in held["text"]
            told = await answer(client, "attach", pid=process.pid, steps=40)
            (group,) = told["groups"]
            assert "my_history" in group["holder"]["expression"]
            assert "is not watched" in await refusal(
                client, "report_of", pid=process.pid
            )

        try:
            talk(build(Shelf(str(tmp_path)), False), conversation)
        finally:
            process.kill()
