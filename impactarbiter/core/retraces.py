"""Functions that are compiled anew, call after call, and what varies.

Only what a compiler is asked for is seen: a call that finds what was compiled
before costs nothing here.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from types import CodeType, FrameType, FunctionType
from typing import Any

from .. import _core

#: Traces of one function from which it is said,
LEAST = 8
#: and of how many of its later calls one at least was traced: one that serves
#: more has paid for itself;
SERVES = 4
#: but where there are so many, that they go on is enough: a program tries a
#: few values, each for long.
MANY = 64
#: Signatures of one function that are kept for telling what varies.
KEPT = 16
#: Calls of one function that are remembered to have been traced.
REMEMBERED = 4096
#: Functions that are told apart.
MOST = 1024
#: Types of values that are told.
PLAIN = (int, float, complex, bool, str, bytes, type(None))
#: Of a value that is compared by code of its own.
_ADDRESS = "object at "
#: Frames and arguments that are looked through for a function's place.
SEARCHED = 64

_Key = tuple[str, int, str]
#: Path of an argument -> (what the compiler makes a difference of, which); a
#: value of which only the address is known may be equal to another.
Signature = dict[str, tuple[str, str]]


class Traced:
    """One function: how often it was traced, and for what.

    ``named``: the arguments go by the names that it has for them.
    """

    def __init__(
        self, file: str, line: int, name: str, named: bool = True
    ) -> None:
        self.file: str = file
        self.line: int = line
        self.name: str = name
        self.named = named
        self.traces: int = 0
        self.objects: int = 0  #: functions that were compiled
        self.calls: int = 0  #: since the first trace
        self._last: tuple[weakref.ref[Any], ...] = ()
        self.signatures: list[Signature] = []
        self._traced_at: deque[int] = deque(maxlen=REMEMBERED)

    def note(
        self, objects: tuple[Any, ...], signature: Signature, calls: int
    ) -> None:
        """One more trace, of these objects, after so many calls."""
        self.traces += 1
        last = [ref() for ref in self._last]
        self.objects += list(map(id, objects)) != list(map(id, last))
        self._last = tuple(map(weakref.ref, objects))
        self._traced_at.append(calls)
        self.signatures.append(signature)
        del self.signatures[:-KEPT]

    @property
    def goes_on(self) -> bool:
        """Whether it was traced more than a few times, and that has no end
        and serves little."""
        if self.traces < LEAST:
            return False
        half = self.calls // 2
        late = sum(at >= half for at in self._traced_at)
        return SERVES * late >= self.calls - half or (
            self.traces >= MANY and SERVES * late >= self.traces
        )

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
        sure = [name for name in differing if not self._is_address(name)]
        words = [self._in_words(name) for name in (sure or differing)]
        return ", ".join(list(dict.fromkeys(words))[:3])

    def _is_address(self, name: str) -> bool:
        return self._newest(name)[1].startswith(_ADDRESS)

    def _newest(self, name: str) -> tuple[str, str]:
        return [s[name] for s in self.signatures if name in s][-1]

    def _in_words(self, name: str) -> str:
        kind, value = self._newest(name)
        if self.named:
            return f"{kind} `{name}` (now {value})"
        which = "" if kind.endswith("argument") else " an argument"
        return f"{kind}{which} (now {value})"


_known: dict[_Key, Traced] = {}
_numbers: dict[_Key, int] = {}


def forget() -> None:
    """A watch begins: what was traced before does not count."""
    _known.clear()
    _numbers.clear()


def noted(
    compiled: Any, function: Any, args: tuple[Any, ...], kwargs: Any
) -> int | None:
    """A call of ``compiled``, which was made of the program's ``function``,
    was traced; its number.  Keeps none of the arguments."""
    function = _called(function)
    if function is None:
        return None
    given = _namesake(function, args)
    place = _place(function, given, sys._getframe(1))
    one = _known.get(place)
    if one is None:
        if len(_known) >= MOST:
            return None
        one = _known[place] = Traced(*place, not _is_librarys(function))
        _numbers[place] = len(_numbers)
    number = _numbers[place]
    objects = compiled, given or function
    signature = _signature(compiled, function.__code__, args, kwargs or {})
    one.note(objects, signature, _calls(number))
    return number


def often() -> list[Traced]:
    """Functions that are traced over and over, the most first."""
    for place, one in _known.items():
        one.calls = _calls(_numbers[place])
    found = [one for one in _known.values() if one.goes_on]
    return sorted(found, key=lambda one: -one.traces)


def said(masked: bool = False) -> list[str]:
    """A line for each of the functions that are compiled over and over."""
    lines = []
    for one in often()[:4]:
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


# -- whose, and where ---------------------------------------------------------


def _calls(number: int) -> int:
    from .. import _arrays

    return _arrays.calls(number)


def _called(function: Any) -> FunctionType | None:
    """What runs where it is called: its own code, or its class's."""
    if type(function) is FunctionType:
        return function
    for cls in type.__getattribute__(type(function), "__mro__"):
        call = type.__getattribute__(cls, "__dict__").get("__call__")
        if call is not None:
            return call if type(call) is FunctionType else None
    return None


def _is_librarys(function: FunctionType) -> bool:
    return _core.is_library(function.__code__.co_filename)


def _place(
    function: FunctionType, given: FunctionType | None, frame: FrameType | None
) -> _Key:
    """(file, line, name) of what the program wrote: of a library's function
    that of what it was ``given``, else of the program's call."""
    name, code = _name(function), (given or function).__code__
    for _ in range(SEARCHED):
        if frame is None or given is not None or not _is_librarys(function):
            break
        if not _core.is_library(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, name
        frame = frame.f_back
    return code.co_filename, code.co_firstlineno, name


def _name(function: FunctionType) -> str:
    return function.__qualname__.rpartition("<locals>.")[2]


def _namesake(
    function: FunctionType, args: tuple[Any, ...]
) -> FunctionType | None:
    """What a library's function was given and is named after, as that of
    equinox.filter_jit(), which calls one of its arguments."""
    if not _is_librarys(function):
        return None
    left: deque[Any] = deque(args)
    for _ in range(SEARCHED):
        if not left:
            break
        one = left.popleft()
        if type(one) is tuple:
            left.extend(one[:SEARCHED])
        elif type(one) is FunctionType:
            same = one.__qualname__ == function.__qualname__
            if same and one is not function:
                return one
    return None


# -- what varies --------------------------------------------------------------


def _signature(
    compiled: Any, code: CodeType, args: tuple[Any, ...], kwargs: Any
) -> Signature:
    cache: Any = getattr(compiled, "_function_cache", None)
    if cache is not None:
        return _of_types(list(cache.values())[-1].function_type)
    names = code.co_varnames[: code.co_argcount]
    found: Signature = {}
    static = _static(compiled, names)
    for at, value in enumerate(args):
        name = names[at] if at < len(names) else f"argument {at}"
        _describe(found, name, value, name in static or at in static)
    for name, value in kwargs.items():
        _describe(found, str(name), value, name in static)
    return found


def _of_types(function_type: Any) -> Signature:
    """What TensorFlow notes of a trace: the type of each parameter, of a
    Python value the value itself."""
    found: Signature = {}
    for name, parameter in function_type.parameters.items():
        _describe_type(found, str(name), parameter.type_constraint)
    return found


def _describe_type(
    found: Signature, name: str, kind: Any, depth: int = 0
) -> None:
    """TensorFlow's own classes are opened or quoted, no others."""
    if len(found) >= 64:
        return
    of_own = type(kind).__module__.partition(".")[0] == "tensorflow"
    what = type(kind).__name__ if of_own else ""
    if what in ("Tuple", "List") and depth < 3:
        inner = kind if what == "Tuple" else kind.components_tuple
        found[name] = "length of", str(len(inner.components))
        for at, one in enumerate(inner.components[:16]):
            _describe_type(found, f"{name}[{at}]", one, depth + 1)
    elif what == "Dict" and depth < 3:
        found[name] = "keys of", str(len(kind.mapping))
        for key, one in list(kind.mapping.items())[:16]:
            part = f"{name}[{key!r}]" if type(key) is str else f"{name}[...]"
            _describe_type(found, part, one, depth + 1)
    elif what == "Literal" and type(kind.value) in PLAIN:
        found[name] = "Python value of", repr(kind.value)[:40]
    elif what == "Weakref":
        found[name] = "Python object", f"{_ADDRESS}{id(kind._ref()):#x}"
    elif what.endswith("Spec"):
        found[name] = "shape of", str(kind)[:60]
    else:
        found[name] = "type of", what or type(kind).__name__


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
    if static and type(value) is not tuple:
        text = (
            repr(value)[:40]
            if type(value) in PLAIN
            else f"{_ADDRESS}{id(value):#x}"
        )
        found[name] = "static argument", text
        return
    if type(value) in (list, tuple) and depth < 3:
        found[name] = "length of", str(len(value))
        for at, item in enumerate(value[:16]):
            _describe(found, f"{name}[{at}]", item, static, depth + 1)
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
