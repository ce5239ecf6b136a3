"""Reads a flight recorder's bundle; nothing in it is executed."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import Any

import numpy as np

from ..base.errors import ReportError
from ..base.files import read_whole
from ..core.bundle import EVENTS, SCHEMA, SITE_ROWS, in_order
from ..model.bundle import Bundle, Header, HeldBytes
from ..model.finding import Site
from ..model.report import Report

#: What is read of a bundle.
FILES = (
    "recorder.json",
    "events.npy",
    "sites.npy",
    "report.json",
    "holders.json",
)
#: Counts are below: a caller may ask for any number of bytes.
MOST = (1 << 64) - 1


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Reads and checks a bundle; ReportError says in a line what is wrong.

    Nothing in it is executed.
    """
    folder = os.fspath(path)
    header = _json(folder, "recorder.json")
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise _unreadable(folder, f'recorder.json has no schema "{SCHEMA}"')
    return Bundle(
        path=folder,
        header=_header(folder, header),
        events=_rows(folder, "events.npy", EVENTS),
        sites=_rows(folder, "sites.npy", SITE_ROWS),
        sources=_sources(folder, header.get("sites")),
        report=_report_of(folder),
        holders=_holders_of(folder),
    )


def _unreadable(folder: str, why: str) -> ReportError:
    return ReportError(
        f"{folder!r} is no bundle: {why}; give a folder that the flight"
        " recorder wrote"
    )


def _json(folder: str, name: str) -> Any:
    try:
        return json.loads(read_whole(os.path.join(folder, name)))
    except (OSError, ValueError, RecursionError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise _unreadable(folder, f"{name}: {said.lower()}") from None


def _rows(
    folder: str, name: str, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    try:
        rows = np.load(os.path.join(folder, name), allow_pickle=False)
    except Exception as error:  # as many sorts as a header can be damaged in
        said = str(error).splitlines()[0] if str(error) else "empty"
        raise _unreadable(folder, f"{name}: {said}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype != dtype:
        raise _unreadable(folder, f"{name} has other columns than expected")
    return rows


def _header(folder: str, data: dict[str, Any]) -> Header:
    """Every field of ``Header``, checked."""
    values: dict[str, Any] = {}
    for field in fields(Header):
        value = values[field.name] = data.get(field.name)
        if field.type == "str" and not isinstance(value, str):
            raise _unreadable(folder, f"{field.name} is no text")
        if field.type == "int" and not _is_count(value):
            raise _unreadable(folder, f"{field.name} is no count")
    return Header(**values)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST


def _count(value: Any) -> int:
    if not _is_count(value):
        raise ValueError(value)
    return int(value)


def _line(value: Any) -> int:
    """-1 where the code has no line numbers."""
    return -1 if value == -1 else _count(value)


def _sources(folder: str, data: Any) -> dict[int, Site]:
    try:
        return {
            _count(item["site"]): Site(
                str(item["file"]), _line(item["line"]), str(item["function"])
            )
            for item in data
        }
    except (TypeError, KeyError, ValueError):
        raise _unreadable(folder, "its sites are no list of sites") from None


def _report_of(folder: str) -> Report | None:
    file = os.path.join(folder, "report.json")
    return Report.load(file) if os.path.exists(file) else None


def _holders_of(folder: str) -> tuple[HeldBytes, ...]:
    if not os.path.exists(os.path.join(folder, "holders.json")):
        return ()
    data = _json(folder, "holders.json")
    wanted = {field.name: field.type for field in fields(HeldBytes)}
    if not isinstance(data, list) or not all(
        isinstance(item, dict)
        and all(
            isinstance(item.get(name), str)
            if kind == "str"
            else _is_count(item.get(name))
            for name, kind in wanted.items()
        )
        for item in data
    ):
        raise _unreadable(folder, "holders.json is no list of holders")
    return tuple(
        HeldBytes(**{name: item[name] for name in wanted}) for item in data
    )


def bundles(folder: str | os.PathLike[str]) -> list[str]:
    """Paths of the whole bundles below a folder, oldest first."""
    try:
        names = in_order(os.listdir(folder))
    except OSError as error:
        raise ReportError(
            f"cannot read {os.fspath(folder)!r}: {error.strerror}; expected"
            " the folder of a flight recorder"
        ) from None
    return [os.path.join(os.fspath(folder), name.text) for name in names]
