"""Programs run by children of an interpreter that has imported torch already.

For tests to which a fresh start is not the point: a fork takes milliseconds,
an import of torch and of us two seconds.  ``__main__``, arguments, folder,
environment, signals and the end are those of ``python ARGUMENTS``; modules
that were imported before, what they have read of the environment, finalizers
of cycles that are left at the very end, and the end of those modules and of
their libraries are not.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

SERVER = Path(__file__).with_name("warm_server.py")
#: What most programs of ours import sooner or later.
USUAL = ("numpy", "torch", "impactarbiter.commands.run")
#: The first optimizer imports torch._dynamo: another second, and 117,000
#: objects for every walk, which others had better do without.
OPTIMIZERS = ("numpy", "torch", "torch._dynamo", "impactarbiter.commands.run")

#: For programs that look at what an import of us brings, and when.
WITHOUT_US = ("numpy", "torch")


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

    def start(self, request: Mapping[str, object], streams: list[int]) -> None:
        """With a fourth stream, where it says how the program ends."""
        text = json.dumps(request).encode() + b"\n"
        self.socket.settimeout(None)
        socket.send_fds(self.socket, [len(text).to_bytes(8, "big")], streams)
        self.socket.sendall(text)

    def run(
        self, request: Mapping[str, object], streams: list[int], limit: float
    ) -> int | None:
        """The program's exit code, as Popen gives it; None: out of time."""
        self.start(request, streams)
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
    asked = _Asked(arguments, cwd, env, safe_path, modules)
    with _stream(text) as given, _stream() as out, _stream() as error:
        streams = [stream.fileno() for stream in (given, out, error)]
        code = asked.interpreter().run(asked.request(), streams, timeout)
        said = [_read(stream) for stream in (out, error)]
    if code is None:
        asked.forget()
        raise subprocess.TimeoutExpired(arguments, timeout, *said)
    return subprocess.CompletedProcess(arguments, code, *said)


def watched(folder: Path, text: str) -> tuple[str, dict[str, Any]]:
    """The first line and the JSON of the report on a program of this text."""
    (folder / "program.py").write_text(text)
    done = run(
        ["-m", "impactarbiter", "run", "--json", "report.json", "program.py"],
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    begin = "ImpactArbiter: "
    lines = [x for x in done.stderr.splitlines() if x.startswith(begin)]
    report = json.loads((folder / "report.json").read_text())
    return lines[-1].removeprefix(begin), report


class Program:
    """One that runs: what the tests use of ``subprocess.Popen``."""

    def __init__(
        self, ended: IO[bytes], stdout: IO[str], stderr: IO[str]
    ) -> None:
        self.ended, self.stdout, self.stderr = ended, stdout, stderr
        self.returncode: int | None = None
        self.pid = int(ended.readline())

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        for stream in (self.ended, self.stdout, self.stderr):
            stream.close()

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self.ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(self.ended.readline())
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What is left to be read of stdout and stderr, once it has ended."""
        said = ["", ""]

        def read(number: int, stream: IO[str]) -> None:
            said[number] = stream.read()

        readers = [
            threading.Thread(target=read, args=each, daemon=True)
            for each in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return said[0], said[1]


def start(
    arguments: list[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    safe_path: bool = True,
    ignored: Collection[int] = (),
    modules: tuple[str, ...] | None = None,
) -> Program:
    """As ``run``, and goes on beside us; its stdin is empty.

    Of SIGHUP and SIGUSR1 those are ignored which are told, whatever we do.
    """
    asked = _Asked(arguments, cwd, env, safe_path, modules, ignored)
    ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
    with open(os.devnull) as empty:
        out, error, ended = theirs
        streams = [empty.fileno(), out, error, ended]
        asked.interpreter().start(asked.request(), streams)
    for stream in theirs:
        os.close(stream)
    out, error = (os.fdopen(fd, encoding="utf-8") for fd in ours[:2])
    # Nothing is read ahead: select() knows no buffer.
    return Program(os.fdopen(ours[2], "rb", buffering=0), out, error)


@dataclass(frozen=True)
class _Asked:
    """What is to be run, and by which interpreter."""

    arguments: list[str]
    cwd: Path | str | None
    env: Mapping[str, str] | None
    safe_path: bool
    modules: tuple[str, ...] | None
    ignored: Collection[int] = ()

    @property
    def folder(self) -> Path:
        return Path(self.cwd or os.getcwd())

    def key(self) -> tuple[int, tuple[str, ...]]:
        modules = self.modules
        if modules is None:
            optimizes = _optimizes(self.arguments, self.folder)
            modules = OPTIMIZERS if optimizes else USUAL
        return os.getpid(), modules

    def interpreter(self) -> Interpreter:
        key = self.key()
        if key not in _started:
            _started[key] = Interpreter(key[1])
        return _started[key]

    def forget(self) -> None:
        del _started[self.key()]

    def request(self) -> dict[str, object]:
        return {
            "arguments": self.arguments,
            "cwd": str(self.folder),
            "env": dict(os.environ if self.env is None else self.env),
            "safe_path": self.safe_path,
            "ignored": [int(number) for number in self.ignored],
        }


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
