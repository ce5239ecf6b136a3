"""The interpreter behind ``warm``: SOCKET MODULES...

Its frame is below those of each program, so it holds nothing that a program
may hold, too.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import types


def serve(fd: int, modules: list[str]) -> dict[str, object]:
    """Forks for each request; returns in the children, with the request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # lest a child's collection copies every page
    asked = socket.socket(fileno=fd)
    while True:
        head, streams, _, _ = socket.recv_fds(asked, 8, 3)
        if not head:
            os._exit(0)
        text = b""
        while len(text) < int.from_bytes(head, "big"):
            text += asked.recv(1 << 16)
        child = os.fork()
        if child == 0:
            asked.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            return json.loads(text)
        for stream in streams:
            os.close(stream)
        asked.sendall(b"%d\n" % child)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asked.sendall(b"%d\n" % code)


def become(request):
    """Sets up what the program may expect; its code, or None with -m."""
    gc.unfreeze()
    # The last handler: what the interpreter's end would collect twice over,
    # all that was imported, takes most of a short program's time.
    atexit.register(gc.freeze)
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
