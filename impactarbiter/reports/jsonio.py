"""A report as JSON and back.

Reading checks every field against the dataclasses' own annotations and
executes nothing.  Fields that this version does not know are ignored;
fields without a default must be there.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import types
import typing
from collections.abc import Mapping
from typing import Any, NoReturn

from ..base.errors import ImpactArbiterError, ReportError
from ..base.files import read_whole, write_atomic
from ..model.finding import Finding
from ..model.path import Path
from ..model.process import Process
from ..model.report import SCHEMA, Report

_INT_LIMIT = 1 << 63
#: More than any job has.
MOST_RANKS = 1 << 20
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
_REMEDY = "give a file that `impactarbiter run --json` wrote"


def report_to_dict(report: Report) -> dict[str, Any]:
    """Plain dicts, lists, strings and finite numbers, ``schema`` first."""
    return {"schema": SCHEMA, **_encode(report)}


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Not by fields(): a dataclasses that the program has imported anew
        # knows none of those that were made before.
        names = type(value).__dataclass_fields__
        data = {name: _encode(getattr(value, name)) for name in names}
        if isinstance(value, Path):
            # For readers of the file only: from_dict makes it again.
            data["text"] = str(value)
        return data
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def plain(value: Any) -> Any:
    """Any of the model's things as dicts, lists, strings and numbers."""
    return _encode(value)


def read_plain(kind: type, data: Any, source: str) -> Any:
    """The inverse of ``plain`` for one kind; ReportError names the field."""
    return _Decoder(source).record(kind, data, "")


def finding_to_dict(finding: Finding) -> dict[str, Any]:
    """One finding, as a report has it."""
    encoded: dict[str, Any] = _encode(finding)
    return encoded


def report_json(report: Report) -> bytes:
    """UTF-8 JSON; what UTF-8 cannot hold is escaped."""
    text = json.dumps(report_to_dict(report), indent=1, ensure_ascii=False)
    return (text + "\n").encode("utf-8", "backslashreplace")


def write_json(report: Report, path: str | os.PathLike[str]) -> None:
    """Writes ``report_json`` atomically; ReportError where it can't."""
    write_atomic(path, report_json(report))


def load_report(path: str | os.PathLike[str]) -> Report:
    """Reads and checks a file; every failure is one ReportError line."""
    return report_from_dict(read_json(path), os.fspath(path))


def read_json(path: str | os.PathLike[str], regular: bool = False) -> Any:
    """A file's JSON, whatever it is; ReportError where there is none, and of
    a pipe or device where it is to be a ``regular`` file."""
    name = os.fspath(path)
    try:
        raw = read_whole(name, regular)
    except (OSError, ValueError) as error:
        # A name that no system has is a ValueError.
        reason = getattr(error, "strerror", None) or str(error)
        reason = reason.lower()
        raise ReportError(f"cannot read {name!r}: {reason}; {_REMEDY}") from (
            None
        )
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "unreadable"
        raise ReportError(
            f"{name!r} is no JSON ({reason}): expected a report; {_REMEDY}"
        ) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def report_from_dict(data: object, source: str = "report") -> Report:
    """The inverse of ``report_to_dict``."""
    if not isinstance(data, dict) or "schema" not in data:
        raise ReportError(
            f'{source!r} is no report: expected "schema": "{SCHEMA}";'
            f" {_REMEDY}"
        )
    if data["schema"] != SCHEMA:
        found = _show(data["schema"])
        raise ReportError(
            f'{source!r} has schema {found}: expected "{SCHEMA}"; read it'
            " with the version of impactarbiter that wrote it"
        )
    decoder = _Decoder(source)
    report = typing.cast(Report, decoder.record(Report, data, ""))
    if report.process is not None:
        decoder.check_ranks(report.process)
    return report


@functools.cache
def _annotations(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _show(value: object) -> str:
    """A value for an error line: short, on one line, harmless."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


class _Decoder:
    """Builds dataclasses from plain data, or says which field is wrong."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, where: str, problem: str) -> NoReturn:
        field = where or "report"
        raise ReportError(f"{self.source!r}: {field} {problem}; {_REMEDY}")

    def check_ranks(self, process: Process) -> None:
        """Ranks that are missing are listed one by one."""
        for name in ("rank", "local_rank", "world_size", "restart"):
            value = getattr(process, name)
            if value is not None and not 0 <= value <= MOST_RANKS:
                self.fail(
                    f"process.{name}",
                    f"is {value}: expected 0 to {MOST_RANKS:,}",
                )

    def record(self, kind: type, data: Any, where: str) -> Any:
        if not isinstance(data, dict):
            self.fail(where, f"is {_show(data)}: expected an object")
        values: dict[str, Any] = {}
        for item in dataclasses.fields(kind):
            field = f"{where}.{item.name}" if where else item.name
            if item.name in data:
                annotation = _annotations(kind)[item.name]
                values[item.name] = self.value(
                    annotation, data[item.name], field
                )
            elif (
                item.default is dataclasses.MISSING
                and item.default_factory is dataclasses.MISSING
            ):
                self.fail(field, "is missing")
        try:
            return kind(**values)
        except ImpactArbiterError as error:
            self.fail(where, f"is wrong: {error}")

    def value(self, kind: Any, data: Any, where: str) -> Any:
        origin = typing.get_origin(kind)
        if origin in (types.UnionType, typing.Union):
            if data is None:
                return None
            (inner,) = (
                arg for arg in typing.get_args(kind) if arg is not type(None)
            )
            return self.value(inner, data, where)
        if origin is typing.Literal:
            return self.word(typing.get_args(kind), data, where)
        if origin is tuple:
            return self.items(typing.get_args(kind), data, where)
        if origin is Mapping:
            return self.mapping(typing.get_args(kind)[1], data, where)
        if dataclasses.is_dataclass(kind):
            return self.record(typing.cast(type, kind), data, where)
        return self.scalar(kind, data, where)

    def items(self, kinds: tuple[Any, ...], data: Any, where: str) -> Any:
        if not isinstance(data, list):
            self.fail(where, f"is {_show(data)}: expected a list")
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(data)
        if len(kinds) != len(data):
            self.fail(where, f"has {len(data)} items: expected {len(kinds)}")
        return tuple(
            self.value(kind, item, f"{where}[{index}]")
            for index, (kind, item) in enumerate(zip(kinds, data, strict=True))
        )

    def word(self, words: tuple[str, ...], data: Any, where: str) -> Any:
        if data not in words:
            expected = ", ".join(words)
            self.fail(where, f"is {_show(data)}: expected one of {expected}")
        return data

    def mapping(self, kind: Any, data: Any, where: str) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail(where, f"is {_show(data)}: expected an object")
        return {
            key: self.value(kind, item, f"{where}[{_show(key)}]")
            for key, item in data.items()
        }

    def scalar(self, kind: type, data: Any, where: str) -> Any:
        right = isinstance(data, kind)
        if kind is float:
            right = isinstance(data, (int, float))
        if not right or (isinstance(data, bool) and kind is not bool):
            expected = _WORDS.get(kind, kind.__name__)
            self.fail(where, f"is {_show(data)}: expected {expected}")
        # Compared as it is: no float is as large as some whole numbers.
        if isinstance(data, (int, float)) and not abs(data) < _INT_LIMIT:
            self.fail(where, f"is {_show(data)}: expected below 2**63")
        return float(data) if kind is float else data
