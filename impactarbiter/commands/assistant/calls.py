"""Our own commands, called as children: none of the user's code runs in the
server, and a call that is given up ends its child."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from ...base.records import dataclass

#: Seconds that a child may take from SIGTERM until it has left its report.
GRACE = 60
#: Bytes that are read of the end of an output.
_TAIL = 1 << 16


@dataclass(frozen=True)
class Done:
    """How a child ended, and the ends of what it has said."""

    code: int
    output: str
    errors: str
    in_time: bool

    @property
    def last_words(self) -> str:
        """The last line that it wrote on stderr."""
        lines = self.errors.strip().splitlines()
        return lines[-1] if lines else f"exit code {self.code}"


async def called(words: list[str], folder: str | None, limit: float) -> Done:
    """``impactarbiter WORDS``, at most ``limit`` seconds long.

    Then it is told to end by SIGTERM, on which ``run`` writes its report.
    """
    import anyio

    command = [sys.executable, "-P", "-m", "impactarbiter", *words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = await anyio.open_process(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env={**os.environ, "NO_COLOR": "1"},
        )
        in_time = False
        try:
            with anyio.move_on_after(limit):
                await process.wait()
                in_time = True
        finally:
            with anyio.CancelScope(shield=True):
                await _ended(process)
        code = process.returncode
        return Done(
            -1 if code is None else code, _end(out), _end(errors), in_time
        )


async def _ended(process: object) -> None:
    """Ends it where it still runs."""
    import anyio
    from anyio.abc import Process

    assert isinstance(process, Process)
    if process.returncode is not None:
        return
    process.terminate()
    with anyio.move_on_after(GRACE):
        await process.wait()
        return
    process.kill()
    await process.wait()


def _end(stream: object) -> str:
    stream.seek(0, os.SEEK_END)  # type: ignore[attr-defined]
    stream.seek(max(0, stream.tell() - _TAIL))  # type: ignore[attr-defined]
    return stream.read().decode(errors="replace")  # type: ignore[attr-defined,no-any-return]
