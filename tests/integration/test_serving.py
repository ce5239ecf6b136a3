"""Servers and inference loops: a request is a step."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import _torch
from impactarbiter.integrations.serving import LeakDetectionMiddleware
from impactarbiter.model.report import Report
from impactarbiter.watching.arbiter import current

SCRIPT = Path(__file__).parents[2] / "examples/integrations/fastapi_server.py"

pytestmark = pytest.mark.usefixtures("nobody_watches")


@pytest.fixture(scope="module", autouse=True)
def framework() -> None:
    """Not at the collection: what that imports, all walks go through.

    FastAPI looks for the names of annotations in the module.
    """
    global BackgroundTasks, FastAPI, TestClient, WebSocket
    from fastapi import BackgroundTasks, FastAPI, WebSocket
    from fastapi.testclient import TestClient


def test_the_example(caplog: pytest.LogCaptureFixture) -> None:
    spec = importlib.util.spec_from_file_location("fastapi_server", SCRIPT)
    assert spec is not None and spec.loader is not None
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    with TestClient(server.app) as client:
        for i in range(120):
            answer = client.get("/embed", params={"word": "x" * i})
            assert answer.status_code == 200
    said = [r.message for r in caplog.records if r.name == "impactarbiter"]
    assert len(said) == 2
    # It asks for each word first, and words may come to an end.
    assert "growing: " in said[0] and "cache" in said[0]
    assert "keys that come again may end that" in said[0]
    assert said[0].count("fastapi_server.py") == 1
    assert "leak: " in said[1]
    assert "watched 120 steps" in said[1]
    assert not any(_torch.installed().values())


def app_of(**options: Any) -> FastAPI:
    app = FastAPI()
    app.add_middleware(LeakDetectionMiddleware, **options)
    model = torch.nn.Linear(4, 4)
    later: list[torch.Tensor] = []

    @app.get("/healthy")
    async def healthy() -> float:
        with torch.inference_mode():
            return float(model(torch.ones(2, 4)).sum())

    @app.get("/later")
    def background(tasks: BackgroundTasks) -> None:
        tasks.add_task(lambda: later.append(torch.ones(8)))

    @app.get("/fails")
    def fails() -> None:
        raise ValueError("a request went wrong")

    @app.websocket("/talk")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    return app


def test_a_healthy_server(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with TestClient(app_of(report=str(path))) as client:
        for _ in range(20):
            assert client.get("/healthy").status_code == 200
        with client.websocket_connect("/talk") as socket:
            assert socket.receive_text() == "hello"
        with pytest.raises(ValueError, match="a request went wrong"):
            client.get("/fails")
    report = Report.load(path)
    assert report.steps == 22
    assert report.findings == ()


def test_what_a_background_task_keeps(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with TestClient(app_of(report=str(path), warmup=1)) as client:
        for _ in range(20):
            client.get("/later")
    (finding,) = Report.load(path).findings
    assert finding.verdict == "leak"
    assert finding.tensors_per_step == pytest.approx(1, rel=0.2)


def test_a_running_watch_keeps_its_steps() -> None:
    with impactarbiter.watch() as arbiter:
        with TestClient(app_of()) as client:
            for _ in range(5):
                client.get("/later")  # no module is called
        assert current() is arbiter
    assert arbiter.report().steps == 0


def test_an_inference_loop() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    answers = []
    with impactarbiter.watch() as arbiter, torch.inference_mode():
        for _ in range(20):
            answers.append(model(torch.ones(2, 4)))
        report = arbiter.report()
    (finding,) = report.findings
    # One pass that collects its answers looks the same from here.
    assert (report.steps, finding.verdict) == (20, "growing")
    assert finding.holder is not None
    assert finding.holder.expression.endswith("answers")


def test_requests_by_hand() -> None:
    model = torch.nn.Linear(4, 4)
    answers = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(20):
            with torch.inference_mode():
                for _ in range(3):
                    answer = model(torch.ones(2, 4))
            answers.append(answer)
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert (report.steps, finding.verdict) == (20, "leak")
