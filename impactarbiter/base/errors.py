"""Errors that ImpactArbiter raises on purpose.

Each message is one line: what is wrong, what was expected, what to do.
``exit_code`` is what the command line ends with.
"""

from __future__ import annotations


class ImpactArbiterError(Exception):
    """Base of every error of this package."""

    exit_code = 2


class UsageError(ImpactArbiterError):
    """An option, argument or value that was not understood."""


class ReportError(ImpactArbiterError):
    """A report that cannot be read, or cannot be written."""


class MissingExtraError(ImpactArbiterError, ImportError):
    """An optional package is not installed; names the extra that brings it."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed:"
            f" pip install 'impactarbiter[{extra}]'"
        )
        self.package = package
        self.extra = extra


class AlreadyWatchingError(ImpactArbiterError, RuntimeError):
    """A second ``watch()`` while one is active."""
