"""The wheel that was built for this torch is taken, another is not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import impactarbiter

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def backend() -> ModuleType:
    file = ROOT / "tools" / "wheels" / "backend.py"
    spec = importlib.util.spec_from_file_location("wheel_backend", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "version, cuda, tag",
    [("2.13.0+cpu", None, "2130cpu"), ("2.15.0+cu132", "13.2", "2150cu132")],
)
def test_the_tag_names_torch(
    backend: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    cuda: str | None,
    tag: str,
) -> None:
    fake = SimpleNamespace(
        __version__=version, version=SimpleNamespace(cuda=cuda)
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert backend.build_tag() == tag
    monkeypatch.setenv("IMPACTARBITER_CUDA", "0")
    assert backend.build_tag() == tag[:4] + "cpu"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_wheel_that_fits_is_taken(
    backend: ModuleType, tmp_path: Path, scheme: str
) -> None:
    wanted = backend.names(backend.build_tag())
    assert all(impactarbiter.__version__ in name for name in wanted)
    shelf, target = tmp_path / "shelf", tmp_path / "target"
    shelf.mkdir()
    target.mkdir()
    other = wanted[-1].replace(backend.build_tag(), "190cpu")
    (shelf / other).write_bytes(b"another torch's")
    assert backend.take(f"{scheme}{shelf}", wanted, target) is None
    (shelf / wanted[-1]).write_bytes(b"ours")
    assert backend.take(f"{scheme}{shelf}", wanted, target) == wanted[-1]
    assert (target / wanted[-1]).read_bytes() == b"ours"
    assert torch.__version__[:4].replace(".", "") in wanted[-1]


def test_an_address_that_does_not_answer_has_nothing(
    backend: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not backend.fetch("http://127.0.0.1:9/x.whl", tmp_path / "x.whl")
    assert "127.0.0.1:9" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
