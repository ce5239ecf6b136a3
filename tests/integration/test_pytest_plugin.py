"""The pytest plugin, as users run it: pytest on files of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
import warm


@dataclass(frozen=True)
class Run:
    """What pytest said: outcome and message per test, and its output."""

    code: int
    output: str
    outcomes: dict[str, str]
    messages: dict[str, str]


def run(
    folder: Path, text: str, *args: str, fresh: bool = False, **files: str
) -> Run:
    """``fresh``: in an interpreter that has not imported torch."""
    (folder / "test_it.py").write_text(textwrap.dedent(text))
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(textwrap.dedent(content))
    command = ["-m", "pytest", "-p", "no:cacheprovider"]
    command += ["--color=no", "--junitxml=out.xml", *args]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    if fresh:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
        )
    else:
        done = warm.run(
            command, cwd=folder, env=env, safe_path=False, timeout=240
        )
    output = done.stdout + done.stderr
    outcomes, messages = {}, {}
    if (folder / "out.xml").exists():
        tree = ElementTree.parse(folder / "out.xml")
        for case in tree.iter("testcase"):
            found = [
                e for e in case if e.tag in ("failure", "error", "skipped")
            ]
            name = str(case.get("name"))
            outcomes[name] = found[0].tag if found else "passed"
            if found:
                messages[name] = f"{found[0].get('message')}\n{found[0].text}"
    return Run(done.returncode, output, outcomes, messages)


MARKED = """
    import unittest

    import pytest
    import torch
    from torch import nn

    history, cache, seen, runs = [], {}, [], []

    @pytest.mark.no_tensor_leaks
    def test_graph():
        loss = nn.Linear(16, 16)(torch.ones(4, 16)).sum()
        history.append(loss)

    @pytest.mark.no_tensor_leaks
    def test_healthy():
        runs.append(1)
        nn.Linear(16, 16)(torch.ones(4, 16)).sum().backward()
        seen[:] = [torch.ones(10)]
        with pytest.raises(ValueError):
            local = torch.ones(1000)
            raise ValueError(local)

    def test_runs():
        assert len(runs) == 6  # once as ever, once to warm up, 4 times

    @pytest.mark.no_tensor_leaks("1 MiB", warmup=0)
    @pytest.mark.parametrize("size", [100, 1 << 20])
    def test_allowance(size):
        cache[len(cache)] = torch.ones(size)

    @pytest.mark.no_tensor_leaks(allow="test_it.cache*")
    def test_allowed():
        cache[len(cache)] = torch.ones(10)

    class TestUnit(unittest.TestCase):
        kept, done = [], []

        def setUp(self):
            self.base = torch.ones(100)

        @pytest.mark.no_tensor_leaks
        def test_unit_leaks(self):
            self.kept.append(self.base + 1)

        @pytest.mark.no_tensor_leaks
        def test_unit_healthy(self):
            self.assertEqual(float((self.base + 1)[0]), 2)

        @pytest.mark.no_tensor_leaks
        def test_unit_once(self):
            self.done.append(1)
            self.assertEqual(len(self.done), 1)

    @pytest.fixture
    def fresh():
        value = []
        yield value

    @pytest.fixture(scope="module")
    def wide():
        yield []
        history.append("wide")
        print("torn down")

    class TestPlain:
        @pytest.mark.no_tensor_leaks
        def test_own_fixture(self, fresh):
            assert not fresh and not hasattr(self, "mine")
            self.mine = torch.ones(10)
            fresh.append(self.mine)

        @pytest.mark.no_tensor_leaks
        def test_wide_fixture(self, wide):
            wide.append(torch.ones(10))

        def test_wide_is_still_there(self, wide):
            assert len(wide) == 6 and "wide" not in history

    @pytest.mark.no_tensor_leaks
    def test_fails_anyway():
        assert torch.ones(1).item() == 2

    @pytest.mark.no_tensor_leaks
    def test_skips():
        pytest.skip("not today")

    @pytest.mark.xfail(strict=True)
    @pytest.mark.no_tensor_leaks
    def test_fails_as_expected():
        assert not torch.ones(1).item()

    @pytest.mark.no_tensor_leaks(max_byte=3)
    def test_typo():
        pass

    @pytest.mark.no_tensor_leaks
    def test_fixtures_of_pytest(caplog, capsys, tmp_path, recwarn):
        import logging, warnings
        logging.getLogger().warning("noted")
        assert len(caplog.records) == 1
        print("said")
        assert capsys.readouterr().out == "said\\n"
        (tmp_path / "new").mkdir()
        warnings.warn("twice")
        assert len(recwarn) == 1

    @pytest.fixture(scope="module")
    def broken(wide):
        yield
        print("in vain")
        raise RuntimeError("cannot be torn down")

    @pytest.mark.no_tensor_leaks
    def test_torn_down_at_the_end(broken):
        print("called")
"""


def test_marked_tests(tmp_path: Path) -> None:
    done = run(tmp_path, MARKED)
    assert done.outcomes == {
        "test_graph": "failure",
        "test_healthy": "passed",
        "test_runs": "passed",
        "test_allowance[100]": "passed",
        "test_allowance[1048576]": "failure",
        "test_allowed": "passed",
        "test_unit_leaks": "failure",
        "test_unit_healthy": "passed",
        "test_unit_once": "failure",
        "test_own_fixture": "passed",
        "test_wide_fixture": "failure",
        "test_wide_is_still_there": "passed",
        "test_fails_anyway": "failure",
        "test_skips": "skipped",
        "test_fails_as_expected": "skipped",
        "test_typo": "error",
        "test_fixtures_of_pytest": "passed",
        "test_torn_down_at_the_end": "error",
    }
    assert done.code == 1
    graph = done.messages["test_graph"].splitlines()
    assert graph[0].startswith("Failed: tensor leak: test_it.history keeps"), (
        graph
    )
    text = done.messages["test_graph"]
    for part in (
        "  kept by    test_it.history[5]\n",
        "  holder     test_it.history: list of 6, 5 of them since the watch\n",
        "grown maybe ",
        "history.append(loss)\n",
        "  do         run the forward under `torch.no_grad()`",
        f"{tmp_path}/test_it.py:12: tensor leak",
    ):
        assert part in text
    assert "allowed are 1.0 MiB" in done.messages["test_allowance[1048576]"]
    assert "test_it.TestUnit.kept" in done.messages["test_unit_leaks"]
    assert "2 != 1" in done.messages["test_unit_once"]
    assert "this is run 2" in done.output
    assert "<fixture wide>" in done.messages["test_wide_fixture"]
    assert "assert 1.0 == 2" in done.messages["test_fails_anyway"]
    broken = done.messages["test_torn_down_at_the_end"]
    assert "cannot be torn down" in broken
    assert done.output.count("in vain") == 2  # the line and what it printed
    assert "torn down at" not in done.output.partition("= ERRORS =")[0]
    assert "has no 'max_byte'" in done.messages["test_typo"]
    assert "test_graph - Failed: tensor leak: test_it.hist" in done.output


HANDLE = """
    import impactarbiter
    import torch
    from torch import nn

    def train(tensor_leaks, kept):
        for _ in range(12):
            out = nn.Linear(8, 8)(torch.ones(4, 8))
            if kept is not None:
                kept.append(out.detach())
            tensor_leaks.step()

    def test_leaks(tensor_leaks):
        kept = []
        train(tensor_leaks, kept)

    def test_healthy(tensor_leaks):
        train(tensor_leaks, None)
        assert tensor_leaks.report().steps == 12

    def test_hardly_a_step(tensor_leaks):
        tensor_leaks.step()

    def test_is_watched_no_more():
        impactarbiter.watch().stop()
"""


def test_a_test_that_counts_its_own_steps(tmp_path: Path) -> None:
    done = run(tmp_path, HANDLE, fresh=True)
    assert done.outcomes == {
        "test_leaks": "failure",
        "test_healthy": "passed",
        "test_hardly_a_step": "passed",
        "test_is_watched_no_more": "passed",
    }
    assert "test_leaks().kept" in done.messages["test_leaks"]
    assert "tensor_leaks.step() ended 1 step, 5 are needed" in done.output


UNMARKED = """
    import pytest

    kept, runs = [], {"once": 0, "exempt": 0}

    def test_leaks():
        import torch
        kept.append(torch.ones(1000))

    @pytest.mark.parametrize("size", range(3))
    def test_healthy(size):
        import torch
        torch.ones(size)

    def test_works_only_once():
        import torch
        runs["once"] += 1
        assert runs["once"] == 1

    @pytest.mark.allow_tensor_leaks("a registry")
    def test_exempt():
        import torch
        runs["exempt"] += 1
        kept.append(torch.ones(1000))

    def test_exempt_ran_once():
        assert runs["exempt"] <= 1

    def test_watches_itself():
        import impactarbiter
        with impactarbiter.watch():
            pass

    def test_leaks_a_little():
        import torch
        kept.append(torch.ones(1))
"""
OUTCOMES = {
    "test_leaks": "failure",
    "test_healthy[0]": "passed",
    "test_healthy[1]": "passed",
    "test_healthy[2]": "passed",
    "test_works_only_once": "passed",
    "test_exempt": "passed",
    "test_exempt_ran_once": "passed",
    "test_watches_itself": "passed",
    "test_leaks_a_little": "failure",
}


def test_all_tests_with_xdist(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    done = run(
        tmp_path, UNMARKED, "--tensor-leaks", "-n", "2", "-v", fresh=True
    )
    assert done.outcomes == OUTCOMES, done.output
    assert "test_it.kept keeps 3.9 KiB" in done.messages["test_leaks"]
    for name in ("works_only_once", "watches_itself"):
        assert f"test_{name}: was not checked for tensor leaks" in done.output


def test_options_of_the_ini_file(tmp_path: Path) -> None:
    ini = "[pytest]\ntensor_leaks = true\ntensor_leaks_max_bytes = 1KiB\n"
    done = run(tmp_path, UNMARKED, pytest_ini=ini)
    assert done.outcomes == {**OUTCOMES, "test_leaks_a_little": "passed"}
    assert "at most 1024 B a run" in done.output
    # The command line goes before the file.
    done = run(
        tmp_path,
        UNMARKED,
        *("--tensor-leaks-max-bytes", "1MiB", "-k", "leaks"),
        pytest_ini=ini,
    )
    assert set(done.outcomes.values()) == {"passed"}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--tensor-leaks-window=1", "window: '1' is not possible"),
        ("--tensor-leaks-max-bytes=lots", "max_bytes: 'lots' is no"),
    ],
)
def test_a_wrong_option(tmp_path: Path, option: str, said: str) -> None:
    done = run(tmp_path, "def test_one(): pass", option, fresh=True)
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: tensor_leaks: {said}" in done.output


def test_without_torch(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import pytest, sys

        def test_light():
            assert sys.modules.get("torch") is None
            assert "numpy" not in sys.modules

        @pytest.mark.no_tensor_leaks
        def test_marked():
            raise AssertionError("never run")

        def test_handle(tensor_leaks):
            raise AssertionError("never run")
        """,
        "--tensor-leaks",
        fresh=True,
        conftest_py="import sys; sys.modules['torch'] = None",
    )
    assert done.outcomes == {
        "test_light": "passed",
        "test_marked": "skipped",
        "test_handle": "skipped",
    }
    said = "none of torch, JAX and TensorFlow is installed"
    assert said in done.messages["test_marked"]


def test_while_something_else_watches(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import pytest, torch

        kept = []

        @pytest.mark.no_tensor_leaks
        def test_marked():
            kept.append(torch.ones(100))

        @pytest.mark.no_tensor_leaks
        def test_that_fails():
            assert not kept

        def test_unmarked():
            kept.append(torch.ones(100))

        def test_handle(tensor_leaks):
            raise AssertionError("never run")
        """,
        "--tensor-leaks",
        conftest_py="""
        import impactarbiter

        arbiter = impactarbiter.watch()

        def pytest_unconfigure():
            arbiter.stop()
        """,
    )
    assert done.outcomes == {
        "test_marked": "passed",
        "test_that_fails": "failure",
        "test_unmarked": "passed",
        "test_handle": "skipped",
    }
    said = "impactarbiter is watching already"
    assert f"not checked for tensor leaks: {said}" in done.output
    assert said in done.messages["test_handle"]


SUBTESTS = """
    import unittest
    import torch

    kept = []

    def test_parts(subtests):
        for i in range(3):
            with subtests.test(i=i):
                kept.append(torch.ones(64))

    def test_bad_part(subtests):
        for i in range(3):
            with subtests.test(i=i):
                assert torch.ones(1).item() * i != 1

    class Case(unittest.TestCase):
        def test_bad_case(self):
            for i in range(3):
                with self.subTest(i=i):
                    self.assertNotEqual(torch.ones(1).item() * i, 1)

    runs = []

    def test_a_later_part(subtests):
        runs.append(1)
        with subtests.test():
            assert torch.ones(1).item() and len(runs) < 3
"""


def cases(folder: Path) -> int:
    suite = next(ElementTree.parse(folder / "out.xml").iter("testsuite"))
    return int(suite.get("tests", 0))


def test_subtests_are_reported_once(tmp_path: Path) -> None:
    without = run(tmp_path, SUBTESTS)
    before = cases(tmp_path)
    watched = run(tmp_path, SUBTESTS, "--tensor-leaks")
    assert cases(tmp_path) == before
    assert "test_it.kept keeps" in watched.messages["test_parts"]
    del watched.outcomes["test_parts"], without.outcomes["test_parts"]
    assert watched.outcomes == without.outcomes


LATER = """
    import pytest
    import torch

    runs = []

    @pytest.mark.no_tensor_leaks
    def test_a_later_part(subtests):
        runs.append(1)
        with subtests.test():
            assert torch.ones(1).item() and len(runs) < 3
"""


def test_a_subtest_of_a_later_run_that_fails(tmp_path: Path) -> None:
    done = run(tmp_path, LATER)
    assert done.code == 1
    assert "this is run 3" in done.output


RANDOM = """
    import random
    import numpy, torch

    def draw():
        return random.random(), numpy.random.rand(), torch.rand(1).item()

    def test_first():
        draw()

    def test_second():
        print("drew", *draw())
"""


def test_the_next_test_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    seeds = """
        import random
        import numpy, torch
        random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    """
    drawn = []
    for args in ([], ["--tensor-leaks"]):
        output = run(tmp_path, RANDOM, "-s", *args, conftest_py=seeds).output
        drawn.append(re.findall("drew .*", output)[0])
    assert drawn[0] == drawn[1]
