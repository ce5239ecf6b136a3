"""Files that appear whole or not at all.

They hold names of the program: a new one is for its owner's eyes alone.
"""

from __future__ import annotations

import errno
import io
import os
import posix
import stat
from contextlib import suppress
from os import getpid
from select import PIPE_BUF
from time import monotonic, sleep
from typing import TextIO

from .errors import ReportError
from .waiting import written

#: Links that are followed, as the kernel does.
MOST_LINKS = 40


def _who_shows(folder: str) -> int | None:
    """Whose open files the kernel shows there; None: it is another folder."""
    words = folder.split("/")
    if words[:2] != ["", "proc"] or words[-1] != "fd" or len(words) < 4:
        return None
    return int(words[2]) if words[2].isdecimal() else None


def _target(path: str | os.PathLike[str]) -> str:
    """Where the bytes really go: links are followed, not replaced, but for
    what is open by a number, as /dev/stdout.

    ValueError for a name that no file can have."""
    name = os.fspath(path)
    if b"\0" in os.fsencode(name):
        raise ValueError("embedded null byte")
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(os.path.dirname(name))
        name = os.path.join(folder, os.path.basename(name))
        if _who_shows(folder) or not os.path.islink(name):
            return name
        name = os.path.join(folder, os.readlink(name))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def is_no_file(path: str) -> bool:
    """Whether what goes by that name is no regular file, or one only as long
    as a process has it open: ``/dev/stdin``, ``/proc/self/fd/3``."""
    try:
        target = _target(path)
    except (OSError, ValueError):  # of a name that no file can have
        return True
    return _is_special(target) or os.path.isdir(target)


def _own_number(target: str) -> int | None:
    """Of what this process has open; None: it is no such file."""
    folder, number = os.path.split(target)
    own = _who_shows(folder) == getpid()
    return int(number) if own and number.isdecimal() else None


def _is_special(target: str) -> bool:
    """A pipe or device such as /dev/null, or what is open, which must not be
    replaced."""
    if _who_shows(os.path.dirname(target)):
        return True
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


#: Modes of new files, before the umask: a report's, which its owner can read
#: and write whatever that says, and one for everybody.
PRIVATE, PUBLIC = 0o600, 0o666


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises ReportError unless a file could be written at ``path`` now.

    Leaves nothing behind, and an existing file as it is.
    """
    try:
        _try(_target(path))
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def _try(target: str) -> None:
    if os.path.isdir(target):
        raise IsADirectoryError(21, "it is a folder")
    if _is_special(target):
        number = _own_number(target)
        if number is not None:
            os.write(number, b"")  # is it open, and for writing?
        elif not os.access(target, os.W_OK):
            raise PermissionError(13, "permission denied")
        return
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(13, "the file is read-only")
    os.unlink(_create(target, PRIVATE))


def check_changeable(path: str | os.PathLike[str]) -> None:
    """Raises ReportError unless a new file may take this one's place now.

    It must be writable, and go by one name: others would keep the old file.
    """
    try:
        target = _target(path)
        _try(target)
        names = os.stat(target).st_nlink
    except (OSError, ValueError) as error:
        raise _unchangeable(path, _reason(error), "make it writable") from None
    if names > 1:
        reason = f"{names} names (hard links) stand for it"
        raise _unchangeable(path, reason, "copy it to a file of its own")


def write_atomic(
    path: str | os.PathLike[str],
    data: bytes,
    mode: int = PRIVATE,
    sync: bool = True,
) -> None:
    """Writes beside ``path`` and renames; ReportError where that fails.

    A file that is there keeps its mode and owner.  Without ``sync`` the disk
    is not waited for: what loses its power then may have the file of before.
    """
    try:
        target = _target(path)
        if _is_special(target):
            written(lambda: _fill(target, data, sync=False))
            return
        beside = _create(target, mode)
        try:
            _put(target, beside, data, sync)
        except BaseException:
            os.unlink(beside)
            raise
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def _put(target: str, beside: str, data: bytes, sync: bool) -> None:
    written(lambda: _fill(beside, data, sync))
    with suppress(OSError):  # a new file has none to keep
        _make_like(beside, os.stat(target))
    os.replace(beside, target)


def _make_like(beside: str, there: os.stat_result) -> None:
    """Mode and owner; never of what somebody has put in its place since."""
    number = os.open(beside, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        _give(number, there)
    finally:
        os.close(number)


def _give(number: int, there: os.stat_result) -> None:
    own = os.fstat(number)
    if own.st_nlink != 1 or own.st_uid != os.geteuid():
        return
    with suppress(OSError):  # nobody but root may give files away
        os.fchown(number, there.st_uid, there.st_gid)
    os.fchmod(number, stat.S_IMODE(there.st_mode))


#: Seconds until a pipe without room is asked again.
PAUSE = 0.005
#: Seconds that who reads a pipe has to take all of it.
PATIENCE = 5.0


def _fill(file: str, data: bytes, sync: bool) -> None:
    if stat.S_ISFIFO(os.stat(file).st_mode):
        _fill_pipe(file, data)
        return
    number = _own_number(file)
    # What is open goes on from where it is: an open for writing would empty
    # a file that the output goes to.
    with io.open(
        file if number is None else number, "wb", closefd=number is None
    ) as stream:
        stream.write(data)
        if sync:
            stream.flush()
            os.fsync(stream.fileno())


def _fill_pipe(pipe: str, data: bytes) -> None:
    """Waits for nobody who would open it, nor long for who reads it."""
    number = _open_pipe(pipe)
    try:
        _feed(number, data)
    finally:
        os.close(number)


def _open_pipe(pipe: str) -> int:
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(error.errno, "nobody reads this pipe") from None


def _feed(number: int, data: bytes) -> None:
    rest, end = memoryview(data), monotonic() + PATIENCE
    while rest:
        taken = _take(number, rest[:PIPE_BUF])
        rest = rest[taken:]
        if taken == 0:
            if monotonic() > end:
                raise TimeoutError(
                    errno.ETIMEDOUT, "who reads this pipe is too slow"
                )
            sleep(PAUSE)


def _take(number: int, piece: memoryview) -> int:
    """All of it, or 0 where a pipe has no room for that."""
    try:
        return os.write(number, piece)
    except BlockingIOError:
        return 0


def _create(target: str, mode: int) -> str:
    """Makes an empty file beside ``target``: nobody else's, no link."""
    folder, name = os.path.split(target)
    for attempt in range(100):
        beside = os.path.join(folder, f".{name}.{getpid()}.{attempt}.tmp")
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            number = os.open(beside, flags, mode)
        except FileExistsError:
            continue
        try:
            _open_to_owner(number)
        except OSError:
            os.unlink(beside)
            raise
        return beside
    raise FileExistsError(17, "too many unfinished files beside it")


def _open_to_owner(number: int) -> None:
    """Whatever the program's umask takes away; closes it."""
    try:
        mode = stat.S_IMODE(os.fstat(number).st_mode)
        if mode & PRIVATE != PRIVATE:
            os.fchmod(number, mode | PRIVATE)
    finally:
        os.close(number)


def _unwritable(
    path: str | os.PathLike[str], error: OSError | ValueError
) -> ReportError:
    return ReportError(
        f"cannot write {os.fspath(path)!r}: {_reason(error)}; choose a file in"
        " a folder that exists and can be written"
    )


def _unchangeable(
    path: str | os.PathLike[str], reason: str, remedy: str
) -> ReportError:
    return ReportError(
        f"cannot change {os.fspath(path)!r}: {reason}; {remedy}, or apply the"
        " diff by hand"
    )


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def from_here(file: str) -> str | None:
    """A file's name from the working folder; None where it is not below it,
    or where there is none any more."""
    try:
        here, full = os.getcwd() + os.sep, os.path.abspath(file)
    except (OSError, ValueError):
        return None
    return full[len(here) :] if full.startswith(here) else None


#: Bytes of a report, or of another text that is read: a thousand times one of
#: a usual run.  A device such as /dev/zero would give them without end.
MOST_READ = 256 << 20


def read_whole(path: str | os.PathLike[str], regular: bool = False) -> bytes:
    """A file's bytes; OSError also where there are more than MOST_READ.

    ``regular``: nothing else is read, and nobody waited for who has the other
    end of a pipe.
    """
    with io.open(
        path, "rb", opener=open_regular if regular else None
    ) as stream:
        data = stream.read(MOST_READ + 1)
    if len(data) > MOST_READ:
        why = os.strerror(errno.EFBIG)
        raise OSError(errno.EFBIG, why, os.fspath(path))
    return data


def open_regular(path: str, flags: int) -> int:
    """An opener that opens nothing else, and waits for nobody."""
    # Opened, a pipe would let go of who waits to write into it.
    if not stat.S_ISREG(posix.stat(path).st_mode):
        raise OSError(errno.EINVAL, "no regular file", path)
    number = posix.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(posix.fstat(number).st_mode):
        posix.close(number)
        raise OSError(errno.EINVAL, "no regular file", path)
    return number


def kernel_file(pid: int, name: str) -> TextIO:
    """What the kernel says of a process: names in it need be no UTF-8."""
    return io.open(
        f"/proc/{pid}/{name}", encoding="utf-8", errors="surrogateescape"
    )


def stat_fields(pid: int) -> list[str]:
    """What the kernel says of a process behind its name, its state first;
    OSError where there is none."""
    with kernel_file(pid, "stat") as stream:
        return stream.read().rpartition(")")[2].split()


def path_bytes(path: str) -> bytes:
    """A path as the system has it, where names of files are UTF-8."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # no system's: of code without a file
        return path.encode("utf-8", "surrogatepass")


def from_working_folder(path: str) -> str:
    """A file or folder that is to be written, by its whole name.

    Raises ReportError where there is no working folder any more.
    """
    try:
        return os.path.abspath(path)
    except OSError:
        raise ReportError(
            f"cannot write {path!r}: the working folder is gone; give a whole"
            " path, or change to a folder that exists"
        ) from None


def absolute(path: str) -> str:
    """``os.path.abspath``, also where there is no working folder any more."""
    try:
        return os.path.abspath(path)
    except OSError:
        return os.path.normpath(path)


def own_prefix() -> str:
    """The folder of this package, as its files' names begin."""
    room = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(room) + os.sep
