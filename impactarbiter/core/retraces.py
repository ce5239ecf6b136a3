"""Functions that are compiled anew, call after call, and what varies.

Only what a compiler is asked for is seen: a call that finds what was compiled
before costs nothing here.
"""

from __future__ import annotations

import os
from types import CodeType
from typing import Any

#: Traces of one function from which it is said.
LEAST = 8
#: Signatures of one function that are kept for telling what varies.
KEPT = 16
#: Functions that are told apart.
MOST = 1024

_Key = tuple[str, int, str]
#: Path of an argument -> (what the compiler makes a difference of, which).
Signature = dict[str, tuple[str, str]]


class Traced:
    """One function: how often it was traced, and for what."""

    def __init__(self, file: str, line: int, name: str) -> None:
        self.file: str = file
        self.line: int = line
        self.name: str = name
        self.traces: int = 0
        self.objects: int = 0  #: compiled functions that were made of it
        self._last = 0
        self.signatures: list[Signature] = []

    def note(self, compiled: object, signature: Signature) -> None:
        """One more trace, of this compiled function."""
        self.traces += 1
        self.objects += id(compiled) != self._last
        self._last = id(compiled)
        self.signatures.append(signature)
        del self.signatures[:-KEPT]

    def varies(self) -> str:
        """What differed between the traces, in words; "" where nothing."""
        if self.objects > 1 and self.objects > self.traces // 2:
            return "compiled anew from a new function object each time"
        names = {name for one in self.signatures for name in one}
        differing = [
            name
            for name in sorted(names)
            if len({one.get(name) for one in self.signatures}) > 1
        ]
        return ", ".join(self._in_words(name) for name in differing[:3])

    def _in_words(self, name: str) -> str:
        kind, value = [s[name] for s in self.signatures if name in s][-1]
        return f"{kind} `{name}` (now {value})"


_known: dict[_Key, Traced] = {}


def forget() -> None:
    """A watch begins: what was traced before does not count."""
    _known.clear()


def noted(compiled: Any, args: tuple[Any, ...], kwargs: Any) -> None:
    """A call of ``compiled`` was traced; keeps none of the arguments."""
    function = _function_of(compiled)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    key = (code.co_filename, code.co_firstlineno, code.co_name)
    one = _known.get(key)
    if one is None:
        if len(_known) >= MOST:
            return
        one = _known[key] = Traced(*key)
    one.note(compiled, _signature(compiled, code, args, kwargs or {}))


def often(*more: Traced) -> list[Traced]:
    """Functions that were traced more than a few times, the most first."""
    every = (*_known.values(), *more)
    found = [one for one in every if one.traces >= LEAST]
    return sorted(found, key=lambda one: -one.traces)


def said(masked: bool = False, *more: Traced) -> list[str]:
    """A line for each of the functions that are compiled over and over."""
    lines = []
    for one in often(*more)[:4]:
        name = "a function" if masked else f"{one.name}()"
        place = f"{os.path.basename(one.file)}:{one.line}"
        where = "" if masked else f" ({place})"
        why = one.varies()
        words = f"{why}: " if why and not masked else ""
        lines.append(
            f"{words}{one.traces} traces of {name}{where}; the framework's"
            " cache keeps what each one compiled, and the constants that it"
            " captured"
        )
    return lines


def _function_of(compiled: Any) -> Any:
    """What the user wrote, behind the framework's wrappers."""
    function = compiled
    for name in ("_fun", "_python_function", "python_function"):
        function = getattr(compiled, name, None)
        if function is not None:
            break
    for _ in range(8):
        inner = getattr(function, "__wrapped__", None)
        inner = inner or getattr(function, "func", None)
        if inner is None:
            return function
        function = inner
    return function


def _signature(
    compiled: Any, code: CodeType, args: tuple[Any, ...], kwargs: Any
) -> Signature:
    names = code.co_varnames[: code.co_argcount]
    found: Signature = {}
    static = _static(compiled, names)
    for at, value in enumerate(args):
        name = names[at] if at < len(names) else f"argument {at}"
        _describe(found, name, value, name in static or at in static)
    for name, value in kwargs.items():
        _describe(found, str(name), value, name in static)
    return found


def _static(compiled: Any, names: tuple[str, ...]) -> set[object]:
    info = getattr(compiled, "_jit_info", None)
    numbers = getattr(info, "static_argnums", None) or ()
    given = getattr(info, "static_argnames", None) or ()
    return {*numbers, *given}


def _describe(
    found: Signature, name: str, value: Any, static: bool, depth: int = 0
) -> None:
    """Exact built-in containers are opened: others have code of their own."""
    if len(found) >= 64:
        return
    if static:
        plain = type(value) in (int, float, bool, str, type(None))
        text = repr(value)[:40] if plain else f"object at {id(value):#x}"
        found[name] = "static argument", text
        return
    if type(value) in (list, tuple) and depth < 3:
        found[name] = "length of", str(len(value))
        for at, item in enumerate(value[:16]):
            _describe(found, f"{name}[{at}]", item, False, depth + 1)
    elif type(value) is dict and depth < 3:
        found[name] = "keys of", str(len(value))
        for key, item in list(value.items())[:16]:
            inner = f"{name}[{key!r}]" if type(key) is str else f"{name}[...]"
            _describe(found, inner, item, False, depth + 1)
    else:
        found[name] = _kind(value)


def _kind(value: Any) -> tuple[str, str]:
    shape: Any = getattr(value, "shape", None)
    if type(shape) is tuple or type(shape).__name__ == "TensorShape":
        return "shape of", f"{tuple(shape)} {getattr(value, 'dtype', '')}"
    return "type of", type(value).__name__
