"""The interpreter behind ``warm``: SOCKET MODULES...

Its frame is below those of each program, so it holds nothing that a program
may hold, too.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import types

#: What ends in every program; the interpreter looks for the first three.
ENDED = ("builtins", "sys", "__main__", "impactarbiter")
imported: dict[str, types.ModuleType] = {}


def leave() -> None:
    """The last handler of all: what was imported here is let alone.

    Collecting and clearing it takes most of a short program's time.  What the
    program imported, and we, end as ever.
    """
    gc.freeze()
    kept = [
        sys.modules.pop(name)
        for name, module in imported.items()
        if module is sys.modules.get(name)
    ]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def keep(streams: list[int], ended: int) -> None:
    """Returns in a child of its own, and tells who that is, and how it ends.

    So the interpreter need not wait for it.
    """
    child = os.fork()
    if child == 0:
        os.close(ended)
        return
    for stream in streams:
        os.close(stream)
    os.write(ended, b"%d\n" % child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(ended, b"%d\n" % code)
    os._exit(0)


def reap(keepers: list[int]) -> list[int]:
    """Those that still keep a program."""
    return [k for k in keepers if os.waitpid(k, os.WNOHANG)[0] == 0]


def serve(fd: int, modules: list[str]) -> dict[str, object]:
    """Forks for each request; returns in the children, with the request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(leave)  # before what they register
    for name in modules:
        importlib.import_module(name)
    for name, module in sys.modules.items():
        if name.partition(".")[0] not in ENDED:
            imported[name] = module
    gc.collect()
    gc.freeze()  # lest a child's collection copies every page
    asked = socket.socket(fileno=fd)
    keepers: list[int] = []
    while True:
        head, streams, _, _ = socket.recv_fds(asked, 8, 4)
        keepers = reap(keepers)
        if not head:
            os._exit(0)
        text = b""
        while len(text) < int.from_bytes(head, "big"):
            text += asked.recv(1 << 16)
        ended = streams.pop() if len(streams) == 4 else None
        child = os.fork()
        if child == 0:
            asked.close()
            if ended is not None:
                keep(streams, ended)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            return json.loads(text)
        for stream in streams:
            os.close(stream)
        if ended is not None:
            os.close(ended)
            keepers.append(child)
            continue
        asked.sendall(b"%d\n" % child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asked.sendall(b"%d\n" % code)


def become(request):
    """Sets up what the program may expect; its code, or None with -m."""
    gc.unfreeze()
    # Nor are the destructors of torch's libraries run, after Python's end.
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    libc.on_exit(libc.fcloseall, None)  # the latest comes first
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGUSR1):  # whoever runs the tests
        ignored = number in request["ignored"]
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    first, *rest = request["arguments"]
    sys.modules["__main__"] = fresh = types.ModuleType("__main__")
    fresh.__dict__["__builtins__"] = __builtins__
    if first == "-m":
        sys.argv[:], folder, code = ["-m", *rest[1:]], os.getcwd(), None
        sys.orig_argv[:] = [sys.executable, "-m", *rest]
    elif first == "-c":
        sys.argv[:], folder = ["-c", *rest[1:]], ""
        code = compile(rest[0], "<string>", "exec")
        sys.orig_argv[:] = [sys.executable, "-c", *rest]
    else:
        sys.argv[:], folder = [first, *rest], os.path.dirname(first)
        fresh.__file__ = first
        with open(first, "rb") as stream:
            code = compile(stream.read(), first, "exec")
        sys.orig_argv[:] = [sys.executable, first, *rest]
    if not request["safe_path"]:
        sys.path.insert(0, folder)
    return code, rest[0] if first == "-m" else ""


code, name = become(serve(int(sys.argv[1]), sys.argv[2:]))
if code is None:
    runpy._run_module_as_main(name)
else:
    exec(code, sys.modules["__main__"].__dict__)
