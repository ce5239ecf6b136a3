"""Findings, paths and severity: plain data and its rules."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from impactarbiter.base.errors import UsageError
from impactarbiter.base.units import GIB
from impactarbiter.judging.sums.summary import accounted
from impactarbiter.judging.verdicts.severity import SeverityRules
from impactarbiter.model.finding import Finding, Holder, Site, signature_of
from impactarbiter.model.order import by_urgency, reaches, worst
from impactarbiter.model.path import Edge, Path
from impactarbiter.model.report import History, Report
from impactarbiter.model.words import SEVERITIES, VERDICTS

SITE = Site("/home/me/train.py", 12, "step", "loss = model(x)")


def path(*texts: str, root: str = "__main__", python: bool = True) -> Path:
    edges = tuple(Edge("edge", text, "object", text) for text in texts)
    return Path(root, edges, python)


def finding(**fields: object) -> Finding:
    known = {"verdict": "leak", "allocated_at": SITE, **fields}
    return Finding(**known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "printed"),
    [
        ([], "__main__"),
        ([".trainer", ".history", "[17]", "['loss']"], None),
        ([".prev"] * 3, "__main__.prev.prev.prev"),
        ([".head"] + [".prev"] * 28, "__main__.head.prev \u00d728"),
        ([".prev"] * 4 + [".x"], "__main__.prev \u00d74 .x"),
        ([".a", "[0]"] * 5 + [".a"], "__main__{.a[0]} \u00d75 .a"),
        ([".a"] * 8, "__main__.a \u00d78"),
        ([".a", ".b"] * 3, "__main__.a.b.a.b.a.b"),
    ],
)
def test_path_text(texts: list[str], printed: str | None) -> None:
    made = path(*texts)
    plain = "__main__" + "".join(texts)
    assert str(made) == (plain if printed is None else printed)
    assert made.expression == plain
    assert made.python == (str(made) == plain)


def test_path_that_claims_python_can_be_evaluated() -> None:
    value = {"loss": [[[[[1]]]]]}
    edges = ["['loss']", "[0]", "[0]", "[0]"]
    made = path(*edges, root="value")
    assert made.python
    assert eval(str(made), {"value": value}) == [[1]]


def test_path_is_never_python_unasked() -> None:
    assert not path(".a", python=False).python


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("__main__.store[1]", "__main__.store[250]", True),
        ("__main__.store['step_1']", "__main__.store['step_9']", True),
        ("__main__.store['a']", "__main__.store['b']", False),
        ("f.prev \u00d728 .x", "f.prev \u00d731 .x", True),
        ("<list at 0x7f01>.x", "<list at 0x7f02>.x", True),
        ("__main__.layer1", "__main__.layer2", False),
    ],
)
def test_signature_ignores_what_varies(
    one: str, other: str, same: bool
) -> None:
    holders = Holder(one, "list"), Holder(other, "list")
    made = [signature_of(SITE, None, holder) for holder in holders]
    assert (made[0] == made[1]) == same
    assert len(made[0]) == 16


def test_signature_is_the_same_where_indices_make_a_run() -> None:
    def signature(*indices: int) -> str:
        edges = tuple(
            Edge("index", str(i), "list", f"[{i}]") for i in indices
        )
        path = Path("main().parts", edges)
        holder = Holder(str(path), "list", depth=len(edges))
        return signature_of(SITE, path, holder)

    assert signature(0, 0, 0, 0) == signature(0, 0, 0, 2)
    assert signature(0, 0, 0, 0) != signature(0, 0, 0)


def test_signature_ignores_line_folder_and_verdict() -> None:
    moved = Site("/elsewhere/train.py", 99, "step")
    other = Site("/elsewhere/train.py", 99, "evaluate")
    first = finding(path=path(".x"))
    again = finding(path=path(".x"), allocated_at=moved, verdict="growing")
    assert first.signature == again.signature
    assert first.signature != finding(allocated_at=other).signature
    assert dataclasses.replace(first, retained_bytes=5).signature == (
        first.signature
    )


def test_site_text() -> None:
    assert str(SITE) == "/home/me/train.py:12 in step"
    assert str(Site("", 0, "")) == "outside Python"
    assert finding(grown_at=Site("a.py", 3, "f")).site.file == "a.py"


def test_wrong_words_are_refused() -> None:
    with pytest.raises(UsageError, match="verdict is 'bad'"):
        finding(verdict="bad")
    with pytest.raises(UsageError, match="severity is 'fatal'"):
        finding(severity="fatal")
    with pytest.raises(UsageError, match="1 steps and 2 sizes"):
        History((1,), (1, 2))


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        finding().verdict = "cache"  # type: ignore[misc]


def test_report_orders_by_rate() -> None:
    rates = [5.0, 80.0, 7.0]
    report = Report(findings=tuple(finding(bytes_per_step=r) for r in rates))
    assert [f.bytes_per_step for f in report.findings] == [80.0, 7.0, 5.0]


@pytest.mark.parametrize(
    ("held", "steps", "seconds", "planned", "expected"),
    [
        (GIB, None, None, None, "warning"),  # no forecast: not harmless
        (GIB + 1, None, None, None, "critical"),
        (0, 500, None, 500, "critical"),
        (0, 501, None, 500, "warning"),
        (0, 10**9, 86_400.0, None, "critical"),
        (0, 10**9, 86_401.0, None, "warning"),
        (0, 10**6, None, None, "warning"),
        (0, 10**6 + 1, None, None, "info"),
        (0, 10**6 + 1, 30 * 86_400.0, None, "warning"),
        (0, 10**6 + 1, 31 * 86_400.0, None, "info"),
    ],
)
def test_severity(
    held: int,
    steps: int | None,
    seconds: float | None,
    planned: int | None,
    expected: str,
) -> None:
    for verdict in VERDICTS:
        found = finding(
            verdict=verdict,
            retained_bytes=held,
            bytes_per_step=4.0,
            steps_to_oom=steps,
            seconds_to_oom=seconds,
        )
        bounded = verdict in ("cache", "accumulation")
        severity = SeverityRules().of(found, planned)
        assert severity == ("info" if bounded else expected)


def test_what_does_not_grow_kills_nothing() -> None:
    still = finding(bytes_per_step=0.0, graph_bytes_per_step=0.0)
    assert SeverityRules().grade(still).severity == "info"


def test_what_kills_first_comes_first() -> None:
    late = finding(severity="critical", steps_to_oom=900, bytes_per_step=1e9)
    soon = finding(severity="critical", steps_to_oom=90)
    big = finding(severity="warning", bytes_per_step=1e8)
    cache = finding(verdict="cache", bytes_per_step=1e9)
    ordered = by_urgency([cache, big, late, soon])
    assert ordered == [soon, late, big, cache]
    assert worst(ordered) == "critical"
    assert worst([]) is None
    assert [reaches([big], level) for level in SEVERITIES] == [1, 1, 0]


# -- what is accounted for ---------------------------------------------------


def test_what_a_holder_without_a_finding_has_is_no_finding_s() -> None:
    walk: Any = SimpleNamespace(purposes={"claimed": 100, "parameters": 50})
    totals: Any = SimpleNamespace(live_bytes=200, allowed_bytes=10)
    told = finding(retained_bytes=30)
    known = accounted(walk, totals, [told])
    assert known == {
        "parameters": 50, "findings": 30, "allowed": 10, "other": 110
    }  # fmt: skip
    assert accounted(walk, totals, [])["findings"] == 0
    # Before anything is judged all that was claimed may be told.
    assert accounted(walk, totals)["findings"] == 100
