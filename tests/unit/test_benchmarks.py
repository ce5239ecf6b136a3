"""The benchmarks: what is better or worse, and what is drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import benchmark
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
against = benchmark.load("against")
gpu_parts = benchmark.load("gpu_parts")
machine = benchmark.load("machine")
memory = benchmark.load("memory")
pairs = benchmark.load("pairs")
peers = benchmark.load("peers")
peers_plot = benchmark.load("peers_plot")
run = benchmark.load("run")
verdicts = benchmark.load("verdicts")


def row(low: float, ratio: float, high: float, name: str = "a") -> Any:
    return pairs.Row(name, 1.0, ratio, low, ratio, high, 8)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ((1.00, 1.10, 1.20), (1.19, 1.30, 1.40), "within spread"),
        ((1.00, 1.10, 1.20), (1.21, 1.30, 1.40), "worse"),
        ((1.21, 1.30, 1.40), (1.00, 1.10, 1.20), "better"),
        # Apart, and the same for all that anybody would notice.
        ((1.000, 1.001, 1.002), (1.003, 1.004, 1.005), "within spread"),
    ],
)
def test_what_has_changed(
    old: tuple[float, ...], new: tuple[float, ...], verdict: str
) -> None:
    (change,) = against.changes([row(*old)], [row(*new)])
    assert change.verdict == verdict
    assert verdict in against.change_line(change)


def test_noise_is_not_compared_and_what_is_new_says_so() -> None:
    noise = row(1.5, 1.6, 1.7, "tiny step, nothing added")
    fresh = row(1.0, 1.1, 1.2, "another")
    found = against.changes([row(1.0, 1.0, 1.0, noise.name)], [noise, fresh])
    assert [(c.new.name, c.verdict) for c in found] == [("another", "new")]


def test_only_what_is_clearly_worse_fails(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = tmp_path / "pairs.json"
    monkeypatch.setattr(run, "BENCHMARKS", {"one": lambda effort: []})

    def status(*rows: Any) -> int:
        monkeypatch.setattr(run, "in_own_process", lambda *_: list(rows))
        given = ["run.py", "--against", str(results)]
        monkeypatch.setattr(sys, "argv", given)
        return run.main()

    text = {
        "machine": machine.describe("numpy"),
        "rows": [row(1.0, 1.1, 1.2).to_json()],
    }
    results.write_text(json.dumps(text))
    assert status(row(1.0, 1.1, 1.2)) == 0
    assert status(row(0.8, 0.9, 0.95)) == 0
    assert "better" in capsys.readouterr().out
    assert status(row(1.3, 1.4, 1.5)) == 1
    assert "worse" in capsys.readouterr().out


def outcome(name: str, **said: Any) -> Any:
    return verdicts.to_row(verdicts.Outcome(name, leaky=False, **said))


def test_programs_of_which_something_else_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = outcome("same", said=["cache a <- 3: x"])
    gone = outcome("gone")
    was = outcome("changed", said=["cache a <- 3: x"])
    now = outcome("changed", said=["leak a <- 3: x"], false=["leak a"])
    new = outcome("new", taken_back=["leak a at step 9"])
    saved = tmp_path / "verdicts.json"
    saved.write_text(json.dumps([same, gone, was]))
    verdicts.print_changes(saved, [same, now, new])
    _, said, *table = capsys.readouterr().out.splitlines()
    assert said == f"against {saved}: 2 of 3 programs differ"
    assert table[2:] == [
        "| `changed` | right: cache | false alarm: leak |",
        "| `new` | not run | right, taken back: nothing said |",
    ]


def test_the_committed_results_can_be_read() -> None:
    old = json.loads((ROOT / "benchmarks/results/pairs.json").read_text())
    assert all(pairs.Row(**fields).rounds > 3 for fields in old["rows"])
    assert "cores" in machine.remark(old["machine"])


def test_a_busy_machine_is_said() -> None:
    data = machine.describe("numpy", "no-such-package")
    assert data["versions"]["no-such-package"] is None
    assert "busy" in machine.remark({**data, "load": 3.0, "cores": 2})
    assert "busy" not in machine.remark({**data, "load": 0.3, "cores": 2})


def test_extra_memory_is_of_the_peak() -> None:
    size = 40 << 20
    given, extra = memory.extra_memory(lambda: len(b"\1" * size))
    assert given == size
    assert 0.9 * size < extra < 2 * size


def figures() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(
        (ROOT / "benchmarks/results/peers.json").read_text()
    )
    return data


def test_the_picture_of_the_peers_is_drawn(tmp_path: Path) -> None:
    data = figures()
    picture = tmp_path / "peers.png"
    peers_plot.draw(data, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_ours_is_right_in_the_committed_figures() -> None:
    (ours,) = (r for r in figures()["holders"] if r["tool"] == "impactarbiter")
    assert {reply["mark"] for reply in ours["replies"]} == {"Y"}
    assert peers.holder_line(ours).endswith("Y" * 12)


@pytest.mark.parametrize("page", ["docs/comparison.md", "README.md"])
def test_pages_show_the_committed_figures(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    data = figures()
    noise = [r for r in data["steps"] if r["tool"].startswith("nothing")]
    for of_noise in noise:
        words = f"{of_noise['kind']}, {1e3 * of_noise['base']:.2g} ms a step"
        assert words in text
    for row in data["steps"]:
        if page != "README.md":
            spread = f"({row['low']:.2f}-{row['high']:.2f})"
            assert f"{row['ratio']:.2f} {spread}" in text, row
        elif row["tool"] in ("ImpactArbiter", "memray"):
            assert f" {row['ratio']:.2f} |" in text, row


def test_the_lab_of_a_gpu_runs_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        gpu_parts,
        "LAB",
        ["--device", "cpu", "--width", "2", "--batch-size", "2"],
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = gpu_parts.lab_one("missing_zero_grad", "fixed", "3")
    assert found["findings"] == [] and not found["out_of_memory"]


def test_the_overhead_on_a_gpu_is_measured_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settled: list[int] = []
    monkeypatch.setattr(
        gpu_parts, "training_step", lambda *_: lambda: torch.ones(9).sum()
    )
    monkeypatch.setattr(
        torch.cuda, "synchronize", lambda: settled.append(1)
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = gpu_parts.overhead()["rows"]
    labels = [row["step"].rpartition(", ")[2] for row in found]
    assert labels == ["mean", "fastest tenth"] * 4 and settled
    assert all(row["ratio"] > 0 for row in found)


def steps_seen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each training step of the parts, whether it was watched."""
    watched: list[bool] = []
    monkeypatch.setattr(
        gpu_parts,
        "training_step",
        lambda *_: lambda: watched.append(gpu_parts._core.is_active()),
    )
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return watched


def test_what_a_step_costs_on_a_gpu_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = steps_seen(monkeypatch)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = gpu_parts.shares()
    each = gpu_parts.MEASURED + gpu_parts.MEASURED // 5
    assert len(found["rows"]) == 5
    assert watched.count(True) == 2 * each + gpu_parts.SETTLED
    assert watched.count(False) == 10 + 3 * each


def test_a_long_training_on_a_gpu_is_timed_span_by_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = steps_seen(monkeypatch)
    monkeypatch.setattr(gpu_parts, "SPANS", (2, 5))

    def here(
        command: list[str], **_: object
    ) -> subprocess.CompletedProcess[str]:
        found = gpu_parts.PARTS[command[-2]](command[-1])
        return subprocess.CompletedProcess(command, 0, json.dumps(found))

    monkeypatch.setattr(gpu_parts.subprocess, "run", here)
    found = gpu_parts.long()["rows"]
    assert [row["step"] for row in found] == ["steps 1 to 2", "steps 3 to 5"]
    trainings = 2 * (gpu_parts.LONG_ROUNDS + 1)
    assert len(steps) == trainings * (10 + 5)
    assert sum(steps) == trainings // 2 * 5
