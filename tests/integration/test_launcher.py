"""``impactarbiter run`` against plain ``python``, both as subprocesses.

Except for the report at the end of stderr, nothing may differ.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import warm

#: From here on stderr is ours.
REPORT = "\nImpactArbiter: "
WATCHED = [sys.executable, "-m", "impactarbiter", "run"]
CONSOLE = [
    sys.executable,
    "-c",
    "from impactarbiter.commands import console; raise SystemExit(console())",
    "run",
]


def script(folder: Path, text: str, name: str = "prog.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def call(
    command: list[str], cwd: Path, **options: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        **options,  # type: ignore[call-overload]
    )


def warm_call(args: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """``WATCHED``, in a fork of an interpreter that has imported us."""
    return warm.run([*WATCHED[1:], *args], cwd=cwd, safe_path=False)


def own_stderr(stderr: str) -> str:
    """What the program wrote: everything before our report."""
    head, found, _ = stderr.partition(REPORT)
    assert found, stderr
    return head


def assert_same(
    cwd: Path, *args: str, report: bool = True, fresh: bool = True
) -> None:
    plain = call([sys.executable, *args], cwd)
    if fresh:
        ours = call([*WATCHED, *args], cwd)
    else:
        ours = warm_call(list(args), cwd)
    assert ours.stdout == plain.stdout
    stderr = own_stderr(ours.stderr) if report else ours.stderr
    assert stderr == plain.stderr
    assert ours.returncode == plain.returncode


ENDINGS = {
    "returns": "print('done')",
    "exit_none": "import sys; sys.exit()",
    "exit_five": "import sys; sys.exit(5)",
    "exit_256": "import sys; sys.exit(256)",
    "exit_negative": "import sys; sys.exit(-1)",
    "exit_true": "import sys; sys.exit(True)",
    "exit_huge": "import sys; sys.exit(1 << 70)",
    "exit_text": "import sys; sys.exit('out of cheese')",
    "exit_tuple": "raise SystemExit('a', 2)",
    "exit_object": """
        import sys
        class Code:
            def __str__(self):
                return 'as text'
            def __format__(self, spec):
                print('formatted')
                return 'otherwise'
            def __eq__(self, other):
                print('compared')
                return True
            __hash__ = None
        sys.exit(Code())
    """,
    "exit_unshown": """
        import sys
        class Code:
            def __str__(self):
                raise ValueError('not to be shown')
            __format__ = None
        sys.exit(Code())
    """,
    "exit_number": """
        import sys
        class Code(int):
            __eq__ = __int__ = __index__ = __bool__ = __hash__ = None
        sys.exit(Code(3))
    """,
    "exit_asked": """
        class Exit(SystemExit):
            @property
            def code(self):
                print('asked')
                return 3
        raise Exit
    """,
    "interrupt_hook_exits": """
        import sys
        sys.excepthook = lambda *_: sys.exit(9)
        raise KeyboardInterrupt
    """,
    "exit_endless": "import sys; sys.exit(10 ** 5000)",
    "exit_property": """
        class Exit(SystemExit):
            @property
            def code(self):
                raise ValueError('none to be had')
        raise Exit('in its place')
    """,
    "exit_written": """
        import sys
        class Stream:
            def write(self, text):
                print(repr(text))
        sys.stderr = Stream()
        sys.exit('in two parts')
    """,
    "exit_nowhere": """
        import sys
        sys.stderr = None
        sys.exit('out of \\udce4 cheese')
    """,
    "hook_and_stream_gone": """
        import sys
        del sys.excepthook
        sys.stderr = None
        raise ValueError('x')
    """,
    "raises": """
        def inner():
            raise ValueError('no [bold]markup[/] here')
        def outer():
            inner()
        outer()
    """,
    "cause": """
        try:
            {}['key']
        except KeyError as error:
            raise RuntimeError('while looking') from error
    """,
    "context": """
        try:
            {}['key']
        except KeyError:
            1 / 0
    """,
    "group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "base_exception": "raise GeneratorExit('odd')",
    "runtime_syntax": "compile('def f(:', 'made', 'exec')",
    "interrupt": """
        def loop():
            raise KeyboardInterrupt
        loop()
    """,
    "interrupt_subclass": """
        class Stop(KeyboardInterrupt):
            pass
        raise Stop('by the program')
    """,
    "interrupt_subclass_in_a_child": """
        import os
        class Stop(KeyboardInterrupt):
            pass
        child = os.fork()
        if child == 0:
            raise Stop('by the program')
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
    "hook": """
        import sys
        sys.excepthook = lambda kind, error, trace: print(
            'hook', kind.__name__, trace.tb_lineno, trace.tb_next is None)
        raise ValueError('x')
    """,
    "hook_raises": """
        import sys
        def hook(kind, error, trace):
            raise TypeError('in the hook')
        sys.excepthook = hook
        raise ValueError('x')
    """,
    "hook_exits": """
        import sys
        sys.excepthook = lambda *args: sys.exit(7)
        raise ValueError('x')
    """,
    "no_hook": "import sys; del sys.excepthook; raise ValueError('x')",
    "os_exit_handlers": """
        import atexit, threading, time
        atexit.register(print, 'handler')
        def work():
            time.sleep(0.2)
            print('thread')
        threading.Thread(target=work).start()
        print('main')
    """,
    "last_value": """
        import atexit, sys
        atexit.register(
            lambda: print(sys.last_type, sys.last_traceback.tb_lineno))
        raise ValueError('x')
    """,
    "no_imports": """
        import builtins, sys
        def importer(name, *args, **keywords):
            raise ImportError('no imports any more')
        builtins.__import__ = importer
        sys.exit(5)
    """,
    "no_importer": """
        import atexit, builtins
        atexit.register(lambda: print(builtins.__import__))
        builtins.__import__ = None
    """,
    "exit_owner": """
        import atexit, queue, sys, threading
        asked = queue.Queue()
        class Owner:
            def __del__(self):
                print('freed')
                asked.put(None)
        def main():
            owner = Owner()
            threading.Thread(target=asked.get).start()
            sys.exit(3)
        atexit.register(print, 'exit handlers')
        main()
    """,
    "fork": """
        import os, sys
        child = os.fork()
        if child == 0:
            sys.exit(4)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
}


#: One of each way to end has an interpreter of its own from the start on.
FRESH = {"returns", "exit_text", "raises", "interrupt", "interrupt_subclass"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_ends_as_plain_python(tmp_path: Path, ending: str) -> None:
    script(tmp_path, ENDINGS[ending])
    fresh = ending in FRESH
    assert_same(tmp_path, "prog.py", "one", "--json", "-x", fresh=fresh)


@pytest.mark.parametrize("ending", ["raises", "exit_five", "interrupt"])
def test_module_ends_as_plain_python(tmp_path: Path, ending: str) -> None:
    script(tmp_path, ENDINGS[ending])
    assert_same(tmp_path, "-m", "prog", "one", "-m", "two", fresh=False)


def test_console_script_dies_by_interrupt(tmp_path: Path) -> None:
    script(tmp_path, ENDINGS["interrupt"])
    ours = call([*CONSOLE, "prog.py"], tmp_path)
    plain = call([sys.executable, "prog.py"], tmp_path)
    assert ours.returncode == plain.returncode == -signal.SIGINT
    assert own_stderr(ours.stderr) == plain.stderr


SHOW = """
    \"\"\"Its own text.\"\"\"
    import sys
    known = ['__name__', '__doc__', '__package__', '__spec__', '__file__',
             '__cached__', '__annotations__']
    main = sys.modules['__main__']
    assert main.__dict__ is globals()
    for name in known:
        print(name, globals()[name])
    print(sorted(name for name in globals() if name.startswith('__')))
    print(type(__loader__).__name__, type(__builtins__).__name__)
    print(sys.argv, sys.path[0], len(sys.path))
    print(eval('__debug__'), sys.flags.optimize)
    def f(x: 'unquoted') -> int: ...
    print(f.__annotations__, f.__module__)
    def deeper(n):
        try:
            return deeper(n + 1)
        except RecursionError:
            return n
    print(deeper(0), sys.getrecursionlimit())
    try:
        sys.setrecursionlimit(1)
    except RecursionError as error:
        print(error)
"""


def hide_ids(text: str) -> str:
    import re

    return re.sub(r"0x[0-9a-f]+", "0x", text)


@pytest.mark.parametrize(
    "args",
    [
        ["prog.py"],
        ["./prog.py", "-h"],
        ["sub/../prog.py", "--", "x"],
        pytest.param(["link.py"], marks=pytest.mark.slow),
        ["-m", "prog", "--help"],
        ["-m", "pack", "a"],
        ["-m", "pack.part"],
        ["folder", "a"],
        pytest.param(["folder/", "a"], marks=pytest.mark.slow),
        ["app.zip", "a"],
    ],
    ids=" ".join,
)
def test_sees_what_plain_python_shows(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "sub").mkdir()
    for folder in ("pack", "folder"):
        (tmp_path / folder).mkdir()
        script(tmp_path / folder, SHOW, "__main__.py")
    script(tmp_path / "pack", "print('init')", "__init__.py")
    script(tmp_path / "pack", SHOW, "part.py")
    script(tmp_path, SHOW)
    script(tmp_path / "sub", SHOW)
    (tmp_path / "link.py").symlink_to("sub/prog.py")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(tmp_path / "prog.py", "__main__.py")
    plain = call([sys.executable, *args], tmp_path)
    # A fork's interpreter has -P, which is told by what sys.path begins with.
    again = args[0] in ("./prog.py", "sub/../prog.py") or "prog" in args
    if again or "pack.part" in args:
        ours = warm_call(args, tmp_path)
    else:
        ours = call([*WATCHED, *args], tmp_path)
    assert plain.returncode == 0, plain.stderr
    assert hide_ids(ours.stdout) == hide_ids(plain.stdout)


def test_a_low_limit_of_calls_costs_no_report(tmp_path: Path) -> None:
    text = """
    import sys
    sys.setrecursionlimit(40)
    print(sys.getrecursionlimit())
    """
    script(tmp_path, text)
    done = warm_call(["prog.py"], tmp_path)
    assert (done.stdout, done.returncode) == ("40\n", 0)
    assert REPORT in done.stderr and "no report" not in done.stderr


def test_neighbours_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    script(tmp_path / "here", "value = 6", "neighbour.py")
    script(
        tmp_path / "here", "import neighbour; print(neighbour.value)", "p.py"
    )
    assert_same(tmp_path, "here/p.py")


BROKEN = {
    "syntax": b"print('never')\ndef f(:\n    pass\n",
    "indent": b"if 1:\nx = 1\n",
    "not_utf8": b'x = "\xe9"\n',
    "unknown_coding": b"# coding: nope\n",
    "null": b"x = 1\0\n",
}


@pytest.mark.parametrize("terms", [2990, 200_000])
def test_a_source_is_compiled_with_as_much_room(
    tmp_path: Path, terms: int
) -> None:
    """A sum that plain Python just compiles; one that is too deep for it is
    told in its words, without a frame of ours."""
    script(tmp_path, "x = 1\nprint(" + " + ".join(["x"] * terms) + ")\n")
    plain = call([sys.executable, "prog.py"], tmp_path)
    for command in (WATCHED, CONSOLE):
        ours = call([*command, "prog.py"], tmp_path)
        assert ours.stdout == plain.stdout
        assert ours.returncode == plain.returncode
        if plain.returncode:
            assert ours.stderr == plain.stderr
        else:
            assert own_stderr(ours.stderr) == plain.stderr


def test_an_exception_whose_traceback_was_taken_away(tmp_path: Path) -> None:
    """It has None in its place, and the report goes through it."""
    text = """
    import torch
    try:
        1 / 0
    except ZeroDivisionError as error:
        error.__traceback__ = None
        raise ValueError("later")
    """
    script(tmp_path, text)
    assert_same(tmp_path, "prog.py", fresh=True)


def test_without_another_python_a_failed_compile_has_no_frames_of_ours(
    tmp_path: Path,
) -> None:
    script(tmp_path, "def f(:\n    pass\n")
    plain = call([sys.executable, "prog.py"], tmp_path)
    gone = "import sys; sys.executable = None\n" + CONSOLE[2]
    ours = call([sys.executable, "-c", gone, "run", "prog.py"], tmp_path)
    assert own_stderr(ours.stderr) == plain.stderr
    assert ours.returncode == plain.returncode == 1


@pytest.mark.parametrize("kind", BROKEN)
def test_what_does_not_compile(tmp_path: Path, kind: str) -> None:
    (tmp_path / "prog.py").write_bytes(BROKEN[kind])
    fresh = kind == "syntax"
    assert_same(tmp_path, "prog.py", report=False, fresh=fresh)


def test_what_a_pipe_gives_does_not_compile() -> None:
    """It gives it once: no other Python can be asked for its words."""
    run = [sys.executable, "-P", "-m", "impactarbiter", "run", "/dev/stdin"]
    done = subprocess.run(
        run, input="def (:\n", capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr and "launch.py" not in done.stderr


def test_encoding_cookie_and_bytecode(tmp_path: Path) -> None:
    import py_compile

    path = tmp_path / "prog.py"
    path.write_bytes(b'# coding: latin-1\nprint(ascii("\xe9"), __file__)\n')
    assert_same(tmp_path, "prog.py", fresh=False)
    py_compile.compile(str(path), cfile=str(tmp_path / "compiled.pyc"))
    assert_same(tmp_path, "compiled.pyc", fresh=False)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    script(
        tmp_path,
        f"""
        import multiprocessing, pickle, sys

        class Thing:
            def __init__(self, value):
                self.value = value

        def double(thing):
            return Thing(thing.value * 2), __name__

        print('import', __name__, flush=True)
        if __name__ == '__main__':
            assert pickle.loads(pickle.dumps(Thing(1))).value == 1
            context = multiprocessing.get_context({method!r})
            with context.Pool(1) as pool:
                thing, name = pool.apply(double, (Thing(4),))
            print(thing.value, name, type(thing) is Thing)
        """,
    )
    assert_same(tmp_path, "prog.py", fresh=method == "spawn")


def test_spawn_from_a_module(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import multiprocessing

        def work():
            print(__name__, flush=True)

        if __name__ == '__main__':
            context = multiprocessing.get_context('spawn')
            process = context.Process(target=work)
            process.start()
            process.join()
            print(process.exitcode)
        """,
    )
    assert_same(tmp_path, "-m", "prog")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(tmp_path: Path, number: signal.Signals) -> None:
    script(
        tmp_path,
        "import time\nprint('ready', flush=True)\ntime.sleep(60)\n",
    )
    codes = []
    for command in ([sys.executable], WATCHED):
        process = subprocess.Popen(
            [*command, "prog.py"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Who runs these tests in the background may have it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        codes.append(process.returncode)
        if command is WATCHED and number == signal.SIGINT:
            assert "KeyboardInterrupt" in own_stderr(stderr)
    assert codes == [-number, -number]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "nothing to run"),
        (["--evry", "2", "prog.py"], "did you mean --every?"),
        (["--every", "0", "prog.py"], "--every: '0' is not possible"),
        (["--every"], "--every needs a value"),
        (["--step=often", "prog.py"], "expected one of auto, manual"),
        (["--memory-limit", "much", "prog.py"], "such as 12GiB"),
        (["--fail-on", "always", "prog.py"], "info, warning, critical"),
        (["--obfuscate=1", "prog.py"], "takes no value"),
        (["--signal", "SEGV", "prog.py"], "no signal that can ask"),
        (["missing.py"], "cannot run 'missing.py'"),
        (["-m"], "-m needs a module"),
        (["--json", "no/such/r.json", "prog.py"], "cannot write"),
        (["--json", ".", "prog.py"], "it is a folder"),
        (["--timeline", "t.txt", "prog.py"], ".png"),
        (["--json", "a", "--sarif", "./a", "prog.py"], "two outputs"),
        (["--csv", "./prog.py", "prog.py"], "which is to be run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_runs_nothing(
    tmp_path: Path, args: list[str], said: str
) -> None:
    script(tmp_path, "print('ran')")
    done = warm_call(args, tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.startswith("impactarbiter: ")
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["prog.py"]


def test_one_file_by_two_names(tmp_path: Path) -> None:
    text = script(tmp_path, "print('ran')").read_text()
    (tmp_path / "r.json").write_text("")
    (tmp_path / "link").symlink_to("r.json")
    (tmp_path / "other.py").symlink_to("prog.py")
    for args, said in (
        (["--json", "r.json", "--csv", "link", "prog.py"], "two outputs"),
        (["--json", "link", "--csv", "r.json", "prog.py"], "two outputs"),
        (["--json", "other.py", "prog.py"], "which is to be run"),
        (["--json", "prog.py", "other.py"], "which is to be run"),
    ):
        done = warm_call(args, tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr and done.stderr.count("\n") == 1
    assert (tmp_path / "prog.py").read_text() == text


def in_no_folder(
    tmp_path: Path, *args: str
) -> subprocess.CompletedProcess[str]:
    """One call of ours from a folder that is gone."""
    code = (
        "import os, sys\n"
        "from impactarbiter.commands import main\n"
        "os.mkdir('w'); os.chdir('w'); os.rmdir('../w')\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    return warm.run(["-c", code, *args], cwd=tmp_path)


def test_a_script_from_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    """The kernel still knows what is above it."""
    script(tmp_path, "print('ran')")
    out = str(tmp_path / "out.json")
    done = in_no_folder(tmp_path, "run", "--json", out, "../prog.py")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert os.path.exists(out)


@pytest.mark.parametrize("option", ["--json", "--job"])
def test_a_relative_output_without_a_working_folder(
    tmp_path: Path, option: str
) -> None:
    path = script(tmp_path, "print('ran')")
    done = in_no_folder(tmp_path, "run", option, "rel", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "impactarbiter: cannot write 'rel': the working folder is gone; give"
        " a whole path, or change to a folder that exists\n"
    )


def test_missing_module_has_python_s_code(tmp_path: Path) -> None:
    done = warm_call(["-m", "no_such_module_here"], tmp_path)
    assert done.returncode == 1
    assert "no module named 'no_such_module_here'" in done.stderr
    assert done.stderr.count("\n") == 1


#: Which goes on where the main thread has ended.
THREAD = """
import atexit, threading
import torch

kept = []

def train():
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], 0.1)
    threading.main_thread().join()
    for _ in range(60):
        loss = (weight * torch.ones(4)).sum()
        loss.backward()
        optimizer.step()
        kept.append(loss)
    print("trained")

atexit.register(print, "handlers of the exit")
threading.Thread(target=train).start()
"""


@pytest.mark.parametrize("ending", ["returns", "raises", "exit_five"])
def test_threads_that_go_on_are_watched(tmp_path: Path, ending: str) -> None:
    script(tmp_path, THREAD + textwrap.dedent(ENDINGS[ending]))
    plain = call([sys.executable, "prog.py"], tmp_path)
    ours = warm_call(["-q", "prog.py"], tmp_path)
    assert ours.stdout == plain.stdout
    assert ours.returncode == plain.returncode
    assert "trained\nhandlers of the exit\n" in ours.stdout
    assert ours.stderr.startswith(plain.stderr)
    assert "`__main__.kept`" in ours.stderr[len(plain.stderr) :]


def test_an_interrupt_ends_the_wait_for_threads(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import atexit, os, signal, threading, time

        signal.signal(signal.SIGINT, signal.default_int_handler)
        done = threading.Event()
        atexit.register(done.set)

        def go_on():
            threading.main_thread().join()
            time.sleep(0.5)  # until it waits: the traceback says where
            os.kill(os.getpid(), signal.SIGINT)
            done.wait()

        threading.Thread(target=go_on).start()
        """,
    )
    assert_same(tmp_path, "prog.py")


def test_an_interactive_python_does_not_wait(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import threading
        go = threading.Event()
        late = lambda: print("asked" if go.wait(30) else "too late")
        threading.Thread(target=late).start()
        """,
    )
    command = [sys.executable, "-i", *WATCHED[1:], path.name]
    ours = call(command, tmp_path, input="go.set()\n")
    assert ours.stdout == "asked\n"


def test_no_child_is_started_for_a_report(tmp_path: Path) -> None:
    """A handler of SIGCHLD would be told of it."""
    script(
        tmp_path,
        """
        import os, signal, sys, time
        import torch

        starts = ("os.exec", "os.fork", "os.posix_spawn", "os.system",
                  "subprocess.Popen")
        sys.addaudithook(
            lambda event, args: event in starts and print(event, args))
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.1)
        """,
    )
    done = warm_call(["--json", "r.json", "prog.py"], tmp_path)
    assert done.stdout == ""
    said = json.loads((tmp_path / "r.json").read_text())["environment"]
    assert said["platform"] == platform.platform()
    assert said["python"] == platform.python_version()


@pytest.mark.parametrize("ending", ["returns", "raises", "exit_five"])
def test_report_of_what_was_seen(tmp_path: Path, ending: str) -> None:
    script(
        tmp_path,
        "import os; os.mkdir('w'); os.chdir('w')\n"
        + textwrap.dedent(ENDINGS[ending]),
    )
    done = warm_call(["--json", "r.json", "prog.py"], tmp_path)
    data = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert data["schema"] == "impactarbiter/1"
    assert "warning" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["prog.py", "r.json", "w"]


def test_stderr_that_the_program_closed(tmp_path: Path) -> None:
    script(tmp_path, "import sys; sys.stderr.close(); print('on')")
    done = warm_call(["prog.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "on\n")
    script(tmp_path, "import sys; sys.stderr.close(); sys.exit('why')")
    assert_same(tmp_path, "prog.py", report=False, fresh=False)


REUSED = """
import os, sys, torch
kept = []
for _ in range(40):
    kept.append((torch.ones(64, requires_grad=True) * 2).sum())
    kept[-1].backward()
own = "own.txt", os.O_RDWR | os.O_CREAT
"""


@pytest.mark.parametrize(
    ("then", "ours"),
    [
        ("os.close(2); assert os.open(*own) == 2", False),
        ("os.dup2(os.open(*own), 2)", True),
    ],
)
def test_a_file_in_place_of_stderr(
    tmp_path: Path, then: str, ours: bool
) -> None:
    """What only happens to get its number is no place for a report."""
    script(tmp_path, REUSED + then)
    done = warm_call(["prog.py"], tmp_path)
    assert done.returncode == 0
    assert REPORT not in done.stderr
    text = (tmp_path / "own.txt").read_text()
    assert (REPORT in text) == bool(text) == ours


CAPTURED = """
import os, sys, tempfile, torch
kept = []
with tempfile.TemporaryFile() as own:
    saved = os.dup(2)
    os.dup2(own.fileno(), 2)
    for _ in range(40):
        kept.append((torch.ones(64, requires_grad=True) * 2).sum())
        kept[-1].backward()
    os.dup2(saved, 2)
    os.close(saved)
    assert os.fstat(own.fileno()).st_size == 0
"""


def test_what_a_program_captures_has_no_word_of_ours(tmp_path: Path) -> None:
    """As a test does that asserts it; the report has it all."""
    script(tmp_path, CAPTURED)
    done = warm_call(["prog.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"{REPORT}CRITICAL")


def test_other_commands_stay_light(tmp_path: Path) -> None:
    code = (
        "import sys; from impactarbiter.commands import main\n"
        "for args in (['--help'], ['run', '--help'], ['report', 'x'],\n"
        "             ['diff', 'x', 'y'], ['merge', 'x', 'y']):\n"
        "    main(args)\n"
        "print({'torch', 'numpy'} & set(sys.modules))"
    )
    done = call([sys.executable, "-c", code], tmp_path)
    assert done.stdout.endswith("set()\n"), done.stderr


STUB = """
import sys
import impactarbiter
from impactarbiter.commands import main
from impactarbiter.model.finding import Finding, Site
from impactarbiter.model.report import Report

class Arbiter:
    job = None

    def subscribe(self, listener):
        pass

    unsubscribe = subscribe

    def stop(self, error=None):
        {stop}
        site = Site("a.py", 1, "f")
        return Report(findings=(
            Finding(verdict="leak", severity="warning", allocated_at=site),))

def watch(**options):
    {watch}
    return Arbiter()

impactarbiter.watch = watch
sys.exit(main(sys.argv[1:]))
"""


def stubbed(
    cwd: Path, *args: str, stop: str = "pass", watch: str = "pass"
) -> subprocess.CompletedProcess[str]:
    """The command with a watcher that always finds one warning."""
    code = STUB.format(stop=stop, watch=watch)
    return warm.run(["-c", code, "run", *args], cwd=cwd, safe_path=False)


@pytest.mark.parametrize(
    ("threshold", "ending", "code"),
    [
        ("info", "returns", 3),
        ("warning", "returns", 3),
        ("critical", "returns", 0),
        ("info", "exit_none", 3),
        ("info", "exit_five", 5),
        ("info", "raises", 1),
        ("info", "interrupt", -signal.SIGINT),
    ],
)
def test_fail_on(
    tmp_path: Path, threshold: str, ending: str, code: int
) -> None:
    script(tmp_path, ENDINGS[ending])
    done = stubbed(tmp_path, "--fail-on", threshold, "prog.py")
    assert done.returncode == code
    assert "WARNING leak" in done.stderr


def test_options_reach_the_watcher(tmp_path: Path) -> None:
    script(tmp_path, "pass")
    done = stubbed(
        tmp_path,
        *("--every", "2", "--warmup=0", "--allow", "a", "--allow", "b"),
        *("--obfuscate", "--memory-limit", "1GiB", "--step", "manual"),
        *("--window", "4", "prog.py"),
        watch="print(sorted(options.items()))",
    )
    assert done.stdout == (
        "[('allow', ['a', 'b']), ('every', 2), ('memory_limit', 1073741824),"
        " ('obfuscate', True), ('step', 'manual'), ('warmup', 0),"
        " ('window', 4)]\n"
    )


@pytest.mark.parametrize("failing", ["stop", "watch"])
@pytest.mark.parametrize("ending", ["returns", "exit_five", "raises"])
def test_our_failure_is_one_warning(
    tmp_path: Path, failing: str, ending: str
) -> None:
    script(tmp_path, ENDINGS[ending])
    plain = call([sys.executable, "prog.py"], tmp_path)
    raising = "raise OSError('no\\\\nmore')"
    done = stubbed(
        tmp_path, "--fail-on", "info", "prog.py", **{failing: raising}
    )
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    ours = [row for row in done.stderr.splitlines() if "warning" in row]
    assert len(ours) == 1 and "OSError: no" in ours[0]
    rest = [row for row in done.stderr.splitlines() if row not in ours]
    assert rest == plain.stderr.splitlines()


@pytest.mark.parametrize("ends", ["", "os.kill(os.getpid(), 15)"])
def test_why_there_is_no_report_is_said_once(
    tmp_path: Path, ends: str
) -> None:
    """Not by a warning that points at a line of ours, too."""
    script(
        tmp_path,
        f"""
        import os
        from impactarbiter.judging.diagnostician import Diagnostician
        def report(self):
            raise OSError("no more")
        Diagnostician.report = report
        {ends}
        """,
    )
    done = warm_call(["prog.py"], tmp_path)
    assert done.stderr.count("OSError: no more") == 1
    assert "RuntimeWarning" not in done.stderr
    assert own_stderr(done.stderr) == ""


def test_a_report_that_could_not_be_made_does_not_read_as_clean(
    tmp_path: Path,
) -> None:
    """Not where the program has emptied ``sys.modules``, as reloaders do."""
    script(
        tmp_path,
        """
        import sys, torch
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters())
        for _ in range(40):
            net(torch.ones(2, 4)).sum().backward()
            opt.step()
        for name in list(sys.modules):
            if name not in ("sys", "builtins", "__main__"):
                del sys.modules[name]
        """,
    )
    done = call(
        [*WATCHED, "--json", "r.json", "--fail-on", "info", "prog.py"],
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "no report could be made" in done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["complete"] is False
    assert report["warnings"][0].startswith("no report could be made")
    shown = ["-m", "impactarbiter", "report", "r.json", "--fail-on", "info"]
    again = warm.run(shown, cwd=tmp_path)
    assert again.returncode == 4 and "no leak" not in again.stdout


def test_termination_waits_for_the_report(tmp_path: Path) -> None:
    """torchrun terminates every rank once one has failed."""
    script(tmp_path, "print('done')")
    ours = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    done = stubbed(tmp_path, "--json", "r.json", "prog.py", stop=ours)
    assert done.returncode == -signal.SIGTERM
    assert "WARNING leak" in done.stderr
    assert (tmp_path / "r.json").exists()


#: Programs that set the default again for SIGTERM, and end by it.
DEFAULT_AGAIN = {
    "put back": """
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        assert before is signal.SIG_DFL
        signal.signal(signal.SIGTERM, before)
        """,
    "a handler that lets it end": """
        def clean_up(number, frame):
            print("cleaned up", flush=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, clean_up)
        """,
    "asyncio": """
        async def main():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, print)
            loop.remove_signal_handler(signal.SIGTERM)

        asyncio.run(main())
        """,
    "ignored for a while": """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        """,
    "in a child": """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = os.fork()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if child == 0:
            signal.raise_signal(signal.SIGTERM)
        print(os.waitpid(child, 0)[1], flush=True)
        """,
}


@pytest.mark.parametrize("way", DEFAULT_AGAIN)
def test_the_report_comes_first_where_the_default_is_set_again(
    tmp_path: Path, way: str
) -> None:
    text = textwrap.dedent(DEFAULT_AGAIN[way])
    script(
        tmp_path,
        f"import asyncio, os, signal\n{text}\nsignal.raise_signal(15)\n"
        "print('it did not end')\n",
    )
    plain = call([sys.executable, "prog.py"], tmp_path)
    ours = warm_call(["--json", "r.json", "prog.py"], tmp_path)
    assert ours.stdout == plain.stdout
    assert ours.returncode == plain.returncode == -signal.SIGTERM
    assert (tmp_path / "r.json").exists()


def test_a_program_that_exits_when_terminated(tmp_path: Path) -> None:
    """The way to a report, as plain Python dies of SIGTERM at once."""
    script(
        tmp_path,
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        signal.raise_signal(signal.SIGTERM)
        """,
    )
    assert_same(tmp_path, "prog.py", fresh=False)


def test_an_output_lost_on_the_way_is_a_warning(tmp_path: Path) -> None:
    script(tmp_path, "import shutil; shutil.rmtree('out')")
    (tmp_path / "out").mkdir()
    done = stubbed(tmp_path, "--json", "out/r.json", "prog.py")
    assert done.returncode == 0
    assert "r.json was not written" in done.stderr
    assert "WARNING leak" in done.stderr


@pytest.mark.parametrize(
    "wanted",
    ["lambda: 4242", "lambda: (_ for _ in ()).throw(OSError('none'))"],
    ids=["another number", "an error"],
)
def test_a_process_number_that_the_program_left_patched(
    tmp_path: Path, wanted: str
) -> None:
    script(tmp_path, f"import os; os.getpid = {wanted}; print('done')")
    done = warm_call(["--json", "r.json", "prog.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert own_stderr(done.stderr) == ""
    assert (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    ("patched", "warnings"),
    [("os.listdir", 0), ("os.scandir", 1), ("shutil.rmtree", 1)],
)
def test_what_the_program_left_patched_costs_a_line_at_most(
    tmp_path: Path, patched: str, warnings: int
) -> None:
    """Neither the exit code nor the report."""
    script(
        tmp_path,
        f"""
        import os, shutil
        folder = os.environ["IMPACTARBITER_CHILDREN"]
        os.makedirs(folder)
        def fake(*args, **options):
            raise RuntimeError("no real file system here")
        {patched} = fake
        print("done")
        """,
    )
    done = warm_call(["--json", "r.json", "prog.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert (tmp_path / "r.json").exists() and REPORT in done.stderr
    assert "Traceback" not in done.stderr
    said = "warning: what children have found is not told: RuntimeError: no"
    assert done.stderr.count(said) == warnings, done.stderr


@pytest.mark.parametrize(
    "name", ["len", "isinstance", "getattr", "vars", "__import__"]
)
def test_a_builtin_that_the_program_has_deleted(
    tmp_path: Path, name: str
) -> None:
    script(tmp_path, f"import builtins\ndel builtins.{name}\n")
    done = call([*WATCHED, "--json", "r.json", "prog.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert own_stderr(done.stderr) == ""
    assert (tmp_path / "r.json").exists()


def test_without_a_folder_that_can_be_written(tmp_path: Path) -> None:
    """As where the root is read-only: no child's findings can be kept."""
    script(tmp_path, "import os; print(os.environ['IMPACTARBITER_CHILDREN'])")
    code = """
        import sys, tempfile
        from impactarbiter.commands import main
        def gettempdir():
            raise FileNotFoundError(2, "No usable temporary directory")
        tempfile.gettempdir = gettempdir
        sys.exit(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(code), "run"]
    done = call([*command, "prog.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "none\n"), done.stderr
    (line,) = own_stderr(done.stderr).splitlines()
    assert line.startswith(
        "impactarbiter: warning: children are not watched: FileNotFoundError:"
    )


def test_more_rules_than_a_variable_can_hold(tmp_path: Path) -> None:
    """What the program starts is started, and goes unwatched."""
    script(
        tmp_path,
        """
        import os, subprocess
        subprocess.run(["echo", "hi"])
        print(os.environ["IMPACTARBITER_CHILDREN"])
        """,
    )
    rules = [f"--allow=model_{number}.py:forward" for number in range(9000)]
    done = call([*WATCHED, *rules, "prog.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "hi\nnone\n"), done.stderr
    (line,) = own_stderr(done.stderr).splitlines()
    assert line.startswith(
        "impactarbiter: warning: children are not watched: the rules of what"
        " is allowed take "
    )


def test_an_output_that_is_a_pipe_which_nobody_reads(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    script(
        tmp_path,
        """
        import signal
        signal.raise_signal(signal.SIGUSR1)
        print('done')
        """,
    )
    done = warm_call(["--json", "pipe", "prog.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    said = done.stderr.count("nobody reads this pipe")
    assert said == 2, done.stderr  # by the signal, and at the end


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)"])
def test_an_interactive_python_goes_on(tmp_path: Path, end: str) -> None:
    path = script(tmp_path, f"value = 7\n{end}\n")
    entered = "print('value is', value)\n"
    plain = call([sys.executable, "-i", path.name], tmp_path, input=entered)
    command = [sys.executable, "-i", *WATCHED[1:], path.name]
    ours = call(command, tmp_path, input=entered)
    assert ours.stdout == plain.stdout == "value is 7\n"
    assert ours.returncode == plain.returncode
    assert ("Traceback" in ours.stderr) == ("Traceback" in plain.stderr)


def test_files_of_ours_are_opened_with_an_encoding(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import torch
        kept = []
        for i in range(300):
            kept.append(torch.ones(300))
        """,
    )
    command = [sys.executable, "-X", "warn_default_encoding", *WATCHED[1:]]
    done = call([*command, "--json", "out.json", path.name], tmp_path)
    assert done.returncode == 0
    warned = [
        line
        for line in done.stderr.splitlines()
        if "EncodingWarning" in line and "impactarbiter/" in line
    ]
    assert warned == []
