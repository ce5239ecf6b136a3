"""What a patch changes, and when there is none."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import impactarbiter
from impactarbiter.judging.patches import rewritten, with_patch
from impactarbiter.model.finding import (
    Finding,
    GraphCost,
    Holder,
    Site,
    TensorExample,
)
from impactarbiter.model.path import Edge
from impactarbiter.model.path import Path as Retaining
from impactarbiter.model.report import Report

GRAPH = GraphCost(nodes=3, saved_tensors=1, bytes=4)
#: What a census says of a list of losses.
NUMBERS = {("tensor", True, True): 8}
BEFORE = "import torch\n\n\ndef train(history, loss):\n    {}\n"


def edges(*texts: str) -> tuple[Edge, ...]:
    """`.name` leads to a list, `[0]` and `['key']` to plain data."""
    kinds = ["dict" if t.startswith("[") else "list" for t in texts]
    kinds[-1] = "Tensor"
    return tuple(
        Edge(kind="x", name=t, type=k, text=t)
        for t, k in zip(texts, kinds, strict=True)
    )


def finding(
    statement: str,
    file: str = "train.py",
    shape: tuple[int, ...] = (),
    graph: GraphCost | None = GRAPH,
    below: tuple[str, ...] = ("[7]",),
    length: int | None = 8,
) -> Finding:
    return Finding(
        verdict="leak",
        allocated_at=Site(file, 5, "train", statement),
        grown_at=Site(file, 5, "train", statement),
        path=Retaining("__main__", edges(".history", *below)),
        holder=Holder("__main__.history", "list", length=length),
        graph=graph,
        tensors=(TensorExample(shape, "float32", "cpu", 3, 4),),
    )


def mended(statement: str, **about: object) -> str | None:
    made = rewritten(
        BEFORE.format(statement),
        finding(statement, **about),  # type: ignore[arg-type]
    )
    return None if made is None else made.splitlines()[4].strip()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("history.append(loss)", "history.append(loss.item())"),
        (
            "history.append(a + b)  # why",
            "history.append((a + b).item())  # why",
        ),
        ("self.history.append(out[0])", "self.history.append(out[0].item())"),
        ("history.insert(0, f(x))", "history.insert(0, f(x).item())"),
        ("history[step] = loss", "history[step] = loss.item()"),
        ("total += loss", "total += loss.item()"),
        ("total = total + loss", "total = (total + loss).item()"),
        ("history.append(-loss)", "history.append((-loss).item())"),
    ],
)
def test_numbers(statement: str, expected: str) -> None:
    assert mended(statement) == expected


def test_values_with_a_graph_are_detached() -> None:
    assert mended("history.append(out)", shape=(8, 4)) == (
        "history.append(out.detach())"
    )
    assert (
        mended("state = cell(x, state)", shape=(8, 4), below=(), length=None)
        == "state = cell(x, state).detach()"
    )


@pytest.mark.parametrize(
    ("statement", "below", "expected"),
    [
        (
            'history.append({"loss": loss, "step": i})',
            ("[7]", "['loss']"),
            'history.append({"loss": loss.item(), "step": i})',
        ),
        (
            "history.append((i, loss))",
            ("[7]", "[1]"),
            "history.append((i, loss.item()))",
        ),
        (
            "history.append({'a': [x, y]})",
            ("[7]", "['a']", "[0]"),
            "history.append({'a': [x.item(), y]})",
        ),
    ],
)
def test_one_element_of_a_literal(
    statement: str, below: tuple[str, ...], expected: str
) -> None:
    assert mended(statement, below=below) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "history.append(loss.item())",
        "history.append(loss.detach())",
        "history.extend(losses)",
        "history.append(*losses)",
        "history.append([l for l in losses])",
        "history.append({'other': loss})",
        "history.append(a); history.append(b)",
        "history.append(lambda: loss)",
        "pass",
    ],
)
def test_no_patch_where_it_is_not_plain(statement: str) -> None:
    assert mended(statement) is None


def test_no_patch_without_graph_or_number() -> None:
    assert mended("history.append(out)", shape=(8,), graph=None) is None


def test_no_patch_through_an_object_of_the_users() -> None:
    about = finding("history.append(record)")
    record = Edge(kind="index", name="7", type="Record", text="[7]")
    inside = Edge(kind="attribute", name="x", type="Tensor", text=".x")
    history = edges(".history", "[7]")[0]
    path = Retaining("__main__", (history, record, inside))
    about = replace(about, path=path)
    assert rewritten(BEFORE.format("history.append(record)"), about) is None


def test_a_line_that_has_changed_is_left_alone() -> None:
    about = finding("history.append(loss)")
    assert rewritten(BEFORE.format("history.append(other)"), about) is None
    assert rewritten("x = 1\n", about) is None


def test_the_diff_applies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text(BEFORE.format("history.append(loss)"))
    patch = with_patch(
        finding("history.append(loss)", str(file)), NUMBERS
    ).patch
    assert patch is not None
    assert patch.startswith("--- a/train.py\n+++ b/train.py\n")
    subprocess.run(
        ["git", "apply", "-"], input=patch.encode(), check=True, cwd=tmp_path
    )
    assert "history.append(loss.item())" in file.read_text()
    # Applied, there is nothing more to change.
    made = with_patch(finding("history.append(loss)", str(file)), NUMBERS)
    assert made.patch is None


def fix(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "impactarbiter", "fix", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_bytes(
        "# \u00fc\r\nimport torch\r\n\f\r\n\r\n    \r\n"
        "history.append(loss)\r\n".encode()
    )
    about = finding("history.append(loss)", str(file))
    line = Site(str(file), 6, "train", "history.append(loss)")
    gone = finding("history.append(loss)", str(tmp_path / "gone.py"))
    report = Report(findings=(replace(about, grown_at=line), gone))
    run = tmp_path / "run.json"
    report.to_json(run)
    shown = fix("run.json", folder=tmp_path)
    assert shown.returncode == 0
    assert "+history.append(loss.item())" in shown.stdout
    assert "gone.py is left alone" in shown.stderr
    assert "item" not in file.read_text()
    applied = fix("run.json", "--apply", folder=tmp_path)
    assert applied.stdout == shown.stdout
    assert file.read_bytes().endswith(b"\r\nhistory.append(loss.item())\r\n")
    again = fix("run.json", "--apply", folder=tmp_path)
    assert "no finding has a patch" in again.stderr


def test_a_finding_of_a_run_has_its_patch() -> None:
    import torch

    weight = torch.ones(4, requires_grad=True)
    history = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(20):
            loss = (weight * 2).sum()
            history.append(loss)
            arbiter.step()
        (found,) = arbiter.report().findings
    assert found.patch is not None
    assert "+            history.append(loss.item())" in found.patch


# -- whether one may be offered -----------------------------------------------

LOGITS = ("tensor", False, True)
LOSS = ("tensor", True, True)
NUMBER = ("tensor", True, False)
OTHER = ("other", "str")


@pytest.mark.parametrize(
    ("census", "below", "reason"),
    [
        ({LOSS: 8}, ("[7]",), None),
        ({LOSS: 7, OTHER: 1}, ("[7]",), "not all that it holds are tensors"),
        ({LOSS: 7, LOGITS: 1}, ("[7]",), "not all that it holds are single"),
        ({("tuple", (OTHER, LOSS)): 8}, ("[7]", "[1]"), None),
        ({("tuple", (NUMBER, LOSS)): 8}, ("[7]", "[1]"), None),
        (
            {("tuple", (LOGITS, LOSS)): 8},
            ("[7]", "[1]"),
            "another value in the same item",
        ),
        (
            {("tuple", (OTHER, LOSS)): 7, LOSS: 1},
            ("[7]", "[1]"),
            "not all its items are alike",
        ),
        (
            {("dict", (("loss", LOSS), ("step", OTHER))): 8},
            ("[7]", "['loss']"),
            None,
        ),
        (None, ("[7]",), "could not be looked at"),
    ],
)
def test_what_speaks_against_a_patch(
    census: dict[object, int] | None,
    below: tuple[str, ...],
    reason: str | None,
    tmp_path: Path,
) -> None:
    file = tmp_path / "train.py"
    file.write_text(BEFORE.format("history.append(loss)"), encoding="utf-8")
    about = finding("history.append(loss)", str(file), below=below)
    made = with_patch(about, census)
    if reason is None:
        assert made.patch_note is None
    else:
        assert reason in (made.patch_note or "")
        assert made.patch is None


def test_detaching_what_is_itself_the_growth_is_no_patch(
    tmp_path: Path,
) -> None:
    """8 KiB of activations stay with or without their graph."""
    file = tmp_path / "train.py"
    file.write_text(BEFORE.format("history.append(y)"), encoding="utf-8")
    big = replace(
        finding("history.append(y)", str(file), shape=(32, 64)),
        bytes_per_step=8192.0,
        graph_bytes_per_step=2500.0,
        tensors=(TensorExample((32, 64), "float32", "cpu", 3, 8192),),
    )
    made = with_patch(big, {LOGITS: 8})
    assert made.patch is None
    assert made.patch_note is not None
    assert "23% of the growth" in made.patch_note
