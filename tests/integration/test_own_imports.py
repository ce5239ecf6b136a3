"""NumPy and torch are imported by the program alone, with the settings that it
has made before, and are watched from then on."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

WATCHED = [sys.executable, "-m", "impactarbiter", "run"]


def run(
    folder: Path, text: str, *options: str, watched: bool = True
) -> tuple[str, dict[str, Any]]:
    """What the program prints, and its report."""
    program = folder / "prog.py"
    program.write_text(textwrap.dedent(text))
    command = [sys.executable]
    if watched:
        command = [*WATCHED, "-q", "--json", "report.json", *options]
    done = subprocess.run(
        [*command, str(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    written = folder / "report.json"
    return done.stdout, json.loads(written.read_text()) if watched else {}


def test_a_program_without_them_imports_neither(tmp_path: Path) -> None:
    out, report = run(
        tmp_path,
        """
        import sys
        print([name for name in ("numpy", "torch") if name in sys.modules])
        """,
    )
    assert out == "[]\n"
    assert report["findings"] == []


SETTINGS = """
    import os
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    import numpy
    print(len(os.listdir("/proc/self/task")))
    import torch
    print(torch.get_num_threads())
"""


def test_what_the_program_sets_before_holds(tmp_path: Path) -> None:
    plain, _ = run(tmp_path, SETTINGS, watched=False)
    ours, _ = run(tmp_path, SETTINGS)
    assert ours == plain == "1\n1\n"


TORCH = """
    import threading
    {importing}
    kept = []
    weight = torch.nn.Parameter(torch.ones(8))
    optimizer = torch.optim.SGD([weight])
    for _ in range(60):
        loss = weight.sum()
        loss.backward()
        optimizer.step()
        kept.append(loss)
"""


@pytest.mark.parametrize(
    "importing",
    [
        "import torch",
        "def load():\n"
        "        global torch\n"
        "        import torch\n"
        "    thread = threading.Thread(target=load)\n"
        "    thread.start()\n"
        "    thread.join()",
        "import numpy, torch",
    ],
    ids=["plainly", "by a thread", "after NumPy"],
)
def test_torch_is_watched_once_it_has_come(
    tmp_path: Path, importing: str
) -> None:
    _, report = run(tmp_path, TORCH.format(importing=importing))
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] == "__main__.kept"
    assert (report["steps"], report["step_kind"]) == (60, "optimizer")
    assert report["warnings"] == []


ARRAYS = """
    import numpy
    kept = []
    for _ in range(2000):
        kept.append(numpy.ones(500) @ numpy.ones((500, 500)))
"""


def test_arrays_are_watched_without_torch(tmp_path: Path) -> None:
    out, report = run(tmp_path, ARRAYS + "    import sys\n"
                      "    print('torch' in sys.modules)\n")
    assert out == "False\n"
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] == "__main__.kept"


def test_arrays_are_left_out_where_they_are_not_wanted(
    tmp_path: Path,
) -> None:
    _, report = run(tmp_path, ARRAYS, "--no-numpy")
    assert (report["findings"], report["live_bytes"]) == ([], 0)


def test_an_import_that_fails_at_first(tmp_path: Path) -> None:
    """The next one is the one that counts."""
    (tmp_path / "torch.py").write_text("raise ImportError('not this one')\n")
    out, report = run(
        tmp_path,
        """
        import sys
        try:
            import torch
        except ImportError as error:
            print(error)
        del sys.path[0]
        """
        + textwrap.indent(TORCH.format(importing="import torch"), " " * 4),
    )
    assert out == "not this one\n"
    assert (report["steps"], len(report["findings"])) == (60, 1)


def test_another_torch_than_ours_is_told(tmp_path: Path) -> None:
    """That it is not watched; the program goes on."""
    (tmp_path / "torch.py").write_text("__version__ = '1.0.0'\n")
    out, report = run(tmp_path, "import torch; print(torch.__version__)")
    assert out == "1.0.0\n"
    (warning,) = report["warnings"]
    assert warning.startswith(
        "torch is not watched: NotBuiltError: impactarbiter was built for"
    )


def test_hooks_go_though_torch_came_later(tmp_path: Path) -> None:
    out, _ = run(
        tmp_path,
        """
        import sys
        import impactarbiter
        from impactarbiter.base import imports
        from impactarbiter.watching import arbiter
        arbiter.current().stop()
        print([one for one in sys.meta_path if one is imports._Finder])
        with impactarbiter.watch() as watch:
            import torch
            from impactarbiter import _torch
            print(any(_torch.installed().values()))
        print(any(_torch.installed().values()), watch.report().warnings)
        optimizer = sys.modules["torch.optim.optimizer"]
        print(len(optimizer._global_optimizer_post_hooks))
        """,
    )
    assert out == "[]\nTrue\nFalse ()\n0\n"


def test_a_thread_that_imports_torch_is_waited_for(tmp_path: Path) -> None:
    """A watch that begins meanwhile has its hooks."""
    out, _ = run(
        tmp_path,
        """
        import sys, threading, time
        import impactarbiter
        from impactarbiter.watching import arbiter
        arbiter.current().stop()
        thread = threading.Thread(target=__import__, args=("torch",))
        thread.start()
        while "torch" not in sys.modules:
            time.sleep(0.001)
        with impactarbiter.watch() as watch:
            from impactarbiter.core import hooks
            print(hooks.in_place()["numpy"], all(hooks.in_place().values()))
        thread.join()
        """,
    )
    assert out == "True True\n"
