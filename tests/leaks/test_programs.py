"""Every program in ``programs/`` under the launcher: what leaks is found with
its holder and line, and what doesn't is met with silence.

What a program expects stands at its own end; ``benchmarks/verdicts.py`` says
how, and prints all of it as one table.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warm

ROOT = Path(__file__).resolve().parents[2]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


verdicts = load(ROOT / "benchmarks" / "verdicts.py")


#: One program for each kind of growth, of holder and of silence; the others
#: take as many seconds each and are for sweeps.
QUICK = {
    "leaky/adapters_per_request",
    "leaky/attribute_cat",
    "leaky/average_meter",
    "leaky/create_graph_accumulates",
    "leaky/lru_cache_method",
    "leaky/running_loss_sum",
    "leaky/self_cycle_gc_off",
    "fixed/average_meter",
    "fixed/running_loss_sum",
    "healthy/curriculum_to_the_end",
    "healthy/epoch_metrics",
    "healthy/kv_cache_handwritten",
    "healthy/lazy_optimizer_state",
    "healthy/replay_deque",
}


def parameters() -> list[Any]:
    found = []
    for case in verdicts.cases():
        marks = [] if case.name in QUICK else [pytest.mark.slow]
        if case.missing:
            marks.append(pytest.mark.skip(reason=f"needs {case.needs}"))
        found.append(pytest.param(case, id=case.name, marks=marks))
    return found


@pytest.mark.parametrize("case", parameters())
def test_program(case: Any) -> None:
    outcome = verdicts.judge(case, warm.run)
    said = "\n".join(outcome.said)
    assert not outcome.crashed
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return  # walks take ten times as long, and looks are rationed by time
    assert not outcome.wrongs, said
    assert outcome.right, said


def chat(folder: Path, *arguments: str) -> dict[str, Any]:
    report = folder / "run.json"
    command = ["-m", "impactarbiter", "run", "--json", str(report)]
    command += [str(ROOT / "examples" / "chatbot.py"), *arguments]
    done = warm.run(command)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return answer


#: Several at a time are the harder ones.
CONVERSATIONS = [pytest.param("1", marks=pytest.mark.slow), "3"]


@pytest.mark.parametrize("conversations", CONVERSATIONS)
def test_chatbot_is_found(tmp_path: Path, conversations: str) -> None:
    report = chat(tmp_path, "--conversations", conversations)
    alarms = [
        f
        for f in report["findings"]
        if f["verdict"] not in verdicts.INFORMATION
    ]
    (finding,) = alarms
    assert finding["verdict"] == "leak"
    assert "attention_masks" in finding["holder"]["expression"]
    assert "torch.ones" in finding["allocated_at"]["source"]


@pytest.mark.parametrize("conversations", CONVERSATIONS)
def test_fixed_chatbot_is_silent(tmp_path: Path, conversations: str) -> None:
    options = ("--variant", "fixed", "--conversations", conversations)
    findings = chat(tmp_path, *options)["findings"]
    assert all(f["verdict"] in verdicts.INFORMATION for f in findings)
    assert not any("cache" in f["holder"]["expression"] for f in findings)
