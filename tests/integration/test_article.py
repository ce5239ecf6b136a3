"""The article's table, its machinery on models of some kilobytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import benchmark
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
article_models = benchmark.load("article_models")
table = benchmark.load("table")
virtual = benchmark.load("virtual")

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
TINY = article_models.Model("tiny", "Llama", 64, dimensions=SIZES)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, no_watch_left: None) -> None:
    monkeypatch.setattr(table, "TURNS", 16)
    monkeypatch.setattr(table, "REPLY", 1)
    virtual.fuse_attention()


def holders(row: Any) -> set[str]:
    return {entry.path.partition("[")[0] for entry in row.found}


def test_three_leaks_of_a_training() -> None:
    row = table.measure("tiny", TINY, table.train, 20, 35.0)
    assert holders(row) == {
        f"train().trainer.{kept}" for kept in ("masks", "hidden", "losses")
    }
    # What the ledger has, operator by operator, is what is there.
    assert row.ledger_live == row.meter_live > 0
    mask, hidden, loss = sorted(row.found, key=lambda f: -f.bytes_per_step)
    assert mask.bytes_per_step == hidden.bytes_per_step == 2 * 64 * 64
    assert loss.bytes_per_step == 4 and loss.graph_bytes_per_step > 0
    # The peak is higher by what all steps but the last have kept.
    assert row.before - row.after >= 18 * 2 * (2 * 64 * 64)


def test_masks_of_a_conversation() -> None:
    row = table.measure(table.CHAT, TINY, table.chat, 16, 27.0)
    assert holders(row) == {"chat().bot.masks"}
    assert row.ledger_live == row.meter_live > 0
    # A row of the mask for each token, of two bytes for each token before:
    # in all of the conversation but for the last turn, whose masks stay.
    tokens = 64 // 16
    rows = sum(tokens * turn * tokens for turn in range(1, 16))
    assert row.before - row.after >= rows


def test_a_meter_counts_each_storage_once() -> None:
    meter = virtual.Meter()
    with meter:
        whole = torch.empty(1000, device="meta")
        part = whole[:10]
        doubled = whole + whole
        assert meter.live == 8000
        del doubled
        assert meter.live == 4000
        del whole
        assert meter.live == 4000
        del part
    assert meter.live == 0
    assert meter.peak == 8000


def test_attention_has_no_scores_of_all_pairs() -> None:
    query = torch.empty(1, 4, 64, 8, device="meta", requires_grad=True)
    key = torch.empty(1, 2, 64, 8, device="meta", requires_grad=True)
    meter = virtual.Meter()
    with meter:
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, key, enable_gqa=True
        )
        out.sum().backward()
    assert query.grad is not None and query.grad.shape == query.shape
    assert key.grad is not None and key.grad.shape == key.shape
    assert 0 < meter.peak < 4 * 64 * 64 * 4


def test_the_table_says_what_differs() -> None:
    said = article_models.Said(48.2, 31.3, 35.0, 12.4)
    found = (table.Found("kept.masks[1]", "leak", 2 * 10**9, 0),)
    row = table.Row(
        "m", 10**9, 64, 20, 90.0, 1.5, 30.0, 2 * 10**10, 10**10, 7, 8,
        found, 35.0, said,
    )  # fmt: skip
    machine = {"load": 0.1, "cores": 2, "processor": "a processor"}
    machine |= {"python": "3.11", "taken": "today"}
    shown = table.show({"machine": machine, "rows": [asdict(row)]})
    for words in (
        "20.0 [48.2]",
        "10.0 [31.3]",
        "50.0 % [35 %]",
        "10 steps",
        "1.5 [12.4]",
        "leak        2.0 GB       0 B  kept.masks[1]",
        "7                   8 DIFFERENT",
        "a processor, 2 cores, load 0.1; Python 3.11",
    ):
        assert words in shown, shown


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("LLaMA-3-70B", 70.55),
        ("Mistral-7B", 7.24),
        ("Falcon-180B", 178.6),
        ("Gemma-2-27B", 27.2),
    ],
)
def test_models_have_their_public_size(name: str, billions: float) -> None:
    (model,) = (m for m in article_models.MODELS if m.name == name)
    count = sum(p.numel() for p in model.make().parameters())
    assert count / 1e9 == pytest.approx(billions, rel=1e-3)


def test_the_page_shows_the_table_as_printed() -> None:
    results = ROOT / "benchmarks" / "results" / "table.json"
    shown = table.show(json.loads(results.read_text()))
    page = (ROOT / "docs" / "article.md").read_text(encoding="utf-8")
    assert f"```text\n{shown}\n```" in page
