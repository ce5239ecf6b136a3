"""Retaining paths: one typed edge after the other."""

from __future__ import annotations

import re
from dataclasses import field

from ..base.records import dataclass

#: Edges that repeat this often in a row are printed once, with a count.
RUN_LENGTH = 4
#: Longest pattern of edges that is looked for in a run.
RUN_PERIOD = 4
#: What an edge goes by, in brackets: ``[17]``, ``['loss']``, ``.saved[mat1]``.
_ITEM = re.compile(r"[^\[]*\[(.*)\]", re.DOTALL)
_QUOTED = re.compile(r"(['\"])(.*)\1", re.DOTALL)
#: What stands before a variable's name, with a hook's function perhaps.
_FRAMING = re.compile(
    "(?:\N{RIGHTWARDS ARROW}[^.]*)?(?:\\.<closure>\\.|\\.<locals>\\.)|\\."
)
_INDEX = re.compile(r"\[\d+\]|\[(['\"])[^\]]*\d[^\]]*\1\]")
_COUNT = re.compile(r" \u00d7\d+ ?")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Edge:
    """One reference on a path.

    ``kind`` is the sort of reference (attribute, key, index, cell, node,
    ...), ``name`` what it is called there, ``type`` the type of the object
    it leads to, ``text`` the piece as printed: ``.history``, ``[17]``,
    ``.<closure>.store``, ``.grad_fn\N{RIGHTWARDS ARROW}AddBackward0``.

    ``retained_bytes`` of tensor memory, and ``retained_node_bytes`` of
    autograd nodes, hang on that object alone: they would be freed if it were
    empty.  None: not measured.  They are figures of one moment, and no part
    of what the reference is: edges are equal without them.
    """

    kind: str
    name: str
    type: str
    text: str
    retained_bytes: int | None = field(default=None, compare=False)
    retained_node_bytes: int | None = field(default=None, compare=False)

    @property
    def is_item(self) -> bool:
        """Whether it is one of several: an index or a key."""
        return self.kind in ("index", "key")


def name_in(text: str) -> str:
    """What a printed edge is called: ``history``, ``17``, ``loss``."""
    item = _ITEM.fullmatch(text)
    if item is not None:
        quoted = _QUOTED.fullmatch(item[1])
        return quoted[2] if quoted else item[1]
    framing = _FRAMING.match(text)
    return text[framing.end() :] if framing else text


def compress_runs(texts: list[str]) -> tuple[str, bool]:
    """Joins texts; a pattern repeated 4 times or more is printed once.

    Returns the text and whether anything was shortened:
    ``.prev .prev .prev .prev .x`` -> ``(".prev x4 .x", True)``, with a
    multiplication sign; a pattern of several edges stands in braces.
    """
    pieces: list[str] = []
    shortened = False
    at = 0
    while at < len(texts):
        period, times = _run_at(texts, at)
        if times < RUN_LENGTH:
            pieces.append(texts[at])
            at += 1
            continue
        pattern = "".join(texts[at : at + period])
        once = pattern if period == 1 else "{" + pattern + "}"
        pieces.append(f"{once} \u00d7{times} ")
        shortened = True
        at += period * times
    return "".join(pieces).rstrip(), shortened


def _run_at(texts: list[str], at: int) -> tuple[int, int]:
    """(period, times) of the longest run of a short pattern at ``at``."""
    best = (1, 1)
    for period in range(1, RUN_PERIOD + 1):
        end = at + period
        while end < len(texts) and texts[end] == texts[end - period]:
            end += 1
        times = (end - at) // period
        if times >= RUN_LENGTH and times * period > best[0] * best[1]:
            best = (period, times)
    return best


@dataclass(frozen=True)
class Path:
    """A retaining path, from ``root`` over ``edges`` to a tensor.

    ``python`` says whether ``str(path)`` can be evaluated in the program.
    A path that is printed shortened is not, so the flag is lowered then;
    ``expression`` is never shortened.  ``library`` says that it starts in a
    library and not in the user's own code.
    """

    root: str
    edges: tuple[Edge, ...] = ()
    python: bool = False
    library: bool = False

    def __post_init__(self) -> None:
        if self.python and self._compressed()[1]:
            object.__setattr__(self, "python", False)

    @property
    def measured(self) -> bool:
        """Whether it is known what some object on it retains."""
        return any(edge.retained_bytes is not None for edge in self.edges)

    def _compressed(self) -> tuple[str, bool]:
        return compress_runs([edge.text for edge in self.edges])

    def __str__(self) -> str:
        return self.root + self._compressed()[0]

    @property
    def expression(self) -> str:
        """The whole path, every edge of it."""
        return self.expression_upto(len(self.edges))

    def expression_upto(self, depth: int) -> str:
        """Of its first edges, as many as ``depth`` says."""
        return self.root + "".join([e.text for e in self.edges[:depth]])

    def upto(self, depth: int) -> Path:
        """Its first edges, as many as ``depth`` says."""
        return Path(self.root, self.edges[:depth], library=self.library)

    def depth_of(self, expression: str) -> int:
        """How many edges lead to what is printed so; 0 where none do."""
        depth = len(self.edges)
        while depth and str(self.upto(depth)) != expression:
            depth -= 1
        return depth


def pattern_of(path: Path) -> str:
    """The path with indices, counts and addresses left out."""
    # Before runs are shortened: of ``[0][0][0][0]`` and ``[0][0][0][2]`` one
    # is a run.
    texts = [without_numbers(edge.text) for edge in path.edges]
    return without_numbers(path.root + compress_runs(texts)[0])


def without_numbers(text: str) -> str:
    """A printed path with its indices, counts and addresses left out."""
    text = _ADDRESS.sub("0x", _COUNT.sub("", text))
    return _INDEX.sub("[*]", text)
