"""src/cuda compiles against the CUDA Toolkit's headers, on any machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ROOT / "build" / "cuda-headers"
CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
FLAGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-fPIC"]


@pytest.fixture(scope="module")
def headers() -> Path:
    path = Path(__file__).with_name("headers.py")
    spec = importlib.util.spec_from_file_location("cuda_headers", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = module.fetch(HEADERS)
    if missing:
        pytest.skip(missing)
    return HEADERS


def check(compiler: str | None, source: Path, *flags: str) -> None:
    if compiler is None:
        pytest.skip("no compiler")
    done = subprocess.run(
        [compiler, *FLAGS, *flags, str(source)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["module.cpp", "trace_hook.cpp"])
def test_the_module_compiles(name: str, headers: Path) -> None:
    folders = [
        *cpp_extension.include_paths(),
        sysconfig.get_path("include"),
        # After torch's own: a CUDA build has the header.
        headers / "standin",
        headers / "include",
    ]
    check(
        CXX,
        ROOT / "src" / "cuda" / name,
        "-std=c++20",
        *(f"-isystem{folder}" for folder in folders),
    )


def test_the_fake_device_compiles(headers: Path) -> None:
    check(
        CC,
        ROOT / "tests" / "cuda" / "fake_cuda.c",
        "-std=c11",
        f"-isystem{headers / 'include'}",
    )
