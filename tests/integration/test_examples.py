"""The main job, end to end: the launcher on the examples, as users run it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import warm

COMMAND = ["-m", "impactarbiter", "run"]
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(
    folder: Path, *args: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    report = folder / "report.json"
    done = warm.run(
        [*COMMAND, "--json", str(report), *args], cwd=folder, timeout=300
    )
    return done, json.loads(report.read_text())


def alarms(report: dict[str, Any]) -> list[dict[str, Any]]:
    bounded = ("cache", "accumulation")
    return [f for f in report["findings"] if f["verdict"] not in bounded]


def test_a_trainer_that_keeps_its_losses(tmp_path: Path) -> None:
    small = ["--n_embd", "32", "--block_size", "32", "--max_steps", "40"]
    done, report = run(
        tmp_path,
        *(str(EXAMPLES / "finetune_gpt2.py"), *small),
        *("--per_device_train_batch_size", "2"),
    )
    assert done.returncode == 0, done.stderr
    (finding,) = alarms(report)
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "main().trainer.loss_history"
    assert finding["holder"]["type"] == "list"
    assert finding["path"]["text"].startswith("main().trainer.loss_history[")
    site = finding["allocated_at"]
    assert site["file"].endswith("finetune_gpt2.py")
    assert site["source"] == "outputs = model(**inputs)"
    assert finding["grown_at"]["source"] == (
        "self.loss_history.append(outputs.loss)"
    )
    assert finding["bytes_per_step"] == pytest.approx(4)
    assert finding["graph"]["nodes"] > 100 * finding["generations"]
    assert finding["graph_bytes_per_step"] > 10_000
    assert finding["steps_to_oom"] > 0
    # The curve is printed from them, in their own precision.
    assert "store `.detach()`" in finding["advice"]
    assert "1 leak" in done.stderr
    assert "ImpactArbiter" not in done.stdout


@pytest.mark.parametrize("variant", ["leaky", "fixed"])
def test_a_forward_hook(tmp_path: Path, variant: str) -> None:
    done, report = run(
        tmp_path,
        str(EXAMPLES / "resnet_digits.py"),
        "--variant",
        variant,
        "--steps",
        "24",
        "--batch-size",
        "2",
    )
    assert done.returncode == 0, done.stderr
    if variant == "fixed":
        assert alarms(report) == []
        return
    (finding,) = alarms(report)
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "__main__.activation_store"
    assert finding["bytes_per_step"] == pytest.approx(1 << 16, rel=0.1)
    held = finding["holder"]["length"] << 16
    assert finding["retained_bytes"] == held
    assert finding["severity"] in ("warning", "critical")


LEAK = """
    import sys, time, torch
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for step in range(40):
        out = model(torch.ones(4, 8))
        optimizer.zero_grad(); out.sum().backward(); optimizer.step()
        kept.append(out.detach().clone())
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("raise RuntimeError('the data ended')", 1),
        ("sys.exit(5)", 5),
        ("sys.exit('no more')", 1),
    ],
)
def test_the_end_of_a_program(tmp_path: Path, end: str, code: int) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(LEAK) + end + "\n")
    done, report = run(tmp_path, "train.py")
    assert done.returncode == code
    (finding,) = alarms(report)
    assert finding["verdict"] == "leak"
    assert finding["holder"]["expression"] == "__main__.kept"


def test_an_interrupted_program(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(LEAK) + "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    report = tmp_path / "report.json"
    process = subprocess.Popen(
        [sys.executable, "-P", *COMMAND, "--json", str(report), "train.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who runs these tests in the background may have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    (finding,) = alarms(json.loads(report.read_text()))
    assert finding["holder"]["expression"] == "__main__.kept"


def test_fail_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(LEAK))
    assert run(tmp_path, "--fail-on", "info", "train.py")[0].returncode == 3
    roomy = ("--memory-limit", "100TiB")  # no leak of these kills within a day
    done, _ = run(tmp_path, *roomy, "--fail-on", "critical", "train.py")
    assert done.returncode == 0
