"""Runs a script or module in this process as plain ``python`` would.

Every step follows what CPython's main program does for ``python SCRIPT``
and ``python -m MODULE``; where a step looks odd, that is why.  Knows
nothing of watching: ``run`` says what to do around it.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import runpy
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from ..base.errors import UsageError
from ..base.imports import names_of
from ..base.records import dataclass
from ..base.waiting import threads_end
from ..core.depth import FromTheBottom
from ..model.process import FINISHED


class LaunchError(UsageError):
    """A target that plain Python would refuse, with the same exit code."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Target:
    """A program that is ready to run.

    ``argv`` is its ``sys.argv``, ``path0`` its ``sys.path[0]`` (None: leave
    ``sys.path`` alone), ``file`` its ``__main__.__file__`` if that is known
    before, ``body`` runs it in the fresh ``__main__`` module.
    """

    argv: list[str]
    path0: str | None
    file: str | None
    body: Callable[[types.ModuleType], object]


def script_target(script: str, args: list[str]) -> Target:
    """``python script args``: a file, a folder or an archive.

    Raises LaunchError where it cannot be read.  A script that does not
    compile, with as much room as plain Python has for that, is handed to it
    for good, so that its message is the one that the user knows: this call
    does not return then.
    """
    argv = [script, *args]
    if not script:
        raise LaunchError("the script's name is empty: expected a file")
    full = script
    with suppress(OSError):  # without a working folder there is no such file
        full = script if os.path.isabs(script) else f"{os.getcwd()}/{script}"
    importer = pkgutil.get_importer(full)
    if importer is not None:
        return _importable_target(importer, full, argv)
    try:
        with io.open_code(full) as stream:
            source = stream.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LaunchError(
            f"cannot run {script!r}: {reason.lower()}; expected a Python"
            " script, or -m and a module"
        ) from None
    loader: Any = importlib.machinery.SourceFileLoader("__main__", full)
    code = None
    if full.endswith(".pyc") or source[:4] == importlib.util.MAGIC_NUMBER:
        code = pkgutil.read_code(io.BytesIO(source))
        loader = importlib.machinery.SourcelessFileLoader("__main__", full)
    if code is None:
        try:
            with FromTheBottom(by_c=True):
                code = compile(source, full, "exec", dont_inherit=True)
        except Exception as error:
            if os.path.isfile(full):  # a pipe gives its text once
                hand_over(argv)
            return _raising(error.with_traceback(None), argv)

    def body(module: types.ModuleType) -> None:
        module.__loader__ = loader
        module.__dict__["__file__"] = full
        module.__dict__["__cached__"] = None
        with FromTheBottom(by_c=True):
            exec(code, module.__dict__)

    path0 = None
    if not sys.flags.safe_path:
        path0 = os.path.dirname(os.path.realpath(script))
    return Target(argv, path0, full, body)


def _raising(error: Exception, argv: list[str]) -> Target:
    """What does not compile, where no other Python can be had to say so."""

    def body(_: types.ModuleType) -> None:
        raise error

    return Target(argv, None, None, body)


def _importable_target(importer: Any, full: str, argv: list[str]) -> Target:
    """A folder or an archive that has a ``__main__.py``."""
    find: Any = getattr(importer, "find_spec", None)
    if find is None or find("__main__") is None:
        raise LaunchError(
            f"cannot run {argv[0]!r}: there is no __main__.py in it", 1
        )
    return Target(argv, full, None, lambda _: _run_as_main("__main__", False))


def module_target(module: str, args: list[str]) -> Target:
    """``python -m module args``; LaunchError where there is no such one."""
    path0 = None
    if not sys.flags.safe_path:
        with suppress(OSError):  # there may be no such folder any more
            path0 = os.getcwd()
    top = module.partition(".")[0]
    if not _module_exists(top, path0):
        raise LaunchError(
            f"no module named {module!r}: expected one that `python -m`"
            " finds from this folder",
            1,
        )
    return Target(
        ["-m", *args], path0, None, lambda _: _run_as_main(module, True)
    )


def main_target(module: str, args: list[str]) -> Target:
    """A launcher's ``main()``, without a run of its module as a program: it
    has been imported already, for its parser."""

    def body(_: types.ModuleType) -> None:
        importlib.import_module(module).main()

    return Target([module, *args], None, None, body)


def _module_exists(top: str, path0: str | None) -> bool:
    """Whether a top-level module can be found; imports nothing."""
    if not top:
        return False
    finder = importlib.machinery.PathFinder
    if path0 is not None and finder.find_spec(top, [path0]) is not None:
        return True
    try:
        return importlib.util.find_spec(top) is not None
    except (ValueError, ImportError):
        return top in sys.modules


def _run_as_main(name: str, alter_argv: bool) -> object:
    # The very function that the interpreter calls for -m and for folders:
    # same argv, same __main__, same traceback.
    run_as_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    with FromTheBottom(by_c=False):
        return run_as_main(name, alter_argv)


def hand_over(argv: list[str]) -> None:
    """Becomes ``python argv``; returns only where that is impossible."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    if not sys.executable:
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):  # it cannot be written
                stream.flush()
    try:
        os.execv(sys.executable, [sys.executable, *flags, *argv])
    except OSError:
        return


def fresh_main() -> types.ModuleType:
    """A ``__main__`` as the interpreter has it before anything ran."""
    module = types.ModuleType("__main__")
    module.__loader__ = importlib.machinery.BuiltinImporter
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    module.__dict__["__builtins__"] = builtins
    return module


class Ending(NamedTuple):
    """How a program ended: its exit code, that in a word, and what it raised.

    A SystemExit is not kept: the interpreter lets go of it, and so of all that
    the calls had that it ended, before it waits for threads.  ``interrupted``:
    it dies by SIGINT, as the interpreter has it of an interrupt that its hook
    has printed.
    """

    code: int = 0
    word: str = FINISHED
    error: BaseException | None = None
    interrupted: bool = False


def run_target(target: Target) -> Ending:
    """Runs to the end, and ends the program as the interpreter would, with no
    frames of ours in what it prints.

    ``sys.modules["__main__"]``, ``sys.argv`` and ``sys.path`` stay as the
    program has them: its exit handlers and threads may still need them.
    """
    module = fresh_main()
    # Whoever started us may still run in the old module's namespace.
    _kept.append(sys.modules.get("__main__"))
    sys.modules["__main__"] = module
    if "__mp_main__" in sys.modules:
        # multiprocessing, imported before the program, took note of ours.
        sys.modules["__mp_main__"] = module
    sys.argv[:] = target.argv
    if target.path0 is not None:
        replaces = not sys.flags.safe_path and bool(sys.path)
        sys.path[: 1 if replaces else 0] = [target.path0]
        _give_way(target.path0)
    raised = None
    try:
        target.body(module)
    except BaseException as error:
        error.__traceback__ = _without_us(error.__traceback__)
        raised = error
    try:
        return Ending() if raised is None else _settle(raised)
    finally:
        # The calls that it ended lead here: nobody would free them.
        raised = None


def _settle(error: BaseException) -> Ending:
    """Prints what the program raised, or the message that it leaves with."""
    if isinstance(error, SystemExit):
        code = _exit_code(error)
        is_long = -(2**63) <= code < 2**63
        word = f"exit {code}" if is_long else "exit 1"
        return Ending(code, word if code else FINISHED)
    word, leaving = type(error).__name__, print_uncaught(error)
    if isinstance(leaving, SystemExit):
        return Ending(_exit_code(leaving), word, error)
    interrupted = type(error) is KeyboardInterrupt  # and no class below it
    return Ending(1, word, error, interrupted)


_kept: list[object] = []
_NAMES = vars(builtins)
_BUILTINS = dict(_NAMES)

#: What Python itself starts with, wherever that comes from.
_PYTHONS = frozenset(
    {
        "_collections_abc",
        "_sitebuiltins",
        "abc",
        "codecs",
        "encodings",
        "genericpath",
        "io",
        "ntpath",
        "os",
        "posixpath",
        "site",
        "stat",
        "zipimport",
        *(["linecache"] if sys.version_info >= (3, 13) else []),
    }
)

#: What we had imported of the standard library where the program has its own.
_gave_way: dict[str, types.ModuleType] = {}


def _give_way(place: str) -> None:
    """Forgets what we have imported of the standard library, and Python would
    not have, where the program's folder or archive has a module of that
    name."""
    known = place in sys.path_importer_cache
    for top in sys.stdlib_module_names.intersection(sys.modules):
        file = names_of(sys.modules[top]).get("__file__")
        if (
            type(file) is str
            and top not in _PYTHONS
            and _has_module(place, top)
            and not _lies_in(file, place)
        ):
            for name in [*sys.modules]:
                if name.partition(".")[0] == top:
                    _gave_way[name] = sys.modules.pop(name)
    if not known:
        # What the program writes there at once is not to be missed.
        sys.path_importer_cache.pop(place, None)


def _has_module(place: str, top: str) -> bool:
    """Whether an import would find that there; a folder that is no package is
    found last of all, wherever it is."""
    try:
        found = importlib.machinery.PathFinder.find_spec(top, [place])
    except Exception:  # as a finder of somebody else's may raise
        return False
    return found is not None and found.loader is not None


def _lies_in(file: str, folder: str) -> bool:
    """The program may be one of the library's."""
    place, name = os.path.split(os.path.realpath(file))
    if name.startswith("__init__."):
        place = os.path.dirname(place)
    return place == os.path.realpath(folder)


class LibraryBack:
    """While we work again, what we import is the library's, and it is Python
    that imports it, whatever the program has left in its place; and no builtin
    is missing.  No decorator makes it: that would ask for one before."""

    def __enter__(self) -> None:
        self.gone = _BUILTINS.keys() - _NAMES.keys()
        _NAMES.update({name: _BUILTINS[name] for name in self.gone})
        self.modules = {name: sys.modules.get(name) for name in _gave_way}
        self.importer = builtins.__import__
        builtins.__import__ = _BUILTINS["__import__"]
        sys.modules.update(_gave_way)

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self.importer
        for name, module in self.modules.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        for name in self.gone:
            _NAMES.pop(name, None)


def _without_us(
    trace: types.TracebackType | None,
) -> types.TracebackType | None:
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace


def set_last(error: BaseException) -> None:
    """``sys.last_value`` and its kin, as for any uncaught exception."""
    sys.last_type, sys.last_value = type(error), error
    sys.last_traceback = error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def print_uncaught(error: BaseException) -> BaseException | None:
    """Prints an uncaught exception as the interpreter does.

    Calls ``sys.excepthook``.  Returns the SystemExit that the hook raised,
    if it did: the interpreter obeys that.  Not to be called from an
    ``except`` block, where the hook's own errors would get a context.
    """
    set_last(error)
    kind, trace = type(error), error.__traceback__
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        _write("sys.excepthook is missing\n")
        sys.__excepthook__(kind, error, trace)
        return None
    try:
        sys.audit("sys.excepthook", hook, kind, error, trace)
    except RuntimeError:
        return None
    failure = _call_hook(hook, error)
    if failure is None or isinstance(failure, SystemExit):
        return failure
    _write("Error in sys.excepthook:\n")
    sys.__excepthook__(type(failure), failure, failure.__traceback__)
    _write("\nOriginal exception was:\n")
    sys.__excepthook__(kind, error, trace)
    return None


def _call_hook(
    hook: Callable[..., object], error: BaseException
) -> BaseException | None:
    try:
        hook(type(error), error, error.__traceback__)
    except BaseException as failure:
        failure.__traceback__ = _without_us(failure.__traceback__)
        return failure
    return None


def wait_for_threads() -> None:
    """The program goes on for as long as its threads do that the interpreter
    waits for, before any exit handler; an interrupt ends that.

    Not with -i, where somebody goes on beside them.
    """
    try:
        with LibraryBack():
            waits = not (sys.flags.inspect or os.environ.get("PYTHONINSPECT"))
            waits = waits and any(map(_is_waited_for, threading.enumerate()))
        if waits:
            threads_end()
    except BaseException:  # an interrupt before it has begun
        return


def _is_waited_for(thread: threading.Thread) -> bool:
    """Past properties of a class of the program's."""
    daemonic = object.__getattribute__(thread, "_daemonic")
    return not daemonic and thread is not threading.main_thread()


def _exit_code(error: SystemExit) -> int:
    """The code a SystemExit asks for; prints its message, if it is one."""
    code = _code_of(error)
    number = _number(code)
    if number is not None:
        return number
    if getattr(sys, "stderr", None) is None:
        _write(code)
    else:
        with suppress(BaseException):
            sys.stderr.write(str(code))
    _write("\n")
    return 1


def _code_of(error: SystemExit) -> object:
    try:
        return error.code
    except BaseException:  # a property of a subclass's
        return error


def _number(code: object) -> int | None:
    """Without a method of the program's; None where it is a message."""
    if code is None:
        return 0
    is_int = issubclass(type(code), int)
    return int.__index__(code) if is_int else None  # type: ignore[arg-type]


def _write(text: object) -> None:
    """To ``sys.stderr``, and where that is no stream to C's.

    Nothing is raised: what a stream of the program's raises is passed over.
    """
    try:
        sys.stderr.write(text)  # type: ignore[arg-type]
    except BaseException:
        with suppress(BaseException):
            os.write(2, str(text).encode("utf-8", "backslashreplace"))
    else:
        with suppress(BaseException):
            sys.stderr.flush()
