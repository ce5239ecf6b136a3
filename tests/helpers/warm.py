"""Programs run by children of an interpreter that has imported torch already.

For tests to which a fresh start is not the point: a fork takes milliseconds,
an import of torch and of us two seconds.  ``__main__``, arguments, folder,
environment, signals and the end are those of ``python ARGUMENTS``; modules
that were imported before, what they have read of the environment, and
finalizers of cycles that are left at the very end are not.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

SERVER = Path(__file__).with_name("warm_server.py")
#: What most programs of ours import sooner or later.
USUAL = ("numpy", "torch", "impactarbiter.commands.run")
#: The first optimizer imports torch._dynamo: another second, and 117,000
#: objects for every walk, which others had better do without.
OPTIMIZERS = ("numpy", "torch", "torch._dynamo", "impactarbiter.commands.run")


class Interpreter:
    """One that waits for programs, and forks for each of them."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", SERVER, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.answers = self.socket.makefile("r", encoding="utf-8")
        atexit.register(self.close)

    def close(self) -> None:
        """It ends where nobody asks any more."""
        self.answers.close()
        self.socket.close()
        self.process.wait()

    def run(
        self, request: Mapping[str, object], streams: list[int], limit: float
    ) -> int | None:
        """The program's exit code, as Popen gives it; None: out of time."""
        text = json.dumps(request).encode() + b"\n"
        self.socket.settimeout(None)
        socket.send_fds(self.socket, [len(text).to_bytes(8, "big")], streams)
        self.socket.sendall(text)
        child = int(self.answers.readline())
        self.socket.settimeout(limit)
        try:
            return int(self.answers.readline())
        except TimeoutError:
            os.kill(child, 9)
            return None


_started: dict[tuple[int, tuple[str, ...]], Interpreter] = {}


def run(
    arguments: list[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    safe_path: bool = True,
    text: str = "",
    timeout: float = 120,
    modules: tuple[str, ...] | None = None,
) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS``: ["-c", code], ["-m", module, ...] or a script.

    ``safe_path`` as with -P; ``text`` is its stdin; ``modules`` have been
    imported before, by default what it looks as if it needs.
    """
    folder = Path(cwd or os.getcwd())
    if modules is None:
        modules = OPTIMIZERS if _optimizes(arguments, folder) else USUAL
    key = os.getpid(), modules
    interpreter = _started.get(key)
    if interpreter is None:
        interpreter = _started[key] = Interpreter(modules)
    request = {
        "arguments": arguments,
        "cwd": str(folder),
        "env": dict(os.environ if env is None else env),
        "safe_path": safe_path,
    }
    with _stream(text) as given, _stream() as out, _stream() as error:
        streams = [stream.fileno() for stream in (given, out, error)]
        code = interpreter.run(request, streams, timeout)
        said = [_read(stream) for stream in (out, error)]
    if code is None:
        del _started[key]
        raise subprocess.TimeoutExpired(arguments, timeout, *said)
    return subprocess.CompletedProcess(arguments, code, *said)


def _optimizes(arguments: list[str], folder: Path) -> bool:
    """Whether code or a script among the arguments speaks of an optimizer."""
    scripts = [folder / each for each in arguments if each.endswith(".py")]
    read = [file.read_text("latin-1") for file in scripts if file.is_file()]
    return any("optim" in text for text in [*arguments, *read])


def _stream(text: str = "") -> IO[bytes]:
    stream: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    stream.write(text.encode())
    stream.seek(0)
    return stream


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()
