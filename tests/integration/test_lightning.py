"""Lightning: the callback, its entry point, phases, failures."""

from __future__ import annotations

import copy
import csv
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from lightning.pytorch import Callback, LightningModule, Trainer

import impactarbiter
from impactarbiter import _torch
from impactarbiter.integrations.lightning import LeakDetectionCallback
from impactarbiter.model.report import Report
from impactarbiter.watching.arbiter import current

SCRIPT = (
    Path(__file__).parents[2] / "examples/integrations/lightning_module.py"
)

pytestmark = pytest.mark.usefixtures("nobody_watches")


class Module(LightningModule):
    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.kept: list[torch.Tensor] = []
        self.fails_at = fails_at

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        if batch_idx == self.fails_at:
            raise MemoryError("no more")
        output = self.layer(batch)
        self.kept.append(output)
        return output.square().mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.layer(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer_of(folder: Path, *callbacks: Callback, **options: Any) -> Trainer:
    return Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


def batches(count: int = 20) -> Any:
    return torch.utils.data.DataLoader(torch.ones(count, 4), batch_size=1)


def test_the_example(tmp_path: Path) -> None:
    done = warm.run([str(SCRIPT), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert "leak: main().model.outputs keeps" in done.stderr
    (finding,) = Report.load(tmp_path / "leaks.json").findings
    assert finding.verdict == "leak"
    with open(tmp_path / "metrics.csv") as stream:
        rows = [r for r in csv.DictReader(stream) if r["memory/findings"]]
    assert [r["step"] for r in rows] == ["5", "10", "15", "20"]
    assert float(rows[-1]["memory/live_bytes"]) > 0
    assert float(rows[-1]["memory/leak_bytes_per_step"]) > 0
    assert rows[-1]["memory/findings"] == "1"


def test_the_entry_point(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def ours(trainer: Trainer) -> int:
        known = trainer.callbacks  # type: ignore[attr-defined]
        return sum(isinstance(c, LeakDetectionCallback) for c in known)

    assert ours(trainer_of(tmp_path)) == 0
    with impactarbiter.watch() as arbiter:
        trainer = trainer_of(tmp_path)
        assert ours(trainer) == 1
        model = Module()
        trainer.fit(model, batches())
        assert current() is arbiter
    said = [r.message for r in caplog.records if r.name == "impactarbiter"]
    assert len(said) == 2
    assert "model.kept" in said[0]


class Phases(Callback):
    def __init__(self) -> None:
        self.seen: dict[str, set[str]] = {}

    def note(self, what: str) -> None:
        arbiter = current()
        assert arbiter is not None
        self.seen.setdefault(what, set()).add("/".join(arbiter._phases))

    def on_validation_batch_start(self, trainer: Any, *_: Any) -> None:
        self.note("check" if trainer.sanity_checking else "validation")

    def on_before_backward(self, *_: Any) -> None:
        self.note("backward")

    def on_before_zero_grad(self, *_: Any) -> None:
        self.note("zero_grad")

    def on_before_optimizer_step(self, *_: Any) -> None:
        self.note("optimizer")


def test_phases(tmp_path: Path) -> None:
    phases = Phases()
    trainer = trainer_of(
        tmp_path,
        LeakDetectionCallback(),
        phases,
        accumulate_grad_batches=2,
    )
    trainer.fit(Module(), batches(8), batches(2))
    assert phases.seen["check"] == {"sanity check"}
    assert phases.seen["validation"] == {"validation"}
    assert phases.seen["backward"] == {"micro-batches"}
    assert phases.seen["optimizer"] == {""}


def test_a_failure_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "leaks.json"
    trainer = trainer_of(tmp_path, LeakDetectionCallback(report=str(path)))
    model = Module(fails_at=17)
    with pytest.raises(MemoryError, match="no more"):
        trainer.fit(model, batches())
    (finding,) = Report.load(path).findings
    assert finding.verdict == "leak"
    assert not any(_torch.installed().values())


class Forgetful(Module):
    """Lightning's callbacks lead to it, so that it is copied, too."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch).square().mean()


class Copies(Callback):
    """Copies ours among the Trainer's callbacks while it trains."""

    made: tuple[Callback, ...] = ()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if not self.made:
            kind = LeakDetectionCallback
            found = [c for c in trainer.callbacks if isinstance(c, kind)]
            copies = copy.deepcopy(found), pickle.loads(pickle.dumps(found))
            self.made = tuple(c for made in copies for c in made)


def test_callbacks_are_copied_while_it_trains(tmp_path: Path) -> None:
    ours, copies = LeakDetectionCallback(every=2), Copies()
    trainer_of(tmp_path, ours, copies).fit(Forgetful(), batches())
    assert len(copies.made) == 2
    for made in copies.made:
        assert made._watch == {"every": 2} and made._session is None


def test_the_training_is_the_same(tmp_path: Path) -> None:
    def trained(*callbacks: Callback) -> list[Any]:
        torch.manual_seed(0)
        model = Module()
        trainer_of(tmp_path, *callbacks).fit(model, batches())
        chance = torch.rand(2).tolist()
        return [chance, *(p.tolist() for p in model.parameters())]

    assert trained(LeakDetectionCallback()) == trained()
