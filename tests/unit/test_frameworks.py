"""Several frameworks, and modules that are imported later.

JAX and TensorFlow have tests of their own: ``make check-jax``, ``make
check-tensorflow``.
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import textwrap
import weakref
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from impactarbiter import _arrays
from impactarbiter.base import imports
from impactarbiter.core import devices, frameworks, hooks
from impactarbiter.model.devices import (
    DeviceMemory,
    is_on_host,
    noun_of,
)
from impactarbiter.model.growth import LaterGrowth
from impactarbiter.model.moment import Moment
from impactarbiter.model.report import Report
from impactarbiter.reports.live_view import live_view


def test_the_module_is_loaded_once() -> None:
    del sys.modules["impactarbiter._arrays"]
    try:
        with pytest.raises(ImportError, match="only once"):
            importlib.import_module("impactarbiter._arrays")
    finally:
        sys.modules["impactarbiter._arrays"] = _arrays


def test_a_class_of_pythons_is_refused() -> None:
    class Array:
        is_deleted = unsafe_buffer_pointer = on_device_size_in_bytes = len
        aval = _sharding = _arrays = property(len)

    with pytest.raises(RuntimeError, match=r"Array .* can't be watched"):
        _arrays.install_jax(Array, type(len), ())


def test_without_them_nothing_is_hooked() -> None:
    frameworks.install()
    assert frameworks.in_place() == {}
    assert frameworks.own_counts() == {}
    frameworks.uninstall()
    assert imports._Finder not in sys.meta_path


def test_a_module_that_comes_later_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ia_comes_later.py").write_text("import sys; ready = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[int] = []

    def function() -> None:
        seen.append(sys.modules["ia_comes_later"].ready)

    imports.after("ia_comes_later", function)
    assert not imports.is_imported("ia_comes_later")
    module = importlib.import_module("ia_comes_later")
    assert seen == [1]
    assert imports.is_imported("ia_comes_later")
    assert "exec_module" not in vars(module.__spec__.loader)
    assert imports._Finder not in sys.meta_path
    del sys.modules["ia_comes_later"]


def test_an_import_is_under_way_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a package counts; how it ends does not matter."""
    asks = """
import sys, impactarbiter.base.imports as imports
sys.ia_seen.append([imports.under_way({one}) for one in ("ia_package", "ia")])
"""
    package = tmp_path / "ia_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text(asks)
    (package / "fails.py").write_text(asks + "raise ImportError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[list[bool]] = []
    monkeypatch.setattr(sys, "ia_seen", seen, raising=False)
    importlib.import_module("ia_package.part")
    assert not imports.under_way({"ia_package"})
    with pytest.raises(ImportError):
        importlib.import_module("ia_package.fails")
    assert not imports.under_way({"ia_package"})
    assert seen == [[True, False]] * 2
    for name in ("ia_package", "ia_package.part"):
        del sys.modules[name]


def test_an_import_of_another_s_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its file; what has none, or says so in its own way, counts."""
    (tmp_path / "ia_other.py").write_text(
        "import sys, impactarbiter.base.imports as imports\n"
        "for spec in (__spec__, None, type('', (), {'origin': 1})()):\n"
        "    __spec__ = spec\n"
        "    sys.ia_seen.append(imports.under_way({'ia_other'}, sys.ia_is))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[bool] = []
    asked: list[str] = []

    def is_other(file: str) -> bool:
        asked.append(file)
        return True

    monkeypatch.setattr(sys, "ia_seen", seen, raising=False)
    monkeypatch.setattr(sys, "ia_is", is_other, raising=False)
    importlib.import_module("ia_other")
    del sys.modules["ia_other"]
    assert seen == [False, True, True]
    assert asked == [str(tmp_path / "ia_other.py")]


def test_a_loader_that_takes_no_attribute_is_no_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is waited for as any other."""

    class Fixed:
        __slots__ = ()

        def create_module(self, spec: ModuleSpec) -> None:
            return None

        def exec_module(self, module: ModuleType) -> None:
            module.ready = 1

    class Finds:
        @staticmethod
        def find_spec(name: str, path: Any, target: Any = None) -> Any:
            known = name == "ia_is_fixed"
            return ModuleSpec(name, Fixed()) if known else None

    monkeypatch.setattr(sys, "meta_path", [Finds, *sys.meta_path])
    called: list[bool] = []
    imports.after("ia_is_fixed", lambda: called.append(True))
    assert importlib.import_module("ia_is_fixed").ready == 1
    assert called == [True]
    del sys.modules["ia_is_fixed"]


def test_who_waits_is_called_where_the_code_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a module that imports others as of one that does not."""
    (tmp_path / "ia_inner.py").write_text("")
    (tmp_path / "ia_outer.py").write_text("import ia_inner\nready = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    came: list[object] = []
    for name in ("ia_inner", "ia_outer"):
        imports.after(
            name,
            lambda name=name: came.append(
                (name, "ready" in vars(sys.modules["ia_outer"]))
            ),
        )
    importlib.import_module("ia_outer")
    assert came == [("ia_inner", False), ("ia_outer", True)]
    for name in ("ia_inner", "ia_outer"):
        del sys.modules[name]


def test_one_that_fails_is_waited_for_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "ia_fails.py"
    failing.write_text("import ia_is_nowhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    called: list[bool] = []
    imports.after("ia_fails", lambda: called.append(True))
    with pytest.raises(ImportError):
        importlib.import_module("ia_fails")
    assert called == []
    failing.write_text("ready = 1\n")
    importlib.invalidate_caches()
    importlib.import_module("ia_fails")
    assert called == [True]
    del sys.modules["ia_fails"]


def test_asking_leaves_no_frame_behind() -> None:
    """A frame has all that its callers have."""

    def ask() -> weakref.ref[object]:
        class Kept:
            pass

        kept = Kept()
        assert imports.is_imported("sys")
        return weakref.ref(kept)

    gc.disable()
    try:
        assert ask()() is None
    finally:
        gc.enable()


def test_a_module_that_is_forgotten_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ia_is_forgotten.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    imports.after("ia_is_forgotten", lambda: pytest.fail("called"))
    imports.forget("ia_is_forgotten")
    importlib.import_module("ia_is_forgotten")
    del sys.modules["ia_is_forgotten"]


def test_a_framework_that_refuses_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refusing:
        MODULE = "sys"

        def install(self) -> None:
            raise RuntimeError("this sys is unknown\nto us")

    monkeypatch.setattr(frameworks, "FRAMEWORKS", (Refusing(),))
    frameworks.install()
    assert list(frameworks.said()) == [
        "sys is not watched: RuntimeError: this sys is unknown"
    ]
    frameworks.uninstall()
    frameworks._failed.clear()


def test_words_of_devices() -> None:
    assert devices.name_of(devices.code_of("cuda", 1)) == "cuda:1"
    assert devices.name_of(0xFF00) == "numpy"
    assert is_on_host("jax:cpu:0")
    assert not is_on_host("jax:cuda:0")
    assert noun_of(("numpy", "jax:cpu:0")) == "array"
    assert noun_of(("numpy", "cpu")) == "tensor"
    assert noun_of(()) == "tensor"


def test_words_are_those_of_what_was_seen() -> None:
    grown = LaterGrowth(
        after_step=9, calls=99, call_kind="compiled call", bytes_per_call=64.0
    )
    moment = Moment(9, "backward", 1, 2, 3)
    for device, noun in (("jax:cpu:0", "array"), ("cpu", "tensor")):
        report = Report(
            steps=9,
            devices=(DeviceMemory(device=device, live_bytes=9, peak_bytes=9),),
            later_growth=grown,
        )
        assert live_view(report, moment, False)["noun"] == noun
        assert f"step 9 {noun} memory went on to grow" in str(report)


def test_a_watch_without_torch_says_so_where_it_is_needed() -> None:
    program = """
        import sys

        sys.modules["impactarbiter._torch"] = None
        import importlib.util

        find = importlib.util.find_spec

        def without(name, package=None):
            missing = ("torch", "impactarbiter._torch")
            return None if name in missing else find(name, package)

        importlib.util.find_spec = without
        import impactarbiter
        import numpy as np

        with impactarbiter.watch(step="manual") as arbiter:
            kept = []
            for _ in range(40):
                kept.append(np.ones(1000))
                arbiter.step()
        (finding,) = arbiter.report().findings
        print(finding.holder.expression, "torch" in sys.modules)
        print(impactarbiter.retained_bytes(kept))
        try:
            impactarbiter.FlightRecorder("bundles")
            impactarbiter.GPUMemoryProfiler()
        except impactarbiter.ImpactArbiterError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[:2] == [
        "__main__.kept False",
        "320000",
    ], done.stderr


def test_hooks_are_told_by_name() -> None:
    importlib.import_module("torch")
    assert set(hooks.in_place()) >= {"allocator", "tensor", "numpy"}
