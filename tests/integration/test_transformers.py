"""The Hugging Face Trainer: flag, fields, callback; and no harm."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    set_seed,
)
from transformers.trainer_callback import DefaultFlowCallback

import impactarbiter
from impactarbiter import _torch
from impactarbiter.base.errors import ReportError, UsageError
from impactarbiter.integrations.huggingface.adopt import adopt
from impactarbiter.integrations.huggingface.flags import Request, take_out
from impactarbiter.integrations.transformers import (
    LeakDetectionCallback,
    TrainingArguments,
)
from impactarbiter.model.report import Report
from impactarbiter.watching import arbiter as arbiters
from impactarbiter.watching.arbiter import current

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Steps after which a leak is confirmed while the training still goes on.
LEAKING = 24
RUN = ["-m", "impactarbiter", "run"]

pytestmark = pytest.mark.usefixtures("nobody_watches")


@dataclasses.dataclass
class OwnArguments(TrainingArguments):
    """Made after the fields were there, as a script's are."""

    own: int = 7


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(index, index + 8) % 32
        return {"input_ids": ids, "labels": ids}


class Leaky(Trainer):
    """Keeps each step's logits."""

    def compute_loss(self, model: Any, inputs: Any, **kwargs: Any) -> Any:
        outputs = model(**inputs)
        vars(self).setdefault("kept", []).append(outputs.logits)
        whole = kwargs.get("return_outputs", False)
        return (outputs.loss, outputs) if whole else outputs.loss


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    given = {
        "max_steps": 16,
        "logging_steps": 4,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        **options,
    }
    return TrainingArguments(str(folder / "out"), **given)


def trainer_of(
    args: TrainingArguments, kind: type[Trainer] = Trainer, **options: Any
) -> Any:
    set_seed(0)
    config = GPT2Config(
        vocab_size=32,
        n_positions=8,
        n_embd=8,
        n_layer=1,
        n_head=1,
        bos_token_id=0,
        eos_token_id=0,
    )
    return kind(
        model=GPT2LMHeadModel(config),
        args=args,
        train_dataset=Numbers(),
        eval_dataset=torch.utils.data.Subset(Numbers(), range(16)),
        **options,
    )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.message for r in caplog.records if r.name == "impactarbiter"]


# -- fields -----------------------------------------------------------------


@pytest.mark.parametrize(
    "cls", [TrainingArguments, Seq2SeqTrainingArguments, OwnArguments]
)
def test_fields(cls: Any, tmp_path: Path) -> None:
    words = ["--output_dir", "o", "--detect_memory_leaks"]
    words += ["--detect-memory-leaks-every", "3", "--memory_leak_report=r"]
    parser = HfArgumentParser(cls)
    (args,) = parser.parse_args_into_dataclasses(words)
    assert type(args) is cls
    assert args.detect_memory_leaks is True
    assert args.detect_memory_leaks_every == 3
    assert args.memory_leak_report == "r"
    (args,) = parser.parse_args_into_dataclasses(words[:2])
    assert args.detect_memory_leaks is False
    assert args == cls("o")
    assert args != cls("o", detect_memory_leaks=True)
    assert "who holds them" in parser.format_help()
    assert args.to_dict()["detect_memory_leaks_every"] == 1
    assert dataclasses.replace(args, memory_leak_report="x") != args

    config = tmp_path / "c.json"
    config.write_text('{"output_dir": "o", "detect_memory_leaks": true}')
    (args,) = HfArgumentParser(cls).parse_json_file(str(config))
    assert args.detect_memory_leaks is True
    config.write_text("output_dir: o\ndetect_memory_leaks_every: 5\n")
    (args,) = HfArgumentParser(cls).parse_yaml_file(str(config))
    assert args.detect_memory_leaks_every == 5


def test_the_class_is_transformers_own() -> None:
    assert TrainingArguments.__module__ == "transformers.training_args"
    assert TrainingArguments.__init__.__qualname__ == (
        "TrainingArguments.__init__"
    )


def test_a_class_derived_before(tmp_path: Path) -> None:
    from impactarbiter.integrations.huggingface.arguments import extend

    @dataclasses.dataclass
    class Base:
        a: int = 1
        b: list[int] = dataclasses.field(default_factory=list)

    @dataclasses.dataclass
    class Derived(Base):
        c: int = 2

        def __post_init__(self) -> None:
            self.done = True

    class Plain(Derived):
        pass

    @dataclasses.dataclass(init=False)
    class Own(Base):
        def __init__(self) -> None:
            self.own = True

    own = Own.__init__
    extend(Base)
    extend(Base)  # changes nothing
    for cls in (Derived, Plain):
        made: Any = cls(5, c=3, detect_memory_leaks=True)  # type: ignore[call-arg]
        assert (made.a, made.b, made.c, made.done) == (5, [], 3, True)
        assert made.detect_memory_leaks is True
        assert made.b is not cls().b
    assert Own.__init__ is own
    assert Own().detect_memory_leaks is False  # type: ignore[attr-defined]


def test_saved_arguments_load_without_us(tmp_path: Path) -> None:
    args = arguments(tmp_path, detect_memory_leaks=True)
    torch.save(args, tmp_path / "training_args.bin")
    code = """
import sys
sys.modules["impactarbiter"] = None
import torch
args = torch.load("training_args.bin", weights_only=False)
assert args.max_steps == 16 and "detect_memory_leaks" not in args.to_dict()
print(type(args).__module__)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "transformers.training_args\n", done.stderr


# -- the callback -----------------------------------------------------------


def test_the_flag_names_the_leak(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "leaks.json"
    args = arguments(
        tmp_path,
        max_steps=LEAKING,
        detect_memory_leaks=True,
        memory_leak_report=str(path),
    )
    trainer = trainer_of(args, Leaky)
    trainer.train()
    words = said(caplog)
    confirmed, summary = words
    assert "leak: " in confirmed and "trainer.kept" in confirmed
    assert "1 leak" in summary and "holder" in summary
    (finding,) = Report.load(path).findings
    assert finding.verdict == "leak"
    assert finding.holder is not None
    assert finding.holder.expression.endswith("trainer.kept")
    assert not any(_torch.installed().values())


class Watched(TrainerCallback):
    """Notes whether somebody watches, step by step."""

    def __init__(self) -> None:
        self.arbiters: list[Any] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.arbiters.append(current())


def test_a_healthy_training_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    args = arguments(tmp_path, report_to="impactarbiter")
    watched = Watched()
    trainer = trainer_of(args, callbacks=[watched])
    trainer.train()
    trainer.train()
    for text in said(caplog):
        assert text.startswith("ImpactArbiter: no leak in 16 steps")
    assert caplog.records[-1].levelno == logging.INFO
    assert None not in watched.arbiters
    # Each training has a watch of its own.
    assert len(said(caplog)) == len(set(watched.arbiters)) == 2


class Copies(TrainerCallback):
    """Copies its Trainer, and pickles the callbacks, while it trains."""

    trainer: Any = None
    made: tuple[Any, ...] = ()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        trainer, self.trainer = self.trainer, None
        if trainer is not None:
            found = trainer.callback_handler.callbacks
            copied = copy.deepcopy(trainer).callback_handler.callbacks
            pickled = pickle.loads(pickle.dumps(found))
            self.made = *copied, *pickled


def test_a_trainer_is_copied_while_it_trains(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    args = arguments(tmp_path, detect_memory_leaks=True, report_to="none")
    copies = Copies()
    trainer = trainer_of(args, callbacks=[copies])
    copies.trainer = trainer
    trainer.train()
    found = [c for c in copies.made if isinstance(c, LeakDetectionCallback)]
    assert [c._session for c in found] == [None, None]
    (text,) = said(caplog)
    assert text.startswith("ImpactArbiter: no leak in 16 steps")


class Decides(DefaultFlowCallback):
    """A program's own, which decides after the others."""


class Fails(TrainerCallback):
    def __init__(self) -> None:
        raise KeyError("of the program's")


class Adds(TrainerCallback):
    """Adds ours in the middle of a training, to the list that is gone
    through."""

    trainer: Any = None
    calls = 0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if self.calls == 2:
            self.trainer.add_callback(LeakDetectionCallback())


def test_a_program_s_callbacks_keep_their_order(tmp_path: Path) -> None:
    args = arguments(tmp_path, detect_memory_leaks=True, report_to="none")
    given = [Watched(), Decides(), Copies()]
    callbacks = trainer_of(args, callbacks=given).callback_handler.callbacks
    at = [i for i, c in enumerate(callbacks) if c in given]
    assert [callbacks[i] for i in at] == given
    (ours,) = (
        i for i, c in enumerate(callbacks) if type(c) is LeakDetectionCallback
    )
    assert type(callbacks[ours - 1]) is DefaultFlowCallback
    assert ours < min(at)


def test_an_error_in_a_trainer_s_making_has_no_frame_of_ours(
    tmp_path: Path,
) -> None:
    args = arguments(tmp_path, detect_memory_leaks=True, report_to="none")
    with pytest.raises(KeyError) as raised:
        trainer_of(args, callbacks=[Fails])
    files = [str(entry.path) for entry in raised.traceback]
    assert not [one for one in files if "huggingface" in one], files


def test_ours_is_added_while_callbacks_are_called(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    args = arguments(tmp_path, report_to="none")
    adds = Adds()
    adds.trainer = trainer = trainer_of(args, callbacks=[adds])
    trainer.train()
    assert adds.calls == trainer.state.global_step == 16


def test_without_the_flag_nothing_is_added(tmp_path: Path) -> None:
    callbacks = trainer_of(arguments(tmp_path)).callback_handler.callbacks
    assert not any(isinstance(c, LeakDetectionCallback) for c in callbacks)


def test_findings_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    args = arguments(
        tmp_path,
        max_steps=LEAKING,
        detect_memory_leaks=True,
        report_to="impactarbiter",
    )
    trainer = trainer_of(args, Leaky)
    trainer.add_callback(LeakDetectionCallback())
    trainer.train()
    assert len(said(caplog)) == 2


def test_a_running_watch_is_joined(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[impactarbiter.Finding] = []
    with impactarbiter.watch(on_finding=found.append) as arbiter:
        args = arguments(tmp_path, max_steps=LEAKING, detect_memory_leaks=True)
        trainer_of(args, Leaky).train()
        assert current() is arbiter
        assert len(said(caplog)) == 2
    assert [f.verdict for f in found] == ["leak"]


@pytest.mark.slow
def test_the_report_goes_to_mlflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    args = arguments(
        tmp_path,
        max_steps=LEAKING,
        detect_memory_leaks=True,
        memory_leak_report=str(tmp_path / "r.html"),
        report_to="mlflow",
    )
    trainer_of(args, Leaky).train()
    run = mlflow.last_active_run()
    assert run.data.metrics["memory/findings"] == 1
    client = mlflow.MlflowClient(store)
    files = client.list_artifacts(run.info.run_id, "impactarbiter")
    assert [f.path for f in files] == [
        f"impactarbiter/report.{kind}" for kind in ("html", "json", "txt")
    ]
    mlflow.end_run()


class Phases(TrainerCallback):
    """Notes the phase in which each thing happens."""

    def __init__(self) -> None:
        self.seen: dict[str, set[str]] = {}

    def note(self, what: str) -> None:
        arbiter = current()
        assert arbiter is not None
        name = "/".join(arbiter._phases)
        self.seen.setdefault(what, set()).add(name)

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.note("optimizer")

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        self.note("prediction")


def test_phases(tmp_path: Path) -> None:
    phases = Phases()

    class Noting(Trainer):
        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            phases.note("micro-batch")
            return super().training_step(*args, **kwargs)

        def evaluate(self, *args: Any, **kwargs: Any) -> Any:
            phases.note("evaluate")
            return super().evaluate(*args, **kwargs)

        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
            phases.note("save")
            return super()._save_checkpoint(*args, **kwargs)

    args = arguments(
        tmp_path,
        detect_memory_leaks=True,
        max_steps=4,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
    )
    trainer_of(args, Noting, callbacks=[phases]).train()
    assert phases.seen == {
        "micro-batch": {"micro-batches"},
        "optimizer": {""},
        "evaluate": {"evaluation"},
        "prediction": {"evaluation"},
        "save": {"saving"},
    }


def test_metrics_go_to_the_trackers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )

    args = arguments(
        tmp_path,
        max_steps=LEAKING,
        detect_memory_leaks=True,
        report_to="tensorboard",
        eval_strategy="steps",
        eval_steps=8,
    )
    trainer = trainer_of(args, Leaky)
    trainer.train()
    (events,) = (tmp_path / "out").rglob("events.out.tfevents*")
    read = EventAccumulator(str(events.parent))
    read.Reload()
    live = read.Scalars("train/memory/live_bytes")
    assert [s.step for s in live] == [4, 8, 12, 16, 20, 24]
    assert live[0].value > 0
    assert read.Scalars("train/memory/findings")[-1].value == 1
    assert read.Scalars("train/memory/leak_bytes_per_step")[-1].value > 1000
    # What the Trainer itself keeps and returns is as ever.
    assert not any("memory" in key for key in trainer.evaluate())
    history = json.dumps(trainer.state.log_history)
    assert "memory/" not in history


# -- no harm ----------------------------------------------------------------


class Counts(TrainerCallback):
    def __init__(self) -> None:
        self.logs: list[set[str]] = []
        self.steps = 0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.steps += 1


def outcome(folder: Path, **options: Any) -> tuple[Any, ...]:
    """Everything that a training leaves behind, less what it took."""
    args = arguments(
        folder,
        eval_strategy="steps",
        eval_steps=8,
        save_strategy="steps",
        save_steps=8,
        **options,
    )
    counts = Counts()
    trainer = trainer_of(args, callbacks=[counts])
    result = trainer.train(resume_from_checkpoint=None)
    times = ("runtime", "per_second")
    history = [
        {k: v for k, v in entry.items() if not k.endswith(times)}
        for entry in trainer.state.log_history
    ]
    weights = [p.tolist() for p in trainer.model.parameters()]
    chance = torch.rand(3).tolist()
    files = sorted(
        str(f.relative_to(folder)) for f in (folder / "out").rglob("*")
    )
    keys = sorted(result.metrics)
    return history, weights, chance, files, keys, counts.steps


def test_the_training_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = outcome(tmp_path / "a")
    assert outcome(tmp_path / "b", detect_memory_leaks=True) == plain


def test_resume_from_a_checkpoint(tmp_path: Path) -> None:
    options = {"save_strategy": "steps", "save_steps": 8}
    whole = trainer_of(arguments(tmp_path, **options))
    whole.train()
    # The checkpoint is of a run without us, and the other way round.
    again = trainer_of(
        arguments(tmp_path, detect_memory_leaks=True, **options)
    )
    again.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-8"))
    assert again.state.global_step == 16
    for p, q in zip(
        whole.model.parameters(), again.model.parameters(), strict=True
    ):
        assert torch.equal(p, q)
    last = trainer_of(arguments(tmp_path, **options))
    last.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-16"))
    state = (tmp_path / "out/checkpoint-16/trainer_state.json").read_text()
    assert "LeakDetection" not in state


def test_a_training_that_fails_goes_on_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails(Leaky):
        fails = True

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            if self.fails and self.state.global_step == 12:
                raise ValueError("the data ended")
            return super().training_step(*args, **kwargs)

    trainer = trainer_of(arguments(tmp_path, detect_memory_leaks=True), Fails)
    with pytest.raises(ValueError, match="the data ended"):
        trainer.train()
    assert current() is not None
    trainer.fails = False
    trainer.train()
    assert "watched 28 steps" in said(caplog)[-1]


def test_a_failure_of_ours_is_told_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no memory for us")

    monkeypatch.setattr(arbiters, "watch", fail)
    args = arguments(tmp_path, detect_memory_leaks=True)
    assert trainer_of(args).train().global_step == 16
    (text,) = said(caplog)
    assert text.endswith("on_train_begin failed: OSError: no memory for us")


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"detect_memory_leaks_every": 0}, UsageError),
        ({"memory_leak_report": 5}, UsageError),
        ({"memory_leak_report": "/no/such/folder/x.json"}, ReportError),
    ],
)
def test_what_cannot_be_is_said_before_the_training(
    tmp_path: Path, option: dict[str, Any], error: type[Exception]
) -> None:
    args = arguments(tmp_path, detect_memory_leaks=True, **option)
    with pytest.raises(error):
        trainer_of(args)


# -- the launcher -----------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "asked", "left"),
    [
        ("--detect_memory_leaks", Request(True), ""),
        ("--detect-memory-leaks", Request(True), ""),
        ("--detect_memory_leaks false --n 3", Request(False), "--n 3"),
        ("--detect_memory_leaks=1 data", Request(True), "data"),
        ("--detect_memory_leaks data", Request(True), "data"),
        ("a --detect_memory_leaks_every 4 b", Request(None, 4), "a b"),
        ("--memory_leak_report=x.html", Request(None, None, "x.html"), ""),
        ("-- --detect_memory_leaks", Request(), "-- --detect_memory_leaks"),
        ("--detect_memory_leaksX", Request(), "--detect_memory_leaksX"),
    ],
)
def test_flags_are_taken_out(line: str, asked: Request, left: str) -> None:
    assert take_out(line.split()) == (asked, left.split())


@pytest.mark.parametrize(
    "line",
    [
        "--detect_memory_leaks=perhaps",
        "--detect_memory_leaks_every 0",
        "--detect_memory_leaks_every",
        "--memory_leak_report",
    ],
)
def test_values_that_cannot_be(line: str) -> None:
    with pytest.raises(UsageError):
        take_out(line.split())


def test_starters_of_other_processes_hand_flags_on() -> None:
    target = ["-m", "torch.distributed.run", "x", "--detect_memory_leaks"]
    given: dict[str, Any] = {}
    assert adopt(target, given) == target
    assert given == {}


def test_the_launcher_on_an_unmodified_script(tmp_path: Path) -> None:
    words = "--max_steps 24 --n_layer 1 --n_embd 16 --logging_steps 4"
    words += " --detect_memory_leaks --detect_memory_leaks_every 1"
    words += f" --memory_leak_report {tmp_path}/r.json"
    done = warm.run(
        [*RUN, str(EXAMPLES / "finetune_gpt2.py"), *words.split()],
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    words = re.finditer(r"leak: main\(\)\.trainer", done.stderr)
    told = [m.start() for m in words]
    # As it comes, by the launcher and not by the callback too; at the end.
    assert len(told) == 2, done.stderr
    assert "impactarbiter: step " in done.stderr[: told[0]]
    assert "ImpactArbiter: " in done.stderr[told[0] : told[1]]
    assert "'memory/findings': 1" in done.stdout
    (finding,) = Report.load(tmp_path / "r.json").findings
    assert finding.verdict == "leak"


def test_help_and_configuration_files(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import sys
from transformers import HfArgumentParser, TrainingArguments
parser = HfArgumentParser(TrainingArguments)
if sys.argv[1].endswith(".json"):
    (args,) = parser.parse_json_file(sys.argv[1])
    print(sys.argv, args.detect_memory_leaks, args.memory_leak_report)
    (args,) = parser.parse_yaml_file("c.yaml")
    print(args.detect_memory_leaks, args.detect_memory_leaks_every)
parser.parse_args_into_dataclasses(["--help"])
""")
    (tmp_path / "c.json").write_text(
        '{"output_dir": "o", "memory_leak_report": "r"}'
    )
    (tmp_path / "c.yaml").write_text("{output_dir: o, detect_memory_leaks: 0}")
    flags = ["--detect_memory_leaks", "--detect_memory_leaks_every", "2"]
    done = warm.run([*RUN, "train.py", "c.json", *flags], cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0] == "['train.py', 'c.json'] True r", done.stderr
    assert lines[1] == "0 2"
    assert "--memory_leak_report" in done.stdout
    assert "(default: True)" in done.stdout


def test_a_plain_argparse_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int)
print(vars(parser.parse_args()), sys.argv[1:])
parser.add_argument("--detect_memory_leaks", action="store_true")
print(vars(parser.parse_args()), sys.argv[1:])
""")
    flags = "--n 3 --detect_memory_leaks --detect_memory_leaks_every 2"
    done = warm.run([*RUN, "train.py", *flags.split()], cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "{'n': 3} ['--n', '3']",
        "{'n': 3, 'detect_memory_leaks': True} ['--n', '3']",
    ], done.stderr


def test_the_example_with_the_callback(tmp_path: Path) -> None:
    script = EXAMPLES / "integrations" / "trainer_callback.py"
    done = warm.run([str(script), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert "leak: main().trainer.seen keeps" in done.stderr
    (finding,) = Report.load(tmp_path / "leaks.json").findings
    assert finding.site.source == "self.seen.append(outputs.logits)"
