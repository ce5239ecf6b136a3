"""MLflow, W&B, TensorBoard, Prometheus and OpenTelemetry, each read back."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter.model.report import Report

SCRIPT = Path(__file__).parents[2] / "examples/integrations/trackers.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example has run with all trackers that write files."""
    made = tmp_path_factory.mktemp("trackers")
    names = ["mlflow", "wandb", "tensorboard"]
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), *names],
        cwd=made,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "leak: main().history keeps" in done.stdout
    return made


@pytest.fixture
def leaking() -> Iterator[impactarbiter.Arbiter]:
    """A watch of which one leak is confirmed."""
    kept = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(20):
            kept.append(torch.ones(256))
            arbiter.step()
        yield arbiter


def test_metrics_of_a_watch(leaking: impactarbiter.Arbiter) -> None:
    looks = leaking.report().cost.looks
    metrics = leaking.metrics()
    assert metrics == {
        "memory/live_bytes": 20 * 1024,
        "memory/leak_bytes_per_step": pytest.approx(1024),
        "memory/findings": 1,
    }
    assert leaking.report().cost.looks == looks + 1  # none for metrics
    leaking.stop()
    assert leaking.metrics() == metrics


def test_metrics_count_no_bounded_growth() -> None:
    from collections import deque

    kept: deque[torch.Tensor] = deque(maxlen=64)
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(20):
            kept.append(torch.ones(256))
            arbiter.step()
        assert [f.verdict for f in arbiter.report().findings] == ["cache"]
        assert arbiter.metrics()["memory/findings"] == 0
        assert arbiter.metrics()["memory/leak_bytes_per_step"] == 0


def test_all_listeners_are_told() -> None:
    first: list[Any] = []
    second: list[Any] = []

    def fails(finding: Any) -> None:
        raise ValueError("of the listener's own")

    kept = []
    with impactarbiter.watch(step="manual", on_finding=fails) as arbiter:
        arbiter.subscribe(first.append)
        arbiter.subscribe(second.append)
        arbiter.unsubscribe(second.append)
        arbiter.unsubscribe(second.append)
        for _ in range(20):
            kept.append(torch.ones(256))
            arbiter.step()
    assert [f.verdict for f in first] == ["leak"]
    assert second == []
    (warning,) = arbiter.report().warnings
    assert "of the listener's own" in warning


def test_mlflow(folder: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'leaks'")
    (run,) = client.search_runs([experiment.experiment_id])
    live = client.get_metric_history(run.info.run_id, "memory/live_bytes")
    assert [m.step for m in live] == [9, 19, 29]
    assert live[0].value > 0
    assert run.data.metrics["memory/findings"] == 1
    assert run.data.metrics["memory/leak_bytes_per_step"] > 4096
    (page,) = folder.glob("mlruns/*/*/artifacts/impactarbiter/report.html")
    assert "main().history" in page.read_text()
    (finding,) = Report.load(page.with_suffix(".json")).findings
    assert finding.verdict == "leak"
    assert "holder" in page.with_suffix(".txt").read_text()


def wandb_records(file: Path) -> Iterator[Any]:
    """What W&B wrote offline: a log in LevelDB's format, of protobufs."""
    from wandb.proto import wandb_internal_pb2

    block, header = 1 << 15, 7
    data = file.read_bytes()
    at = header  # of the file, as long as a chunk's
    whole = b""
    while at + header <= len(data):
        if block - at % block < header:
            at += block - at % block
            continue
        size = int.from_bytes(data[at + 4 : at + 6], "little")
        kind = data[at + 6]  # 1: whole, 2: first, 3: middle, 4: last
        whole += data[at + header : at + header + size]
        at += header + size
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def test_wandb(folder: Path) -> None:
    pytest.importorskip("wandb")
    (file,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    history = []
    artifacts = []
    for record in wandb_records(file):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            row = {"/".join(i.nested_key) or i.key: i for i in items}
            history.append(
                {k: json.loads(i.value_json) for k, i in row.items()}
            )
        requested = record.request.log_artifact.artifact
        for artifact in (record.artifact, requested):
            if artifact.type == "memory-leak-report":
                artifacts.append(artifact)
    assert [row["_step"] for row in history] == [9, 19, 29]
    assert history[-1]["memory/findings"] == 1
    assert history[0]["memory/live_bytes"] > 0
    assert artifacts
    files = {entry.path for entry in artifacts[0].manifest.contents}
    assert files == {"report.json", "report.txt", "report.html"}


def test_tensorboard(folder: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )

    read = EventAccumulator(str(folder / "events"))
    read.Reload()
    live = read.Scalars("memory/live_bytes")
    assert [s.step for s in live] == [9, 19, 29]
    assert read.Scalars("memory/findings")[-1].value == 1
    (text,) = read.Tensors("memory/report/text_summary")
    assert b"main().history" in text.tensor_proto.string_val[0]


def test_prometheus(leaking: impactarbiter.Arbiter) -> None:
    prometheus = pytest.importorskip("prometheus_client")
    from impactarbiter.integrations.prometheus import export

    registry = prometheus.CollectorRegistry()
    collector = export(leaking, registry)
    server, thread = prometheus.start_http_server(
        0, addr="127.0.0.1", registry=registry
    )
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(url) as answer:
            lines = answer.read().decode().splitlines()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    values = {
        line.split()[0]: float(line.split()[1])
        for line in lines
        if not line.startswith("#")
    }
    assert values == {
        "impactarbiter_live_bytes": 20 * 1024,
        "impactarbiter_leak_bytes_per_step": pytest.approx(1024, rel=0.2),
        "impactarbiter_findings": 1,
    }
    registry.unregister(collector)
    assert list(registry.collect()) == []


def test_opentelemetry(leaking: impactarbiter.Arbiter) -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from impactarbiter.integrations.opentelemetry import export

    reader = InMemoryMetricReader()
    provider = metrics.MeterProvider([reader], shutdown_on_exit=False)
    try:
        export(leaking, provider)
        data = reader.get_metrics_data()
    finally:
        provider.shutdown()
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "impactarbiter"
    values = {
        (metric.name, metric.unit): metric.data.data_points[0].value
        for metric in scope.metrics
    }
    assert values == {
        ("impactarbiter.memory.live", "By"): 20 * 1024,
        ("impactarbiter.leak.rate", "By/{step}"): pytest.approx(1024, rel=0.2),
        ("impactarbiter.findings", "{finding}"): 1,
    }


@pytest.mark.parametrize(
    "name", ["mlflow", "wandb", "prometheus_client", "opentelemetry.metrics"]
)
def test_a_package_that_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    monkeypatch.setitem(sys.modules, name, None)
    extra = name.removesuffix("_client").removesuffix(".metrics")
    module = importlib.import_module(f"impactarbiter.integrations.{extra}")
    call = getattr(module, "export", None) or module.log_metrics
    with pytest.raises(impactarbiter.MissingExtraError) as caught:
        call(None)
    wanted = impactarbiter.base.errors.requirements(extra)
    assert str(caught.value).endswith(f"pip install {' '.join(wanted)}")
    assert wanted and caught.value.extra == extra


@pytest.mark.parametrize("name", ["transformers", "lightning", "accelerate"])
def test_a_framework_that_is_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    known = [m for m in sys.modules if m.split(".")[0] == name]
    for module in [*known, name]:
        monkeypatch.setitem(sys.modules, module, None)
    ours = f"impactarbiter.integrations.{name}"
    # The rooms behind them too: what another test has imported hides nothing.
    behind = ("impactarbiter.integrations.huggingface", ours)
    for module in [m for m in sys.modules if m.startswith(behind)]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(impactarbiter.MissingExtraError) as caught:
        importlib.import_module(ours)
    assert f"pip install '{name}>=" in str(caught.value)
