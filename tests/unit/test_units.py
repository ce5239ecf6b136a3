"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from impactarbiter.base.errors import UsageError
from impactarbiter.base.units import (
    format_bytes,
    format_count,
    format_duration,
    parse_bytes,
    parse_duration,
    plural,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (4, "4 B"),
        (0.5, "0.5 B"),
        (1023, "1023 B"),
        (1023.7, "1.0 KiB"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (10.3 * 2**20, "10.3 MiB"),
        (250 * 2**20, "250 MiB"),
        (1932735283, "1.8 GiB"),
        (-2048, "-2.0 KiB"),
        (math.nan, "unknown"),
    ],
)
def test_bytes(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("12GiB", 12 << 30),
        ("12 gib", 12 << 30),
        ("12G", 12 << 30),
        ("16GB", 16 * 10**9),
        ("1.5KiB", 1536),
        ("4096", 4096),
        ("4096B", 4096),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "0", "12XB", "1e9", "9" * 400, "12GiB!"]
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00012, "0.12 ms"),
        (0.0351, "35.1 ms"),
        (0.35, "350 ms"),
        (1.25, "1.2 s"),
        (45, "45 s"),
        (60, "1 min"),
        (3599.6, "1 h"),
        (11520, "3 h 12 min"),
        (180000, "2 d 2 h"),
        (3.2e8, "10.1 years"),
        (math.inf, "unknown"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_counts() -> None:
    assert [format_count(n) for n in (3.0, 3.04, 0.25, 1204, 99.95)] == [
        "3",
        "3",
        "0.25",
        "1,204",
        "100",
    ]
    assert plural(1, "step") == "1 step"
    assert plural(1.0, "tensor") == "1 tensor"
    assert plural(0, "step") == "0 steps"
    assert plural(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("10 min", 600),
        ("1h30m", 5400),
        ("1 h 30 min", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("2d", 172800),
    ],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "0", "-1s", "1x", "9" * 400])
def test_no_lengths_of_time(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)
