"""Errors that ImpactArbiter raises on purpose.

Each message is one line: what is wrong, what was expected, what to do.
``exit_code`` is what the command line ends with.  What a message seldom needs
is imported for it: this module comes with every ``import`` of the package.
"""

from __future__ import annotations

import sys

#: Between a framework's name and why, in a report's warning.
NOT_WATCHED = " is not watched: "


class ImpactArbiterError(Exception):
    """Base of every error of this package."""

    exit_code = 2


class UsageError(ImpactArbiterError):
    """An option, argument or value that was not understood."""


class WrongTypeError(UsageError, TypeError):
    """An argument of a type that nothing can be done with."""


class ReportError(ImpactArbiterError):
    """A report that cannot be read, or cannot be written."""


class NotBuiltError(ImpactArbiterError, ImportError):
    """The C modules are not there, or were built for another torch."""


class MissingExtraError(ImpactArbiterError, ImportError):
    """An optional package is not installed; names all that its extra brings.

    Not the extra: pip would look for us on its index, wherever we came from.
    """

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        wanted = " ".join(requirements(extra) or [package])
        super().__init__(
            f"{purpose} needs {package}, which is not installed:"
            f" pip install {wanted}"
        )
        self.package = package
        self.extra = extra


def in_words(error: BaseException) -> str:
    """Its type and what it says, where its class can say it."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return f"{type(error).__name__}, which cannot be shown"


def extras() -> list[str]:
    """What may be installed besides, [] where we are not installed."""
    from importlib import metadata

    try:
        told = metadata.metadata("impactarbiter").get_all("Provides-Extra")
    except metadata.PackageNotFoundError:
        return []
    return list(told or [])


def requirements(extra: str) -> list[str]:
    """What an extra of ours asks for here, each quoted for a shell."""
    import re
    import shlex
    from importlib import metadata

    try:
        found = metadata.requires("impactarbiter") or []
    except metadata.PackageNotFoundError:
        return []
    wanted = []
    for line in found:
        name, _, condition = line.partition(";")
        needed = re.search(r"""python_version < ["']3\.(\d+)""", condition)
        if needed and sys.version_info >= (3, int(needed[1])):
            continue
        if re.search(rf"""extra == ["']{re.escape(extra)}["']""", condition):
            wanted.append(shlex.quote(name.strip()))
    return wanted


class AlreadyWatchingError(ImpactArbiterError, RuntimeError):
    """A second ``watch()`` while one is active."""
