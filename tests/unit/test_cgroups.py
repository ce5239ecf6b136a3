"""Limits of control groups, from folders laid out as the kernel lays them."""

from __future__ import annotations

from pathlib import Path

import pytest

from impactarbiter.base import cgroups
from impactarbiter.judging.verdicts.forecast import Forecast


def group(folder: Path, limit: str, used: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")


def member(folder: Path, line: str) -> str:
    file = folder / "membership"
    file.write_text(line + "\n")
    return str(file)


def test_the_narrowest_level_decides(tmp_path: Path) -> None:
    root = tmp_path / "fs"
    group(root / "a" / "b", "max", 10)
    group(root / "a", "1000", 900)
    group(root, "5000", 1000)
    found = cgroups.narrowest(str(root), member(tmp_path, "0::/a/b"))
    assert found is not None
    assert (found.path, found.limit, found.room) == (f"{root}/a", 1000, 100)


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    root = tmp_path / "fs"
    group(root, "4096", 5000)
    found = cgroups.narrowest(str(root), member(tmp_path, "0::/"))
    assert found is not None and (found.limit, found.room) == (4096, 0)


def test_a_membership_from_outside_falls_back_to_what_is_there(
    tmp_path: Path,
) -> None:
    root = tmp_path / "fs"
    group(root, "4096", 96)
    line = "0::/docker/0123abcd"  # of the host's view, not mounted here
    found = cgroups.narrowest(str(root), member(tmp_path, line))
    assert found is not None and found.room == 4000


def test_version_1(tmp_path: Path) -> None:
    folder = tmp_path / "fs" / "memory" / "job"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("2048\n")
    (folder / "memory.usage_in_bytes").write_text("48\n")
    (folder.parent / "memory.limit_in_bytes").write_text(f"{1 << 63}\n")
    (folder.parent / "memory.usage_in_bytes").write_text("4800\n")
    lines = "5:cpu,cpuacct:/other\n4:hugetlb,memory:/job\n0::/"
    found = cgroups.memory_groups(
        str(tmp_path / "fs"), member(tmp_path, lines)
    )
    assert [(g.limit, g.used) for g in found] == [(2048, 48)]


@pytest.mark.parametrize("line", ["", "nonsense", "0::../..", "0::/x/../.."])
def test_nothing_to_be_told(tmp_path: Path, line: str) -> None:
    assert cgroups.narrowest(str(tmp_path), member(tmp_path, line)) is None
    assert cgroups.narrowest(str(tmp_path), str(tmp_path / "none")) is None


def test_the_forecast_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "fs"
    group(root / "job", str(64 << 20), 60 << 20)
    where = member(tmp_path, "0::/job")
    narrowest = cgroups.narrowest
    monkeypatch.setattr(
        cgroups, "narrowest", lambda: narrowest(str(root), where)
    )
    forecast = Forecast()
    assert forecast.limit == 64 << 20
    assert forecast.room == 4 << 20


def test_the_mark_of_slowing_down(tmp_path: Path) -> None:
    """``memory.high`` counts where it is asked for."""
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.high").write_text("800\n")
    (tmp_path / "memory.current").write_text("600\n")
    where = member(tmp_path, "0::/")
    plain = cgroups.narrowest(str(tmp_path), where)
    early = cgroups.narrowest(str(tmp_path), where, throttled=True)
    assert plain is not None and plain.percent == 60.0
    assert early is not None and early.percent == 75.0
    (tmp_path / "memory.max").write_text("max\n")
    assert cgroups.narrowest(str(tmp_path), where) is None
    early = cgroups.narrowest(str(tmp_path), where, throttled=True)
    assert early is not None and early.limit == 800
