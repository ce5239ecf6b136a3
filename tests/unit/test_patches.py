"""What a patch changes, and when there is none."""

from __future__ import annotations

import io
import linecache
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm

import impactarbiter
from impactarbiter.base.files import is_no_file
from impactarbiter.base.text import shown_lines
from impactarbiter.commands.changes import Change, show
from impactarbiter.judging.patches.diffs import (
    diff,
    name_in_header,
    patched,
)
from impactarbiter.judging.patches.offer import Holding
from impactarbiter.judging.patches.patch import with_patches
from impactarbiter.judging.patches.rewrite import Source
from impactarbiter.judging.program.source_file import Names, source_of
from impactarbiter.judging.program.uses import uses_of
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
#: Descriptions as a census has them.
LOSS = ("tensor", 1, True, 4)
NUMBER = ("tensor", 1, False, 4)
LOGITS = ("tensor", 80, True, 320)
BIG = ("tensor", 2048, True, 8192)
TEXT = ("other", "str")
FLOAT = ("other", "float")
RECORD = ("other", "Record")

Census = Mapping[Any, int]


def finding(
    file: str,
    line: int = 5,
    holder: str = "__main__.history",
    length: int | None = 8,
    graph: GraphCost | None = GRAPH,
    size: float = 4.0,
    nodes: float = 8000.0,
    verdict: str = "leak",
) -> Finding:
    source = linecache.getline(file, line).strip()
    edge = Edge("attribute", "history", "list", ".history")
    return Finding(
        verdict=verdict,
        allocated_at=Site(file, line, "train", source),
        grown_at=Site(file, line, "train", source),
        path=Retaining("__main__", (edge,)),
        holder=Holder(holder, "list", length, 1.0, depth=1),
        graph=graph,
        bytes_per_step=size,
        graph_bytes_per_step=nodes,
        tensors=(TensorExample((), "float32", "cpu", 3, 4),),
    )


class Program:
    """A script with a statement to mend, and what passed it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "train.py"

    def write(self, statement: str, before: str = "", after: str = "") -> None:
        self.file.write_text(
            f"import torch\n{before}\n\ndef train(loss, history):\n"
            f"    {statement}\n\n\n{after}\n",
            encoding="utf-8",
        )
        linecache.checkcache()

    def finding(self, **about: Any) -> Finding:
        return finding(str(self.file), **about)

    def made(self, census: Census | None, **about: Any) -> Finding:
        others = about.pop("others", 0.0)
        chained = about.pop("chained", False)
        found = self.finding(**about)
        holdings = {found.signature: Holding(census, others, chained)}
        (made,) = with_patches([found], holdings)
        return made

    def mended(self, census: Census | None, **about: Any) -> str | None:
        """The statement with its patch applied."""
        patch = self.made(census, **about).patch
        if patch is None:
            return None
        after = patched(self.file.read_text(), patch)
        assert after is not None
        return after.splitlines()[4].strip()


@pytest.mark.parametrize(
    ("elsewhere", "offered"), [(0.05, True), (0.3, False)]
)
def test_a_statement_beside_others(
    program: Program, elsewhere: float, offered: bool
) -> None:
    program.write("history.append(loss)")
    found = program.finding()
    seen = Holding({LOSS: 8}, elsewhere=elsewhere)
    (made,) = with_patches([found], {found.signature: seen})
    assert (made.patch is not None) == offered
    assert offered or made.patch_note == "it grows at another line, too"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The tests are no part of the program."""
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files", lambda finding: []
    )
    return Program(tmp_path)


def test_a_number_of_tensorflow(program: Program) -> None:
    """Its tensors have no item()."""
    program.write("history.append(loss)")
    scalar = TensorExample((), "float32", "tensorflow:cpu:0", 3, 4)
    found = replace(program.finding(graph=None, nodes=0), tensors=(scalar,))
    seen = Holding({NUMBER: 8})
    (made,) = with_patches([found], {found.signature: seen})
    assert made.patch is not None
    after = patched(program.file.read_text(), made.patch)
    assert after is not None
    assert "history.append(loss.numpy())" in after
    assert "`.numpy()` of each tensor" in (made.advice or "")


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
        ("history += [loss]", "history += [loss.item()]"),
        ("history += [a, b]", "history += [a.item(), b.item()]"),
        ("history = history + [loss]", "history = history + [loss.item()]"),
        ("history = [*history, loss]", "history = [*history, loss.item()]"),
        ("history.extend([loss])", "history.extend([loss.item()])"),
        (
            "history.update({step: loss})",
            "history.update({step: loss.item()})",
        ),
        ("heappush(history, -loss)", "heappush(history, (-loss).item())"),
        (
            "history.setdefault(k, []).append(loss)",
            "history.setdefault(k, []).append(loss.item())",
        ),
        (
            "hook(lambda m, i, o: history.append(o))",
            "hook(lambda m, i, o: history.append(o.item()))",
        ),
    ],
)
def test_numbers(program: Program, statement: str, expected: str) -> None:
    program.write(statement)
    assert program.mended({LOSS: 8}) == expected


def test_values_with_a_graph_are_detached(program: Program) -> None:
    program.write("history.append(out)")
    assert program.mended({LOGITS: 8}) == "history.append(out.detach())"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("history = cell(x, history)", "history = cell(x, history).detach()"),
        ("history = history + loss", "history = (history + loss).detach()"),
        (
            "setattr(self, 'history', f(self.history))",
            "setattr(self, 'history', f(self.history).detach())",
        ),
        (
            "history += loss",
            "history += loss.detach() if isinstance(loss, torch.Tensor)"
            " else loss",
        ),
        (
            "history = torch.cat([history, x])",
            "history = torch.cat([history, x]).detach()",
        ),
    ],
)
def test_what_takes_the_old_value_s_place(
    program: Program, statement: str, expected: str | None
) -> None:
    """Sums stay tensors, to the last bit; the operand may be a number."""
    program.write(statement)
    assert program.mended({LOSS: 1}, length=None) == expected


def test_a_tensor_that_is_made_longer_grows_itself(program: Program) -> None:
    program.write("history = torch.cat([history, x])")
    made = program.made({LOGITS: 1}, length=None, size=320.0, nodes=900.0)
    assert made.patch is None
    assert "73 % of the growth" in (made.patch_note or "")


def test_what_goes_backward_is_a_tensor(program: Program) -> None:
    program.write("history += loss * n; loss.backward()")
    assert program.mended({LOSS: 1}, length=None) == (
        "history += (loss * n).detach(); loss.backward()"
    )


@pytest.mark.parametrize(
    ("statement", "census", "expected"),
    [
        (
            'history.append({"loss": loss, "step": i})',
            {("dict", (("loss", LOSS), ("step", FLOAT))): 8},
            'history.append({"loss": loss.item(), "step": i})',
        ),
        (
            "history.append(dict(loss=loss, step=i))",
            {("dict", (("loss", LOSS), ("step", FLOAT))): 8},
            "history.append(dict(loss=loss.item(), step=i))",
        ),
        (
            "history.append((logits, loss))",
            {("tuple", (LOGITS, LOSS)): 8},
            "history.append((logits.detach(), loss.item()))",
        ),
        (
            "history.append({'a': [x, y]})",
            {("dict", (("a", ("list", (LOSS, TEXT))),)): 8},
            "history.append({'a': [x.item(), y]})",
        ),
    ],
)
def test_every_element_of_a_literal(
    program: Program, statement: str, census: Census, expected: str
) -> None:
    program.write(statement)
    assert program.mended(census) == expected


def test_what_takes_the_place_of_a_slice_are_items(program: Program) -> None:
    program.write("history[len(history):] = [loss]")
    assert program.mended({LOSS: 8}) == (
        "history[len(history):] = [loss.item()]"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "history.extend(losses)",
        "history[len(history):] = losses",
        "history.append(*losses)",
        "history.append([l for l in losses])",
        "history.append(x); history.append(y)",
        "history.append({key: loss})",
        "pass",
    ],
)
def test_no_patch_where_it_is_not_plain(
    program: Program, statement: str
) -> None:
    program.write(statement)
    made = program.made({LOSS: 8})
    assert made.patch is None and made.patch_note


def test_two_lists_of_one_line_are_mended_together(program: Program) -> None:
    program.write("history.append(loss); other.append(loss)")
    # Their common graphs are in no figure of either.
    assert program.mended({LOSS: 8}, graph=None, nodes=0.0) == (
        "history.append(loss.item()); other.append(loss.item())"
    )
    first = program.finding()
    second = program.finding(holder="__main__.other")
    made = with_patches(
        [first, second],
        {f.signature: Holding({LOSS: 8}) for f in (first, second)},
    )
    assert made[0].patch is not None and made[0].patch == made[1].patch
    assert patched(program.file.read_text(), made[0].patch) is not None


def test_statements_of_a_line_are_told_apart_by_keys(
    program: Program,
) -> None:
    program.write('h["a"].append(loss); h["b"].append(f(loss))')
    assert program.mended({LOSS: 8}, holder="__main__.h['b']") == (
        'h["a"].append(loss); h["b"].append(f(loss).item())'
    )


def test_one_list_of_a_line_is_mended_without_the_other(
    program: Program,
) -> None:
    program.write("history.append(loss); other.append(acts)")
    first = program.finding()
    second = program.finding(holder="__main__.other", size=320.0, nodes=0.0)
    made = with_patches(
        [first, second],
        {
            first.signature: Holding({LOSS: 8}),
            second.signature: Holding({("tensor", 80, False, 320): 8}),
        },
    )
    assert "+    history.append(loss.item()); other.append(acts)" in (
        made[0].patch or ""
    )
    assert made[1].patch is None
    assert made[1].patch_note == "the tensors themselves are the growth"


def test_graphs_that_something_else_keeps(program: Program) -> None:
    program.write("history.append(loss)")
    made = program.made({LOSS: 8}, graph=None, nodes=0.0)
    assert made.patch is None
    assert "something else keeps the same graphs" in (made.patch_note or "")


def test_graphs_that_lead_back_to_the_step_before(program: Program) -> None:
    """A hidden state keeps them all, whatever the list does."""
    program.write("history.append(h.norm())")
    made = program.made({LOSS: 8}, chained=True)
    assert made.patch is None
    assert "which something else carries on" in (made.patch_note or "")
    assert made.advice.startswith("detach what is carried from step to step")
    gone = program.made(None, chained=True)  # its items can't be looked at
    assert gone.advice == made.advice


def test_advice_knows_the_uses_of_what_was_not_seen(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.write("history.append(loss)", after="history[0].backward()")
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files",
        lambda finding: [str(program.file)],
    )
    found = replace(program.finding(), grown_at=None)
    made = with_patches([found], {found.signature: Holding({LOSS: 8})})[0]
    where = f"({program.file.name}:8)"
    assert f"`history[0].backward()` {where} has been done" in made.advice


def test_only_confirmed_leaks_have_patches(program: Program) -> None:
    program.write("history.append(loss)")
    assert program.made({LOSS: 8}, verdict="growing").patch is None
    assert program.made({LOSS: 8}).patch is not None


def test_a_line_that_has_changed_is_left_alone(program: Program) -> None:
    program.write("history.append(loss)")
    found = program.finding()
    program.file.write_text("x = 1\n")
    (made,) = with_patches([found], {found.signature: Holding({LOSS: 8})})
    assert made.patch is None


def test_a_file_that_is_too_large_to_be_read(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "".join(f"DATA{n} = [{n}, {n}, {n}]\n" for n in range(12_000))
    program.write("history.append(loss)", after=data)
    made = program.made({LOSS: 8})
    assert made.patch is None
    assert made.patch_note == "the file is too large to be read"
    # So may its uses be where another file has the statement.
    other = program.file.with_name("other.py")
    program.file.rename(other)
    program.write("history.append(loss)")
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files",
        lambda _: [str(other)],
    )
    made = program.made({LOSS: 8})
    assert made.patch is None
    assert made.patch_note == (
        "other.py, which names it, is too large to be read"
    )
    other.write_text(data)
    linecache.checkcache()
    assert program.made({LOSS: 8}).patch is not None


# -- what was seen to pass ----------------------------------------------------


@pytest.mark.parametrize(
    ("census", "reason"),
    [
        ({LOSS: 7, RECORD: 1}, "some are Record"),
        ({("tuple", (TEXT, LOSS)): 8}, "a tuple that is made elsewhere"),
        ({NUMBER: 7, BIG: 1}, "the tensors themselves are"),
        ({TEXT: 8}, "no more than it needs"),
        (None, "could not be looked at"),
    ],
)
def test_what_speaks_against_a_patch(
    program: Program, census: Census | None, reason: str
) -> None:
    program.write("history.append(loss)")
    made = program.made(census)
    assert made.patch is None
    assert reason in (made.patch_note or "")


def test_an_array_that_gets_longer_is_the_growth_itself(
    program: Program,
) -> None:
    """It is no item of anything, so there are no items to look at."""
    statement = "history = np.concatenate([history, loss])"
    program.write(statement)
    scores = Edge("variable", "history", "ndarray", ".history")
    found = replace(
        program.finding(graph=None, nodes=0),
        path=Retaining("__main__", (scores,)),
        holder=Holder("__main__.history", "ndarray", depth=1),
        tensors=(TensorExample((4576,), "float64", "numpy", 144, 36608),),
    )
    (made,) = with_patches([found], {found.signature: Holding(None)})
    assert made.patch_note == "the array itself is the growth"


@pytest.mark.parametrize(
    ("graph", "nodes", "reason"),
    [
        (
            None,
            0.0,
            "a copy does not follow what is written into the tensor that a"
            " slice is of: whether the program needs that is not known",
        ),
        (
            GRAPH,
            4096.0,
            "`.detach()` would stop 20 % of the growth: the tensors that the"
            " slices are of are the rest",
        ),
    ],
)
def test_what_a_slice_keeps_is_not_the_slice(
    program: Program, graph: GraphCost | None, nodes: float, reason: str
) -> None:
    """A copy of it stops the growth, as the advice says."""
    program.write("history.append(p.grad.view(-1)[:8])")
    found = replace(
        program.finding(graph=graph, size=16384.0, nodes=nodes),
        tensors=(TensorExample((8,), "float32", "cpu", 3, 16384),),
    )
    seen = {("tensor", 8, graph is not None, 16384): 8}
    (made,) = with_patches([found], {found.signature: Holding(seen)})
    assert made.patch is None and made.patch_note == reason
    assert "clone()` in `__main__.history`: a slice keeps" in made.advice


@pytest.mark.parametrize(
    ("census", "others"),
    [({LOSS: 6, FLOAT: 2}, 0.0), ({LOSS: 8}, 0.5)],
)
def test_other_things_that_pass_are_let_through(
    program: Program, census: Census, others: float
) -> None:
    program.write("history.append(loss)")
    assert program.mended(census, others=others) == (
        "history.append(loss.detach() if isinstance(loss, torch.Tensor)"
        " else loss)"
    )
    program.write("history.append(f(loss))")
    made = program.made(census, others=others)
    assert made.patch is None
    assert "other things than tensors" in (made.patch_note or "")


def test_two_holders_of_one_statement(program: Program) -> None:
    """What it grows beside the one is the other, and no third."""
    program.write("history[k].append(f(loss))", after="print(history)")

    def findings() -> list[Finding]:
        names = [f"__main__.history['{k}']" for k in "ab"]
        return [replace(program.finding(holder=n), path=None) for n in names]

    both = findings()

    def patch(others: float) -> str:
        holdings = {f.signature: Holding({LOSS: 8}, others) for f in both}
        first, second = with_patches(both, holdings)
        assert first.patch == second.patch
        return first.patch or ""

    assert "+    history[k].append(f(loss).detach())" in patch(0.7)
    assert not patch(1.5)
    # What passes is whatever either of them has.
    program.write("history[k].append(loss)")
    small, large = findings()
    holdings = {
        small.signature: Holding({LOSS: 8}, 0.7),
        large.signature: Holding({LOGITS: 8}, 0.7),
    }
    for order in ((small, large), (large, small)):
        for made in with_patches(order, holdings):
            assert "append(loss.detach())" in (made.patch or "")


def test_a_helper_serves_other_holders_too(program: Program) -> None:
    program.write("store.append(loss)")
    assert program.mended({LOSS: 8}) == (
        "store.append(loss.detach() if isinstance(loss, torch.Tensor)"
        " else loss)"
    )


def test_detaching_what_is_itself_the_growth_is_no_patch(
    program: Program,
) -> None:
    """8 KiB of activations stay with or without their graph."""
    program.write("history.append(y)")
    made = program.made({BIG: 8}, size=8192.0, nodes=2500.0)
    assert made.patch is None
    assert "23 % of the growth" in (made.patch_note or "")
    assert made.advice.startswith("bound `__main__.history`")
    assert "`.detach()` would stop 23 %" in made.advice
    made = program.made({BIG: 8}, size=8192.0, nodes=8.0)
    assert "0 %" not in (made.patch_note or "") + made.advice


# -- later uses ---------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        "print(len(history), sum(float(x) for x in history))",
        "print(f'{history[-1]:.4f}')",
        "for x in history[-3:]: print(float(x))",
        "history.clear()",
        "if not history: pass",
    ],
)
def test_numbers_do_where_only_numbers_are_read(
    program: Program, use: str
) -> None:
    program.write("history.append(loss)", after=use)
    assert program.mended({LOSS: 8}) == "history.append(loss.item())"


@pytest.mark.parametrize(
    "use",
    [
        "print(torch.stack(history).mean())",
        "print(history[-1].item())",
        "print(sum(history) / len(history))",
        "save(history)",
        "print([x.cpu() for x in history])",
        "print(f'{history}')",
        "best = history[-1] < 0.3",
    ],
)
def test_tensors_stay_where_they_are_used_as_such(
    program: Program, use: str
) -> None:
    program.write("history.append(loss)", after=use)
    assert program.mended({LOSS: 8}) == "history.append(loss.detach())"
    made = program.made({NUMBER: 8}, graph=None, nodes=0.0)
    assert made.patch is None
    assert "`.item()` may change" in (made.patch_note or "")


@pytest.mark.parametrize(
    ("use", "method"),
    [
        ("print(f'{history[-1]}')", "detach"),
        ("for x in history: print(f'{x}')", "detach"),
        ("print(f'{history[-1][1]:.3f}')", "item"),
    ],
)
def test_what_has_parts_prints_them(
    program: Program, use: str, method: str
) -> None:
    program.write("history.append((at, loss))", after=use)
    assert program.mended({("tuple", (TEXT, LOSS)): 8}) == (
        f"history.append((at, loss.{method}()))"
    )


def test_a_value_that_is_changed_later_stays_one(program: Program) -> None:
    program.write("history.append(loss)\n    loss /= 4")
    assert program.mended({LOSS: 8}) == "history.append(loss.detach())"


def test_an_object_that_is_asked_for_stays(program: Program) -> None:
    program.write("loss.step = 1; history.append(loss)")
    made = program.made({LOSS: 8})
    assert made.patch is None
    assert "another object may not do for `loss.step" in made.patch_note
    # What is not taken less of is not asked about.
    program.write("history.append((loss, run)); run.step = 1")
    assert "loss.item(), run" in program.mended({("tuple", (LOSS, TEXT)): 8})


def test_one_number_in_a_dimension_prints_as_a_tensor(
    program: Program,
) -> None:
    program.write("history.append(loss)", after="print(f'{history[-1]}')")
    found = replace(
        program.finding(),
        tensors=(TensorExample((1,), "float32", "cpu", 3, 4),),
    )
    (made,) = with_patches([found], {found.signature: Holding({LOSS: 8})})
    assert "loss.detach()" in (made.patch or "")


@pytest.mark.parametrize(
    "use",
    [
        "torch.stack(history).mean().backward()",
        "total = sum(history)\ntotal.backward()",
        "def penalty(kept):\n    return sum(kept)\n"
        "end = penalty(history)\nend.backward()",
        "for loss in history:\n    loss.backward()",
        "torch.autograd.grad(history[0], w)",
        "def finish(kept):\n    kept[0].backward()\nfinish(history)",
        "assert history[0].requires_grad",
        "other, taken = 1, history[0]\ntaken.backward()",
        "def both(kept):\n    return 1, kept\n"
        "other, end = both(history)\nend[0].backward()",
        "def both(kept):\n    if kept:\n        return kept, 1\n"
        "    return kept\n"
        "end, other = both(history)\nother.backward()",
    ],
)
def test_no_patch_where_the_graph_is_needed(
    program: Program, use: str
) -> None:
    program.write("history.append(loss)", after=use)
    made = program.made({LOSS: 8})
    assert made.patch is None
    assert "the graph may be needed by" in (made.patch_note or "")
    assert "may need the graphs" in made.advice


@pytest.mark.parametrize(
    "use",
    [
        "other, taken = w.sum(), history[0]\nother.backward()",
        "def both(kept):\n    return w.sum(), kept\n"
        "end, other = both(history)\nend.backward()",
    ],
)
def test_what_comes_side_by_side_goes_on_apart(
    program: Program, use: str
) -> None:
    program.write("history.append(loss)", after=use)
    assert "loss.detach()" in program.mended({LOSS: 8})


def test_a_name_that_is_bound_afterwards_is_another(program: Program) -> None:
    program.write(
        "history.append(loss)",
        before="def go(loss): loss.backward()",
        after="for loss in history:\n    print(float(loss))",
    )
    assert program.mended({LOSS: 8}) == "history.append(loss.item())"


def test_uses_of_a_file_that_is_no_python(tmp_path: Path) -> None:
    file = tmp_path / "no.py"
    file.write_text("def (:\n")
    names = Names(attributes=frozenset({"history"}))
    assert uses_of(names, [str(file)]) == uses_of(names, [])


def test_files_without_the_name_are_not_parsed(tmp_path: Path) -> None:
    names = Names(attributes=frozenset({"field"}))
    files = []
    # The last one's names begin with a ligature of f and i.
    for number, name in enumerate(("other", "field", "\ufb01eld")):
        file = tmp_path / f"part{number}.py"
        file.write_text(f"self.{name}[0].backward()\n", encoding="utf-8")
        files.append(str(file))
    before = source_of.cache_info().misses
    for file in files:
        assert bool(uses_of(names, [file]).graph) == ("part0" not in file)
    assert source_of.cache_info().misses == before + 2


@pytest.mark.parametrize(
    ("more", "needed"), [("", False), ("args.queue = bank.logits(1)", True)]
)
def test_what_the_command_line_gave_is_no_tensor(
    tmp_path: Path, more: str, needed: bool
) -> None:
    """An option is called as the bank's attribute is, and makes the bank."""
    file = tmp_path / "train.py"
    file.write_text(
        textwrap.dedent(
            f"""
            args = parser.parse_args()
            bank = Bank(args.queue)
            bank.queue = torch.cat([k, bank.queue])
            loss = bank.logits(q)
            loss.backward()
            {more}
            """
        )
    )
    names = Names(attributes=frozenset({"queue"}))
    assert bool(uses_of(names, [str(file)]).graph) == needed


def test_a_graph_that_a_file_needs_under_another_name(tmp_path: Path) -> None:
    names = Names(attributes=frozenset({"history"}))
    texts = {
        "train": "import loop\nloop.finish(self.history[-2:])\n",
        "loop": "import ends\ndef finish(items):\n    ends.of(items)\n",
        "ends": "def of(values):\n    sum(values).backward()\n",
        "other": "def meant(values):\n    sum(values).backward()\n",
    }
    files = {name: str(tmp_path / f"{name}.py") for name in texts}
    for name, text in texts.items():
        Path(files[name]).write_text(text)
    assert "sum(values)" in uses_of(names, files.values()).graph
    del files["ends"]
    assert uses_of(names, files.values()).graph == ""


@pytest.mark.parametrize(
    ("before", "known"),
    [
        ("if TYPE_CHECKING:\n    import torch", False),
        ("def other():\n    import torch", False),
        ("import torch.nn as nn", False),
        ("import torch.nn", True),
    ],
)
def test_a_guard_needs_torch_by_its_name(
    program: Program, before: str, known: bool
) -> None:
    program.write("history.append(loss)")
    text = program.file.read_text().replace("import torch", "", 1)
    program.file.write_text(f"{before}\n{text}")
    linecache.checkcache()
    line = 6 + before.count("\n")
    made = program.made({LOSS: 4, TEXT: 4}, line=line)
    assert (made.patch is not None) == known, made.patch_note


def test_a_line_that_was_mended_is_not_sought_elsewhere(
    program: Program,
) -> None:
    """Another function has the same line, and needs the graph."""
    program.write("history.append(loss)")
    patch = program.made({LOSS: 8}).patch
    assert patch is not None
    text = program.file.read_text()
    mended = patched(text, patch)
    assert mended is not None
    other = "def meta(loss, history):\n    history.append(loss)\n"
    assert patched(f"{mended}{other}", patch) is None
    assert patched(f"# new\n{text}", patch) == f"# new\n{mended}"


# -- the diff, and the command ------------------------------------------------


def test_the_diff_applies(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program.write("history.append(loss)")
    # The last line has no end.
    text = program.file.read_text()[: -len("\n\n\n\n")]
    program.file.write_text(text)
    patch = program.made({LOSS: 8}).patch
    assert patch is not None
    assert patch.startswith("--- a/train.py\n+++ b/train.py\n")
    ours = patched(text, patch)
    subprocess.run(
        ["git", "apply", "-"], input=patch.encode(), check=True, cwd=tmp_path
    )
    assert "history.append(loss.item())" in program.file.read_text()
    assert ours == program.file.read_text()
    # Applied, there is nothing more to change.
    assert patched(ours, patch) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1", "x = 2"),
        ("f(x)", "f(x, y)"),
        ("f(x)", "f(x); import os"),
        ("", "import os"),
        ("stop = leave", "stop = leave()"),
    ],
)
def test_a_report_s_patch_does_nothing_else(old: str, new: str) -> None:
    """A report may come from anywhere: it can't write what it likes."""
    patch = f"--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-{old}\n+{new}\n"
    if not old:
        patch = patch.replace("-\n", "")
    assert patched(f"{old}\n", patch) is None


def fix(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return warm.run(["-m", "impactarbiter", "fix", *arguments], cwd=folder)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files", lambda finding: []
    )
    file = tmp_path / "train.py"
    file.write_bytes(
        "# \u00fc\r\nimport torch\r\n\f\r\n\r\n    \r\n"
        "history.append(loss)\r\n".encode()
    )
    linecache.checkcache()
    found = finding(str(file), line=6)
    (made,) = with_patches([found], {found.signature: Holding({LOSS: 8})})
    other = replace(made, holder=None, signature="other", patch_note="why")
    gone = str(tmp_path / "gone.py")
    other = replace(other, grown_at=Site(gone, 5, "f", "x"))
    noted = replace(made, signature="noted", patch=None, patch_note="a cause")
    Report(findings=(made, other, noted)).to_json(tmp_path / "run.json")
    shown = fix("run.json", folder=tmp_path)
    assert shown.returncode == 0
    assert "+history.append(loss.item())" in shown.stdout
    assert "gone.py is left alone" in shown.stderr
    assert "no patch for __main__.history: a cause" in shown.stderr
    assert "item" not in file.read_text()
    (tmp_path / "same.py").hardlink_to(file)
    refused = fix("run.json", "--apply", folder=tmp_path)
    assert refused.returncode == 2
    assert "2 names (hard links) stand for it" in refused.stderr
    assert "item" not in file.read_text()
    (tmp_path / "same.py").unlink()
    applied = fix("run.json", "--apply", folder=tmp_path)
    assert applied.stdout == shown.stdout
    assert file.read_bytes().endswith(b"\r\nhistory.append(loss.item())\r\n")
    again = fix("run.json", "--apply", folder=tmp_path)
    assert "no finding has a patch" in again.stderr


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        ("# coding: latin-1\n", "latin-1"),
        ("# coding: utf-7\n", "utf-7"),
        ("", "utf-8-sig"),
    ],
)
def test_the_diff_has_the_file_s_own_bytes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mark: str,
    encoding: str,
) -> None:
    """As ``patch`` and ``git apply`` compare them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files", lambda finding: []
    )
    file = tmp_path / "train.py"
    text = f"{mark}import torch\nhistory.append(loss)  # \u00e9\n"
    file.write_text(text, encoding=encoding)
    line = 2 + mark.count("\n")
    found = finding(str(file), line=line)
    site = Site(str(file), line, "f", text.splitlines()[line - 1])
    found = replace(found, grown_at=site)
    linecache.checkcache()
    (made,) = with_patches([found], {found.signature: Holding({LOSS: 8})})
    Report(findings=(made,)).to_json(tmp_path / "run.json")
    with (tmp_path / "made.diff").open("wb") as out:
        subprocess.run(
            [sys.executable, "-P", "-m", "impactarbiter", "fix", "run.json"],
            stdout=out,
            check=True,
        )
    subprocess.run(["git", "apply", "made.diff"], check=True)
    after = text.replace("(loss)", "(loss.item())")
    assert file.read_bytes() == after.encode(encoding)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import torch\r\rhistory.append(loss)\r", "a carriage return"),
        ("import torch\n#\r\nx = 1 #\rhistory.append(loss)\n", "a carriage"),
        ("import torch\r\n#\r\nhistory.append(loss)", None),
    ],
)
def test_lines_that_a_diff_does_not_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    why: str | None,
) -> None:
    """Python counts lines that end in "\\r" alone, ``patch`` does not."""
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files", lambda finding: []
    )
    file = tmp_path / "train.py"
    file.write_bytes(text.encode())
    linecache.checkcache()
    lines = text.splitlines()
    found = finding(str(file), line=lines.index("history.append(loss)") + 1)
    (made,) = with_patches([found], {found.signature: Holding({LOSS: 8})})
    assert (made.patch is None) == (why is not None)
    assert (made.patch_note or "").startswith(why or "")


def test_a_source_that_is_no_file_has_no_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``run /dev/stdin < train.py``, and a pipe; a link to a file is one."""
    monkeypatch.setattr(
        "impactarbiter.judging.patches.patch.user_files", lambda finding: []
    )
    file, link = tmp_path / "train.py", tmp_path / "link.py"
    file.write_text("import torch\nhistory.append(loss)\n")
    link.symlink_to(file)
    os.mkfifo(tmp_path / "pipe.py")
    linecache.checkcache()
    with file.open() as stream:
        (tmp_path / "fd.py").symlink_to(f"/proc/self/fd/{stream.fileno()}")
        for name, has_patch in (
            (str(link), True),
            (f"/dev/fd/{stream.fileno()}", False),
            (f"/proc/self/fd/{stream.fileno()}", False),
            (str(tmp_path / "fd.py"), False),
            (str(tmp_path / "pipe.py"), False),
        ):
            found = finding(str(file), line=2)
            found = replace(
                found, grown_at=replace(found.grown_at, file=name)
            )
            holdings = {found.signature: Holding({LOSS: 8})}
            (made,) = with_patches([found], holdings)
            assert (made.patch is not None) is has_patch, name
            if not has_patch:
                assert "no regular file" in made.patch_note


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("train.py", "a/train.py"),
        ("tr\u00e4in x.py", "a/tr\u00e4in x.py\t"),
        ("w\udcff.py", '"a/w\\377.py"'),
        ('a"b\\\n.py', '"a/a\\042b\\134\\012.py"'),
    ],
)
def test_a_name_that_is_no_plain_text_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, header: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / name
    file.write_text("x = 1\n")
    made = diff(str(file), "x = 1\n", "x = 2\n")
    first, second = made.splitlines()[:2]
    assert first == f"--- {header}"
    assert second == "+++ " + header.replace("a/", "b/", 1)
    assert name_in_header(first[4:]) == f"a/{name}"
    patch = shutil.which("patch")
    if patch is not None and "\n" not in name:
        dry = [patch, "-p1", "--dry-run"]
        subprocess.run(dry, input=made.encode(), check=True)
    git = shutil.which("git")
    if git is not None:
        subprocess.run([git, "apply"], input=made.encode(), check=True)
        assert file.read_text() == "x = 2\n"


def test_a_name_as_git_quotes_it() -> None:
    assert name_in_header('"b/\\303\\251 \\"x\\".py"\t') == 'b/\u00e9 "x".py'
    assert name_in_header("b/x.py\t2026-01-01") == "b/x.py"


def test_links_in_a_circle_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    assert is_no_file(str(tmp_path / "a.py"))


def test_what_is_not_confirmed_is_not_applied(program: Program) -> None:
    program.write("history.append(loss)")
    before = program.file.read_text()
    made = replace(program.made({LOSS: 8}), verdict="growing")
    Report(findings=(made,)).to_json(program.file.parent / "run.json")
    done = fix("run.json", "--apply", folder=program.file.parent)
    assert "is left alone: the leak is not confirmed" in done.stderr
    assert program.file.read_text() == before


def test_a_finding_of_a_run_has_its_patch() -> None:
    import torch

    weight = torch.ones(4, requires_grad=True)
    history_of_run = []
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(20):
            loss = (weight * 2).sum()
            history_of_run.append(loss)
            arbiter.step()
        (found,) = arbiter.report().findings
    assert found.patch is not None
    assert "+            history_of_run.append(loss.item())" in found.patch
    assert found.kept is not None and found.kept.numbers


def test_a_statement_that_serves_two_lists_is_seen_to() -> None:
    import torch

    weight = torch.ones(4, requires_grad=True)
    kept: dict[str, list[object]] = {"loss": [], "name": []}
    with impactarbiter.watch(step="manual") as arbiter:
        for step in range(24):
            loss = (weight * 2).sum()
            for key, value in (("loss", loss), ("name", str(step))):
                kept[key].append(value)
            arbiter.step()
        (found,) = arbiter.report().findings
    assert found.patch is not None
    assert "value.detach() if isinstance(value, torch.Tensor)" in found.patch


def test_positions() -> None:
    """Columns of the parser count bytes, and its lines are not str's."""
    text = 'é = "ü"; h.append(x)\r\nold = "\x0c"; h.append(y + é)\n'
    source = Source(text)
    (one,) = (a for a in source.additions(1) if not a.single)
    (two,) = (a for a in source.additions(2) if not a.single)
    assert source.code(one.values[0]) == "x"
    assert source.code(two.values[0]) == "y + é"
    new = {one.values[0]: "x.item()", two.values[0]: "(y + é).item()"}
    assert source.with_values(new) == text.replace(
        "(x)", "(x.item())"
    ).replace("(y + é)", "((y + é).item())")


def test_nothing_is_found_in_an_f_string() -> None:
    """Python before 3.12 does not say where in it."""
    assert Source('f"{h.append(x)}"\n').additions(1) == []


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_diff_does_not_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = "kept.append(x)  # \x1b]0;title\x07 \u202e \x0c\n"
    after = before.replace("x)", "x.detach())")
    change = Change("a.py", before, after, "utf-8", ())
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(written, encoding="utf-8"))
    show(change)
    sys.stdout.flush()
    shown = written.getvalue().decode()
    assert not {"\x1b", "\x07", "\u202e", "\x0c"} & set(shown)
    assert "\n+kept.append(x.detach())" in shown
    assert shown_lines("a\x0cb\r\nc\n") == ["a\x0cb", "c"]
