"""NumPy and torch are imported by the program alone, with the settings that it
has made before, and are watched from then on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Sequence
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
        print({"torch", "numpy"}.intersection(imports._waiting))
        with impactarbiter.watch() as watch:
            import torch
            from impactarbiter import _torch
            print(any(_torch.installed().values()))
        print(any(_torch.installed().values()), watch.report().warnings)
        optimizer = sys.modules["torch.optim.optimizer"]
        print(len(optimizer._global_optimizer_post_hooks))
        """,
    )
    assert out == "set()\nTrue\nFalse ()\n0\n"


def test_a_thread_that_imports_torch(tmp_path: Path) -> None:
    """A watch that begins meanwhile has its hooks once that is over."""
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
            thread.join()
            from impactarbiter import _torch
            from impactarbiter.core import hooks
            print(hooks.in_place()["numpy"], all(_torch.installed().values()))
        """,
    )
    assert out == "True True\n"


# -- how the program imports is its own --------------------------------------

FINDERS = {
    "one that counts": """
        import sys
        class Counts:
            def find_spec(self, name, path, target=None):
                if name in ("numpy", "torch", "jax"):
                    print("asked for", name)
        sys.meta_path.insert(0, Counts())
        import numpy, torch
    """,
    "one that asks all others": """
        import sys
        class Asks:
            def find_spec(self, name, path, target=None):
                for other in sys.meta_path:
                    if name == "torch" and other is not self:
                        spec = other.find_spec(name, path, target)
                        if spec is not None:
                            print("found", name)
                            return spec
        sys.meta_path.insert(0, Asks())
        import torch
    """,
    "one that wraps loaders": """
        import importlib.util, sys
        class Wraps:
            def __init__(self, loader):
                self.loader, self.exec_module = loader, self.execute
            def execute(self, module):
                self.loader.exec_module(module)
                print("after", module.__name__)
            def __getattr__(self, name):
                return getattr(self.loader, name)
        class Finds:
            busy = set()
            def find_spec(self, name, path, target=None):
                if name != "numpy" or name in self.busy:
                    return None
                self.busy.add(name)
                spec = importlib.util.find_spec(name)
                spec.loader = Wraps(spec.loader)
                return spec
        sys.meta_path.insert(1, Finds())
        import numpy
        print(sorted(vars(numpy.__spec__.loader)))
    """,
    "a loader of several": """
        import importlib.util, sys, zipfile
        with zipfile.ZipFile("all.zip", "w") as file:
            file.writestr("jax.py", "print('jax runs')")
            file.writestr("helper.py", "print('helper runs')")
        sys.path.insert(0, "all.zip")
        print(importlib.util.find_spec("jax") is not None)
        print(importlib.util.find_spec("jax") is not None)
        import helper
        print("jax" in sys.modules)
        import jax
    """,
    "its warnings and tracebacks": """
        import sys, traceback, warnings
        with open("jax.py", "w") as file:
            file.write("import warnings; warnings.warn('old', stacklevel=2)\\n"
                       "raise RuntimeError('no device')")
        sys.path.insert(0, ".")
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    import jax
                except RuntimeError as error:
                    lines = traceback.extract_tb(error.__traceback__)
                    print([line.name for line in lines])
            print([one.filename == __file__ for one in caught])
    """,
}


@pytest.mark.parametrize("text", FINDERS.values(), ids=FINDERS)
def test_how_a_program_imports_is_as_it_was(
    tmp_path: Path, text: str
) -> None:
    plain, _ = run(tmp_path, text, watched=False)
    out, _ = run(tmp_path, text)
    assert out == plain


def check_begins(
    command: Sequence[object],
    folder: Path,
    printed: str,
    environment: dict[str, str] | None = None,
) -> None:
    """The program that the command runs has what it asks for."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == printed, done.stderr
    assert "no step was seen" in done.stderr
    assert "Traceback" not in done.stderr


LIBRARYS = ("secrets", "copy", "token", "argparse", "json", "tempfile")


@pytest.mark.parametrize("name", LIBRARYS)
def test_a_module_of_its_own_comes_before_the_librarys(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("KEY = 'abc'\n")
    (tmp_path / "prog.py").write_text(
        f"import {name}; print({name}.KEY); import sys, atexit\n"
        f"atexit.register(lambda: print(sys.modules[{name!r}].KEY))"
    )
    # -m would have us find them, too.
    command = Path(sys.executable).with_name("impactarbiter")
    check_begins([command, "run", "prog.py"], tmp_path, "abc\nabc\n")


SHOWS = "import token, json; print(token.KEY, json.KEY)\n"


def test_links_that_lead_nowhere_hide_no_module_of_its_own(
    tmp_path: Path,
) -> None:
    for number in range(20):
        (tmp_path / f"l{number}").symlink_to(f"l{number}")
    (tmp_path / "token.py").write_text("KEY = 'abc'\n")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text("KEY = 'abc'\n")
    (tmp_path / "copy").mkdir()  # no package: it comes after the library
    text = SHOWS + "import copy; print(copy.copy(1))\n"
    (tmp_path / "prog.py").write_text(text)
    command = Path(sys.executable).with_name("impactarbiter")
    check_begins([command, "run", "prog.py"], tmp_path, "abc abc\n1\n")


def test_a_module_of_an_archive_comes_before_the_librarys(
    tmp_path: Path,
) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SHOWS)
        archive.writestr("token.py", "KEY = 'abc'\n")
        archive.writestr("json/__init__.py", "KEY = 'abc'\n")
    command = Path(sys.executable).with_name("impactarbiter")
    check_begins([command, "run", "app.zip"], tmp_path, "abc abc\n")


def test_a_module_that_it_writes_at_once_is_found(tmp_path: Path) -> None:
    """As an import of ours has not read the folder before."""
    (tmp_path / "prog.py").write_text(
        "import sys; print(sys.path[0] in sys.path_importer_cache)\n"
    )
    command = Path(sys.executable).with_name("impactarbiter")
    check_begins([command, "run", "prog.py"], tmp_path, "False\n")


def test_what_we_import_before_the_program_comes_with_torch() -> None:
    """A module of the program's by such a name would fail without us."""
    shown = (
        "import sys; "
        "print(*sys.stdlib_module_names.intersection(sys.modules))"
    )
    plain = "import sys; sys.modules['dill'] = None; import torch; " + shown
    ours = (
        "import impactarbiter.commands.run as run, impactarbiter; "
        "impactarbiter.watch(); from impactarbiter.watching import armed; "
        "armed.arm({}); " + shown
    )
    torchs, before = (
        set(subprocess.check_output([sys.executable, "-Pc", text]).split())
        for text in (plain, ours)
    )
    assert before - torchs == set()


@pytest.mark.parametrize("name", ["hmac", "secrets", "shlex"])
@pytest.mark.parametrize("where", ["the folder", "PYTHONPATH"])
def test_a_module_of_its_own_is_not_taken_for_the_librarys(
    tmp_path: Path, name: str, where: str
) -> None:
    """Where ours are found after the program's own."""
    folder = tmp_path / "its"
    folder.mkdir()
    (folder / f"{name}.py").write_text("KEY = 'abc'\n")
    (tmp_path / "prog.py").write_text(f"import {name}; print({name}.KEY)\n")
    (folder / "prog.py").write_text(f"import {name}; print({name}.KEY)\n")
    given = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    command, cwd = WATCHED, folder
    if where == "PYTHONPATH":
        given["PYTHONPATH"], cwd = str(folder), tmp_path
        command = [str(Path(sys.executable).with_name("impactarbiter")), "run"]
    check_begins([*command, "prog.py"], cwd, "abc\n", given)


def test_torch_is_not_imported_once_more_at_the_end(tmp_path: Path) -> None:
    """A second run of its code in one process ends that."""
    text = TORCH.format(importing="import torch") + """
    import sys
    for name in [*sys.modules]:
        if name.partition(".")[0] == "torch":
            del sys.modules[name]
    """
    _, report = run(tmp_path, text)
    assert (report["steps"], len(report["findings"])) == (60, 1)


STUBS = {
    "an object": """
    import sys
    class Odd:
        def __getattr__(self, name):
            print("asked for", name)
            raise RuntimeError(name)
    sys.modules["torch"] = sys.modules["jax"] = Odd()
    """,
    "a module": """
    import sys, types
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["jax"] = types.ModuleType("jax")
    """,
}


@pytest.mark.parametrize("kind", STUBS)
def test_a_stub_of_torch_is_none(tmp_path: Path, kind: str) -> None:
    """Nothing of it runs, and arrays are watched."""
    out, report = run(tmp_path, STUBS[kind] + ARRAYS)
    assert out == ""
    (finding,) = report["findings"]
    assert finding["holder"]["expression"] == "__main__.kept"
    assert report["warnings"] == []


def test_torch_may_come_after_a_stub(tmp_path: Path) -> None:
    _, report = run(
        tmp_path,
        STUBS["a module"]
        + "import colorsys\n    del sys.modules['torch']\n"
        + TORCH.format(importing="import torch"),
    )
    assert (report["steps"], len(report["findings"])) == (60, 1)


def test_a_question_and_a_watch_without_torch_in_its_place(
    tmp_path: Path,
) -> None:
    """What was bound once is what is hooked."""
    out, _ = run(
        tmp_path,
        """
        import sys
        import torch
        import impactarbiter
        print(impactarbiter.retained_bytes(torch.ones(1000)))
        for name in [*sys.modules]:
            if name.partition(".")[0] == "torch":
                del sys.modules[name]
        from impactarbiter import _torch
        with impactarbiter.watch():
            print(all(_torch.installed().values()))
        """,
        watched=False,
    )
    assert out == "4000\nTrue\n"


def test_what_is_loaded_lazily_is_not_loaded_by_a_watch(
    tmp_path: Path,
) -> None:
    out, _ = run(
        tmp_path,
        """
        import importlib.util, sys
        def lazy(name):
            spec = importlib.util.find_spec(name)
            spec.loader = importlib.util.LazyLoader(spec.loader)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
        torch, numpy = lazy("torch"), lazy("numpy")
        import impactarbiter
        with impactarbiter.watch():
            print("torch._C" in sys.modules, "numpy._core" in sys.modules)
        print(len(torch.ones(3)))
        """,
        watched=False,
    )
    assert out == "False False\n3\n"


@pytest.mark.parametrize("at", ["torch._C", "torch.nn", "torch.optim"])
def test_a_watch_that_begins_in_the_middle_of_an_import(
    tmp_path: Path, at: str
) -> None:
    """The import is not gone into; hooks are put in where it ends."""
    out, _ = run(
        tmp_path,
        f"""
        import sys
        import impactarbiter
        watches = []
        class Begins:
            def find_spec(self, name, path, target=None):
                if name == {at!r} and not watches:
                    watches.append(impactarbiter.watch())
        sys.meta_path.insert(0, Begins())
        import torch
        from impactarbiter import _torch
        print(all(_torch.installed().values()))
        watches[0].stop()
        """,
        watched=False,
    )
    assert out == "True\n"


def test_a_watch_waits_for_no_import(tmp_path: Path) -> None:
    """The thread that imports may need what this one has."""
    (tmp_path / "jax.py").write_text(
        "import builtins\nwith builtins.LOCK: pass\n"
    )
    out, _ = run(
        tmp_path,
        """
        import builtins, sys, threading, time
        import impactarbiter
        builtins.LOCK = threading.Lock()
        sys.path.insert(0, ".")
        with builtins.LOCK:
            thread = threading.Thread(target=__import__, args=("jax",))
            thread.start()
            while "jax" not in sys.modules:
                time.sleep(0.001)
            watch = impactarbiter.watch()
        thread.join()
        watch.stop()
        print("over")
        """,
        watched=False,
    )
    assert out == "over\n"


def test_the_end_waits_for_no_import(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(1000)\n")
    out, _ = run(
        tmp_path,
        """
        import sys, threading, time
        thread = threading.Thread(
            target=__import__, args=("torch",), daemon=True)
        thread.start()
        while "torch" not in sys.modules:
            time.sleep(0.001)
        print("over")
        """,
    )
    assert out == "over\n"


def test_a_handler_that_raises_while_hooks_are_put_in(
    tmp_path: Path,
) -> None:
    """A time limit: the import fails by it, as it would without us."""
    out, _ = run(
        tmp_path,
        """
        import os, signal, sys
        class Timeout(Exception):
            pass
        def limit(*_):
            raise Timeout
        signal.signal(signal.SIGALRM, limit)
        def audit(event, arguments):
            if event == "open" and "built.json" in str(arguments[0]):
                os.kill(os.getpid(), signal.SIGALRM)
        sys.addaudithook(audit)
        try:
            import torch
        except Timeout:
            print("over time")
        """,
    )
    assert out == "over time\n"


def test_a_time_limit_at_any_moment_of_that(tmp_path: Path) -> None:
    """Also before handlers are made to wait."""
    out, _ = run(
        tmp_path,
        """
        import os, signal, sys
        class Timeout(Exception):
            pass
        def limit(*_):
            raise Timeout("after", 1, "s")
        signal.signal(signal.SIGALRM, limit)
        real = signal.valid_signals
        def valid_signals():
            if "colorsys" in sys.modules:
                signal.valid_signals = real
                os.kill(os.getpid(), signal.SIGALRM)
            return real()
        signal.valid_signals = valid_signals
        with open("jax.py", "w") as file:
            file.write("import colorsys")
        sys.path.insert(0, ".")
        try:
            import jax
            for _ in range(1000):
                pass
        except Timeout as error:
            print(error.args)
        """,
    )
    assert out == "('after', 1, 's')\n"


def test_pytest_runs_where_warnings_are_errors(tmp_path: Path) -> None:
    """That we are imported already is nothing to warn of."""
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    done = subprocess.run(
        [*WATCHED, "-q", "-m", "pytest", "-q", "-W", "error"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
