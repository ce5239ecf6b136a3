"""What may go wrong around us, and in us: the program goes on as it would."""

from __future__ import annotations

import ast
import codecs
import linecache
import os
import tokenize
import warnings
import zipfile
import zipimport
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import numpy as np
import pytest
import torch
import warm

import impactarbiter
from impactarbiter import _torch
from impactarbiter.base.source_text import (
    source_line,
    source_lines,
    tree_of,
)
from impactarbiter.judging.diagnostician import Diagnostician
from impactarbiter.judging.patches.diffs import read_source

# -- names that are longer than our buffers ----------------------------------


def test_names_may_be_long_and_in_any_script() -> None:
    """A buffer's end may lie within a character: 100 of two bytes each."""
    name = "\u00c9" * 100
    function = type(
        name,
        (torch.autograd.Function,),
        {
            "forward": staticmethod(lambda ctx, x: x * 2),
            "backward": staticmethod(lambda ctx, gradient: gradient * 2),
        },
    )
    kept = type(name, (list,), {})()
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(12):
            weight = torch.ones(3, requires_grad=True)
            kept.append(function.apply(weight).sum())
            arbiter.step()
        report = arbiter.report()
    assert report.warnings == ()
    (finding,) = [f for f in report.findings if f.verdict == "leak"]
    assert finding.holder is not None
    assert finding.holder.type.startswith("\u00c9" * 60)
    assert finding.graph is not None
    names = [name for name, _count, _bytes in finding.graph.biggest]
    assert any(name.startswith("\u00c9" * 30) for name in names)


def test_so_may_those_of_items_and_of_an_array_s_type() -> None:
    """An item's is cut at 127 bytes, an array's at 31."""
    name = "x" + "\u00c9" * 100
    item = type(name, (), {})
    record = np.dtype((type("\u00c9" * 40, (np.void,), {}), [("a", "f4")]))
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(40):  # until the statement has been watched
            one = item()
            one.data = torch.ones(9)
            kept.append((one, np.ones(300, dtype=record)))
            arbiter.step()
        report = arbiter.report()
    assert report.warnings == ()
    assert {f.verdict for f in report.findings} == {"leak"}
    shown = impactarbiter.explain(kept[0][1])
    assert "\u00c9" * 10 in shown.target


def test_a_long_message_of_a_failure_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(self: Diagnostician, step: int) -> None:
        raise ValueError("\u00c9" * 300)

    monkeypatch.setattr(Diagnostician, "look", look)
    kept = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with impactarbiter.watch(step="manual") as arbiter:
            for _ in range(20):
                kept.append(torch.ones(3))
                arbiter.step()
    (said,) = caught
    assert "ValueError: \u00c9" in str(said.message)
    assert any("\u00c9" * 50 in text for text in arbiter.report().warnings)


# -- looks at torch's objects that throw --------------------------------------


def test_looks_that_were_given_up_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_up = 2
    monkeypatch.setattr(_torch, "walk_failures", lambda: given_up)
    with impactarbiter.watch(step="manual") as arbiter:
        assert arbiter.report().warnings == ()
        given_up += 3
        (said,) = arbiter.report().warnings
        assert said.startswith("3 looks at objects of torch's")
    with impactarbiter.watch(step="manual") as arbiter:
        assert arbiter.report().warnings == ()


def test_nodes_whose_buffers_are_freed_are_no_failures() -> None:
    linear = torch.nn.Linear(4, 3)
    kept = []
    with impactarbiter.watch(step="manual", warmup=1, window=2) as arbiter:
        for _ in range(12):
            loss = linear(torch.ones(2, 4)).square().mean()
            loss.backward()
            kept.append(loss)
            arbiter.step()
        assert arbiter.report().warnings == ()


# -- files that are none, folders that are gone -------------------------------


def test_source_is_read_from_regular_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(name: str) -> object:
        raise AssertionError(f"{name!r} was opened")

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.py").touch()
    os.truncate(tmp_path / "large.py", 1 << 30)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/proc/self", "/dev"])
    monkeypatch.setattr("posix.open", opened)
    for name in (
        *("pipe", "large.py", "zero", "mem", "", "nowhere.py", "a\0b"),
        *("/dev/zero", "/dev/stdin", "/proc/self/mem", "/proc/kmsg", "<x>"),
        *(str(tmp_path / "pipe"), str(tmp_path), "..", "\udce4", "x" * 9999),
    ):
        assert source_lines(name) == [], name
        assert source_line(name, 1) == ""


def test_source_that_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loading(name: str) -> str:
        raise AssertionError("a loader of the program's was run")

    (tmp_path / "beside.py").write_text("one = 1\n\n  two = 2")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert source_lines("beside.py") == ["one = 1\n", "\n", "  two = 2\n"]
    assert source_line("beside.py", 3) == "two = 2"
    assert source_line("beside.py", 4) == source_line("beside.py", 0) == ""
    (tmp_path / "beside.py").unlink()  # what was read stays
    assert source_line("beside.py", 1) == "one = 1"
    cell = (5, None, ["x = 1\n"], "<cell>")
    monkeypatch.setitem(linecache.cache, "<cell>", cell)
    monkeypatch.setitem(linecache.cache, "/dev/zero", cell)
    assert source_line("<cell>", 1) == source_line("/dev/zero", 1) == "x = 1"
    lazy = (partial(loading, "x"),)
    monkeypatch.setitem(linecache.cache, "lazy.py", lazy)
    assert source_lines("lazy.py") == []
    assert linecache.cache["lazy.py"] is lazy
    loader = SimpleNamespace(get_source=loading)
    names = {"__name__": "theirs", "__loader__": loader}
    assert linecache.lazycache("theirs.py", names)
    assert source_lines("theirs.py") == []
    del linecache.cache["theirs.py"]
    module = torch.fx.symbolic_trace(torch.nn.Linear(2, 2))
    file = type(module).forward.__code__.co_filename
    assert any("def forward" in line for line in source_lines(file))


def test_an_expression_that_is_deep(tmp_path: Path) -> None:
    """Nothing of ours is to follow it to its end, once for each part."""
    program = tmp_path / "program.py"
    program.write_text(
        f"""import torch, impactarbiter
def train(kept):
    for _ in range(40):
        weight = torch.ones(300, requires_grad=True)
        kept.append((weight * 2).sum())
        arbiter.step()
        known = None if kept else torch{".deep" * 700}
with impactarbiter.watch(step="manual") as arbiter:
    train([])
report = arbiter.report()
(finding,) = report.findings
assert finding.verdict == "leak" and finding.grown_at.line == 5, finding
print(report.warnings)
"""
    )
    ran = warm.run([str(program)], cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "()\n"), ran


@pytest.mark.parametrize(
    ("first", "encoding"),
    [
        ("#!/bin/sh\n# -*- coding: latin-1 -*-\n", "latin-1"),
        ("# vim: set fileencoding=GBK :\n", "gbk"),
        ("# coding: utf-8-unix\n", "utf-8"),
        ("# -*- coding: iso-latin-1-dos -*-\n", "latin-1"),
        ("# coding: koi8-u\n", "koi8-u"),
        ("\f # coding=euc-jp\r\n\r", "euc-jp"),
        ("x = 1  # coding: latin-1\n", "utf-8"),
        ("x = 1\n# coding: latin-1\n", "utf-8"),
        ("", "utf-8-sig"),
    ],
)
def test_source_in_an_encoding_of_python_s_own(
    first: str, encoding: str, tmp_path: Path
) -> None:
    letters = {"latin-1": "\xe4", "koi8-u": "\u0454"}
    letter = letters.get(encoding, "\u8a71")
    text = f"{first}a = '{letter}\v\x1c'\nb = 2"
    file = tmp_path / "program.py"
    file.write_bytes(text.encode(encoding))
    lines = source_lines(str(file))
    with tokenize.open(str(file)) as stream:
        assert "".join(lines) == stream.read() + "\n"
    assert lines[-2:] == [f"a = '{letter}\v\x1c'\n", "b = 2\n"]
    assert linecache.getlines(str(file)) is lines


def test_source_in_an_encoding_of_the_program_s_is_not_read(
    tmp_path: Path,
) -> None:
    asked: list[str] = []
    search = asked.append
    file = tmp_path / "program.py"
    file.write_text("# coding: theirs\nx = 1\n")
    codecs.register(search)
    try:
        assert source_lines(str(file)) == []
    finally:
        codecs.unregister(search)
    assert asked == []


class Lines(list[str]):
    def __getitem__(self, at: object) -> NoReturn:  # type: ignore[override]
        raise SystemExit(at)

    __iter__ = __len__ = __getitem__  # type: ignore[assignment]


class Cache(dict[str, object]):
    def get(self, *asked: object) -> NoReturn:
        raise SystemExit(asked)

    __setitem__ = get  # type: ignore[assignment]


def test_what_the_program_has_put_into_linecache_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(*args: object, **names: object) -> NoReturn:
        raise SystemExit(args)

    file = str(tmp_path / "program.py")
    Path(file).write_text("x = 1\n")
    read = ["x = 1\n"]
    for entry, lines in (
        ((1, None, Lines(["x"]), file), []),
        ((1, None, ["x", b"y"], file), []),
        ((1, None, None, file), []),
        ((1, None), read),
        ([1, None, ["x"], file], read),
        (None, read),
    ):
        monkeypatch.setitem(linecache.cache, file, entry)
        assert source_lines(file) == lines
    for cache in (Cache(), None):
        monkeypatch.setattr("linecache.cache", cache)
        assert source_lines(file) == read
    monkeypatch.delattr("linecache.cache")
    assert source_lines(file) == read
    monkeypatch.setattr("linecache.cache", {}, raising=False)
    for name in ("getlines", "updatecache", "checkcache", "lazycache"):
        monkeypatch.setattr(f"linecache.{name}", called)
    for name in ("tokenize.open", "os.stat", "builtins.open", "ast.parse"):
        monkeypatch.setattr(name, called)
    monkeypatch.setattr("builtins.compile", called)
    seen, text = source_lines(file), read_source(file)
    tree = tree_of("x = 1")
    monkeypatch.undo()
    assert seen == read
    assert text == ("x = 1\n", "utf-8")
    assert ast.unparse(tree) == "x = 1"


def test_source_of_an_archive_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("inside.py", "x = 1\n")
    loader = zipimport.zipimporter(str(archive))
    file = str(archive / "inside.py")
    names = {"__name__": "inside", "__loader__": loader}
    monkeypatch.setattr("linecache.cache", {})
    assert linecache.lazycache(file, names)
    assert source_lines(file) == ["x = 1\n"]
    linecache.cache.clear()
    assert linecache.lazycache(file, names)
    archive.unlink()
    assert source_lines(file) == []


def test_what_the_program_counts_the_calls_of_is_not_called(
    tmp_path: Path,
) -> None:
    """As tests do, with a file that is not there."""
    program = tmp_path / "program.py"
    program.write_text(
        """import torch
from unittest import mock
def train(kept):
    rate = float(open("rate.txt").read())
    for _ in range(200):
        weight = torch.ones(300, requires_grad=True)
        loss = (weight * rate).sum()
        loss.backward()
        kept.append(loss)
weight = torch.nn.Parameter(torch.ones(1))
torch.optim.SGD([weight]).zero_grad()
losses = []
with mock.patch("builtins.open", mock.mock_open(read_data="0.1")) as opened:
    with mock.patch("os.stat") as asked:
        train(losses)
print(opened.call_count, asked.call_count)
"""
    )
    ran = warm.run(["-m", "impactarbiter", "run", str(program)], cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "1 0\n"), ran
    assert "loss = (weight * rate).sum()" in ran.stderr, ran.stderr


def test_the_source_s_own_warnings_are_not_said_again() -> None:
    text = "def step():\n    return '\\d'\n"
    for action in ("always", "error"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            filters = list(warnings.filters)
            tree = tree_of(text)
            assert warnings.filters == filters
        assert isinstance(tree.body[0], ast.FunctionDef) and not said
    with pytest.raises(SyntaxError):
        tree_of("def")


def test_code_that_came_through_a_pipe(tmp_path: Path) -> None:
    """Its name is still there, and nobody writes into it any more."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "program.py").write_text(
        """if True:
        import sys, torch
        text = "def keep(kept):\\n    kept.append(torch.ones(9))\\n"
        kept = {name: [] for name in ("pipe", "/dev/stdin", "/dev/zero", ".")}
        steps = []
        for name in kept:
            names = {"torch": torch}
            exec(compile(text, name, "exec"), names)
            steps.append((names["keep"], kept[name]))
        model = torch.nn.Linear(3, 3)
        for _ in range(40):
            for step, of in steps:
                step(of)
            model(torch.ones(2, 3)).sum().backward()
        print(sys.stdin.read())
        """
    )
    done = warm.run(
        ["-m", "impactarbiter", "run", "program.py"],
        cwd=tmp_path,
        text="what it was to read",
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "what it was to read\n")
    assert "pipe:2 in keep" in done.stderr and "warning" not in done.stderr


@pytest.mark.parametrize("early", [True, False])
def test_the_working_folder_is_gone(tmp_path: Path, early: bool) -> None:
    gone = "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"
    (tmp_path / "program.py").write_text(
        f"""if True:
        import os, sys, torch, impactarbiter
        sys.path.append("lib/site-packages")
        {gone if early else ""}
        arbiter = impactarbiter.watch(step="manual")
        model = torch.nn.Linear(3, 3)
        kept = []
        for _ in range(40):
            loss = model(torch.ones(2, 3)).sum()
            loss.backward()
            kept.append(loss)
            arbiter.step()
        {"" if early else gone}
        report = arbiter.stop()
        (finding,) = report.findings
        assert finding.patch, finding
        assert not report.warnings, report.warnings
        assert __file__ in finding.grown_at.place
        report.to_sarif(sys.argv[1])
        """
    )
    file = str(tmp_path / "program.py")
    done = warm.run([file, str(tmp_path / "x.sarif")], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"file://{file}" in (tmp_path / "x.sarif").read_text()


def test_a_patch_that_fails_costs_no_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_given: object) -> str:
        raise LookupError("no such thing")

    monkeypatch.setattr("impactarbiter.judging.patches.patch.diff", failing)
    model = torch.nn.Linear(3, 3)
    kept = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(40):
            loss = model(torch.ones(2, 3)).sum()
            loss.backward()
            kept.append(loss)
            arbiter.step()
        report = arbiter.report()
    (finding,) = report.findings
    assert finding.grown_at is not None and finding.patch is None


def test_a_large_file_of_generated_source(tmp_path: Path) -> None:
    """It is not parsed, and its line is shown all the same."""
    data = "".join(f"DATA[{n}] = [{n}, {n}, {n}]\n" for n in range(20_000))
    (tmp_path / "program.py").write_text(
        f"""import ast, sys, torch
DATA = {{}}
{data}
parse = ast.parse
def refused(text, *given, **others):
    assert len(text) < 100_000, "a large file is parsed"
    return parse(text, *given, **others)
ast.parse = refused
model = torch.nn.Linear(3, 3)
kept = []
for _ in range(40):
    loss = model(torch.ones(2, 3)).sum()
    loss.backward()
    kept.append(loss)
"""
    )
    done = warm.run(
        ["-m", "impactarbiter", "run", "program.py"], cwd=tmp_path
    )
    assert done.returncode == 0
    assert "kept.append(loss)" in done.stderr
    assert "the file is too large to be read" in done.stderr
    assert "warning" not in done.stderr
