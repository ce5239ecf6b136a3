"""Which functions of an allocation's native stack say whose it is."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..model.finding import NativeCall

#: Functions that are told.
MOST = 4
#: Torch's functions that are told where there are none but its own.
MOST_OF_TORCH = 2
#: What is compiled from templates of these into a user's library is theirs.
_PLUMBING = re.compile(
    r"(?:at|c10|caffe2|pybind11|std|torch|__gnu_cxx|operator new)\b"
)
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = re.compile(r"/torch/(?:lib/)?[^/]+$")


def function_of(symbol: str) -> str:
    """A symbol without its parameters and the type that it returns."""
    depth, begin = 0, 0
    symbol = symbol.replace("(anonymous namespace)", "anonymous")
    for at, letter in enumerate(symbol):
        if letter == "(" and not depth:
            return symbol[begin:at]
        depth += (letter in "<(") - (letter in ">)")
        if letter == " " and not depth:
            begin = at + 1
    return symbol[begin:]


def telling(calls: Sequence[NativeCall]) -> tuple[NativeCall, ...]:
    """The innermost calls of who called torch; of torch alone the outermost,
    what Python called."""
    theirs = [c for c in calls if os.path.dirname(c.library) != _OURS]
    others = [
        call
        for call in theirs
        if not _TORCH.search(call.library)
        and not _PLUMBING.match(function_of(call.symbol))
    ]
    named = [call for call in theirs if call.symbol]
    return tuple(others[:MOST] or named[-MOST_OF_TORCH:])
