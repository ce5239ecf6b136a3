"""Hooks into JAX and TensorFlow (C extension).

Importing it imports no framework and installs nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any

def register() -> None: ...
def install_jax(
    array_class: type,
    function_class: type,
    called_classes: tuple[type, ...],
    /,
) -> None:
    """Births, deaths and calls of what was compiled; idempotent.

    Raises RuntimeError or AttributeError where the classes are others.
    """

def know_jax(array_class: type, /) -> None:
    """A walk knows what its arrays are."""

def install_tensorflow(
    tensor_class: type,
    tape_class: type,
    called_classes: tuple[type, ...],
    /,
) -> None:
    """The same; objects of tape_class are C++'s gradient tapes."""

def know_tensorflow(tensor_class: type, tape_class: type, /) -> None: ...
def backward() -> None:
    """Gradients were taken: a step, unless something compiled is running,
    which trains."""

def training(function: Callable[..., Any], /) -> Callable[..., Any]:
    """Calls the function, its ``__self__``: what compiled runs then trains."""

def watch_function(compiled: object, function: object, /) -> None:
    """Calls of one that was compiled before the watch."""

def program_function(function: object, /) -> Any:
    """What the program wrote of it, behind wrappers; None where nothing."""

def note(arrays: Iterable[object], /) -> None:
    """Arrays of before the watch."""

def sweep() -> None:
    """What was deleted leaves the ledger."""

def forget() -> None:
    """All that is known of arrays, where nothing is watched."""

def uninstall() -> None: ...
def installed() -> dict[str, bool]: ...
def count() -> int:
    """Arrays that are known."""

def traced() -> None:
    """A function is being traced: its call is told to the listener."""

def listen(
    function: Callable[
        [Any, Any, tuple[Any, ...], dict[str, Any] | None], object
    ]
    | None,
    /,
) -> None: ...
def calls(number: int, /) -> int:
    """Outermost calls of a function since it was given that number."""
