"""``monitor``, ``track`` and ``info``: memory read from outside."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from impactarbiter.commands import main, readings

MIB = 1 << 20


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs Python by now: before that it has a page or two."""
    process = subprocess.Popen(
        [sys.executable, "-Sc", "import time; print(); time.sleep(60)"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.stdout.close()
    process.kill()
    process.wait()


def numbers(folder: Path, line: str) -> None:
    """A stand-in for nvidia-smi that says this."""
    program = folder / "nvidia-smi"
    script = f"#!/bin/sh\necho '{line}'\n"
    program.write_text(script, errors="surrogateescape")
    program.chmod(0o755)


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers(tmp_path, "1024, 3072, 4096, A GPU, of some kind")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.fixture
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def test_a_process_is_read(
    sleeper: subprocess.Popen[bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out.csv"
    words = ["monitor", str(sleeper.pid), "--interval", "10ms"]
    assert main([*words, "--duration=50ms", "--output", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith(f"process {sleeper.pid}: ")
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == len(said) - 1 >= 2
    assert MIB < int(rows[0]["used"]) < 200 * MIB
    assert int(rows[0]["total"]) > int(rows[0]["used"])


def test_it_ends_with_the_process(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source = readings.source_of([str(sleeper.pid)], {})
    assert source() is not None
    sleeper.kill()
    sleeper.wait()
    assert list(readings.readings(source, {})) == []


def test_the_machine_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    words = ["monitor", "--duration", "1ms", "--format=json"]
    assert main([*words, "--output", str(out)]) == 0
    assert "the machine: " in capsys.readouterr().out
    (first, *_) = json.loads(out.read_text())
    assert first["used"] + first["free"] == first["total"]


@pytest.mark.usefixtures("gpu")
def test_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitor", "--device=0", "--duration=1ms"]) == 0
    assert "1.0 GiB in use, 25.0 % of 4.0 GiB" in capsys.readouterr().out


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["999999999"], "there is no process 999999999"),
        (["trainer"], "there is no process trainer"),
        (["1", "2"], "expected the number of one process"),
        (["1", "--device=0"], "expected the number of one process"),
        (["--device=0"], "nvidia-smi does not answer for GPU 0"),
        (["--device=x"], "'x' is no GPU"),
        (["--duration=-1"], "no length of time"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("monitor", "track"):
        assert main([command, *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line


def reading(used: int, at: float = 0) -> readings.Reading:
    return readings.Reading(at, used * MIB, (1000 - used) * MIB, 1000 * MIB)


def test_alerts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = iter([100, 110, 300, 310, 850, 990])
    monkeypatch.setattr(
        readings,
        "machine",
        lambda: reading(n) if (n := next(sizes, None)) is not None else None,
    )
    out = tmp_path / "out.csv"
    assert main(["track", "--interval=1ms", "--output", str(out)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1].partition(":")[0] for line in said[:-1]] == [
        "warning",  # 190 MiB at once
        "warning",  # more than 80 per cent
        "warning",  # 540 MiB at once
        "critical",  # more than 95 per cent
    ]
    rules = [row["rule"] for row in csv.DictReader(out.open())]
    large = "large_allocation"
    assert rules == ["", "", large, "", "usage", large, "usage"]


def test_thresholds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = iter([100, 300])
    monkeypatch.setattr(
        readings,
        "machine",
        lambda: reading(n) if (n := next(sizes, None)) is not None else None,
    )
    words = ["track", "--interval=1ms", "--warning-threshold=25"]
    assert main(words) == 0
    assert "memory is 30.0 % full" in capsys.readouterr().out
    assert main(["track", "--warning-threshold", "120"]) == 2
    assert "expected per cent" in capsys.readouterr().err


def test_who_has_had_enough_gets_the_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def enough(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(readings.time, "sleep", enough)
    assert main(["track"]) == 0
    assert "1 reading in" in capsys.readouterr().out


@pytest.mark.usefixtures("gpu")
def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert "GPU 0           A GPU, of some kind, 1.0 GiB of 4.0 GiB" in said
    assert main(["info", "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["gpus"][0]["total"] == 4096 * MIB
    assert "cpu" in known["torch"]["backends"]
    assert main(["info", "me"]) == 2


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("line", "said", "refused"),
    [
        (
            "[N/A], [N/A], [N/A], GB10",
            "GPU 0           GB10, which does not say what memory it has",
            "does not say how much memory GPU 0 (GB10) has in use",
        ),
        (
            "1e5, 1, 1, A GPU",
            "GPU 0           A GPU, which does not say what memory it has",
            "does not say how much memory GPU 0 (A GPU) has in use",
        ),
        (
            "No devices were found",
            "none that nvidia-smi knows",
            "does not answer for GPU 0",
        ),
        (
            "\udcff\udcfe",
            "none that nvidia-smi knows",
            "does not answer for GPU 0",
        ),
    ],
)
def test_what_nvidia_smi_does_not_say(
    line: str,
    said: str,
    refused: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers(tmp_path, line)
    assert main(["info"]) == 0
    assert said in capsys.readouterr().out
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["used"] > 0
    assert main(["monitor", "--device=0", "--duration=1ms"]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert refused in told


@pytest.mark.usefixtures("no_gpu")
def test_info_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    assert "none that nvidia-smi knows" in capsys.readouterr().out
