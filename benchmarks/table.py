"""The article's table at full scale, on the meta device.

    python benchmarks/table.py [--steps N] [--json FILE] [NAME ...]
    python benchmarks/table.py --from FILE

Each program runs three times: as it is fixed and as it leaks under a meter
of its own for the peaks, then once more under ``watch()`` for what is found
and what that takes.  A process each: nobody walks another's heap.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# -P leaves the script's folder out, lest the source tree be imported.
sys.path.append(str(Path(__file__).resolve().parent))

from article_models import MODELS, Model, Said
from article_programs import ChatBot, Training
from machine import describe, remark
from virtual import Meter, fuse_attention

GB = 1e9
#: The chat-bot: one conversation fills Mistral's context in so many turns.
TURNS = 64
REPLY = 4
CHAT = "chat-bot"
#: Its share alone is told: -27 %.
CHAT_SHARE = 27.0
#: Steps after which a program without a leak has its peak behind it.
SETTLED = 3


@dataclass(frozen=True)
class Found:
    """One finding; ``bytes_per_step`` of tensors and of graph nodes."""

    path: str
    verdict: str
    bytes_per_step: int
    graph_bytes_per_step: int


@dataclass(frozen=True)
class Row:
    """One program; bytes as they would be, times in ms of this machine."""

    name: str
    parameters: int
    context: int
    steps: int
    step_ms: float
    detection_ms: float  # a step's share of hooks and checks
    diagnosis_ms: float  # the last walk
    before: int
    after: int
    ledger_live: int
    meter_live: int
    found: tuple[Found, ...]
    said_share: float
    said: Said | None = None

    @property
    def share(self) -> float:
        """Per cent that the fix takes off the peak, at the last step."""
        return 100 * (1 - self.after / self.before)

    @property
    def grown(self) -> float:
        """Bytes by which a step raises the peak: the last one's own are kept
        after it."""
        return (self.before - self.after) / (self.steps - 1)


#: Runs a network, leaky or fixed, for so many steps; what the last argument
#: says is asked when all that the program keeps is still there.
Program = Callable[[Any, int, bool, int, Callable[[], Any]], Any]


def train(
    network: Any,
    context: int,
    leaky: bool,
    steps: int,
    at_end: Callable[[], Any],
) -> Any:
    network.train()
    network.activation_checkpointing_enable()
    network.zero_grad()
    trainer = Training(network, context, leaky)
    for _ in range(steps):
        trainer.step()
    return at_end()


def chat(
    network: Any,
    context: int,
    leaky: bool,
    steps: int,
    at_end: Callable[[], Any],
) -> Any:
    network.eval()
    bot = ChatBot(network, leaky)
    for _ in range(steps):
        bot.turn(context // TURNS - REPLY, REPLY)
    return at_end()


@dataclass(frozen=True)
class Metered:
    peak: int
    live: int  # at the end, with what the program then still has


def metered(
    network: Any, model: Model, program: Program, leaky: bool, steps: int
) -> Metered:
    meter = Meter()
    for tensor in (*network.parameters(), *network.buffers()):
        meter.add(tensor)
    with meter:
        live = program(
            network, model.context, leaky, steps, lambda: meter.live
        )
    return Metered(meter.peak, live)


def watched(model: Model, program: Program, steps: int) -> tuple[Any, float]:
    """The report, and ms a step of the program besides."""
    import impactarbiter

    arbiter = impactarbiter.watch()
    network = model.make()
    start = time.perf_counter()
    took = 0.0

    def at_end() -> Any:
        nonlocal took
        took = time.perf_counter() - start
        return arbiter.stop()

    report = program(network, model.context, True, steps, at_end)
    return report, 1e3 * took / steps


def found(report: Any) -> tuple[Found, ...]:
    return tuple(
        Found(
            str(finding.path),
            finding.verdict,
            round(finding.bytes_per_step),
            round(finding.graph_bytes_per_step),
        )
        for finding in report.findings
    )


def measure(
    name: str,
    model: Model,
    program: Program,
    steps: int,
    share: float,
) -> Row:
    """A fixed training has its peak behind it soon; a conversation has not:
    its cache grows to the end."""
    network = model.make()
    leaky = metered(network, model, program, True, steps)
    fixed = metered(
        network, model, program, False, steps if name == CHAT else SETTLED
    )
    parameters = sum(p.numel() for p in network.parameters())
    del network
    report, step_ms = watched(model, program, steps)
    on_meta = {device.device: device for device in report.devices}["meta"]
    return Row(
        name,
        parameters,
        model.context,
        steps,
        step_ms,
        report.cost.ms_per_step,
        report.cost.last_walk_ms,
        leaky.peak,
        fixed.peak,
        on_meta.live_bytes,
        leaky.live,
        found(report),
        share,
        None if name == CHAT else model.said,
    )


def one(name: str, steps: int) -> Row:
    fuse_attention()
    if name == CHAT:
        mistral = next(m for m in MODELS if m.name == "Mistral-7B")
        return measure(CHAT, mistral, chat, TURNS, CHAT_SHARE)
    model = next(m for m in MODELS if m.name == name)
    assert model.said is not None
    return measure(name, model, train, steps, model.said.share)


def in_own_process(name: str, steps: int) -> Row | None:
    command = [sys.executable, "-P", __file__, "--one", name]
    command += ["--steps", str(steps)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode != 0:
        print(f"{name}: failed (exit status {done.returncode})")
        return None
    return row_of(json.loads(done.stdout.splitlines()[-1]))


def row_of(fields: dict[str, Any]) -> Row:
    fields["found"] = tuple(Found(**entry) for entry in fields["found"])
    if fields["said"] is not None:
        fields["said"] = Said(**fields["said"])
    return Row(**fields)


# -- what is printed ----------------------------------------------------------

WIDTHS = (12, 9, 9, 7, 17, 17, 18, 13)
TITLES = (
    ("", "", "", "", "peak, GB", "peak, GB", "the fix", "the same"),
    ("", "size", "context", "steps", "before", "after", "takes off", "after"),
)


def line(cells: tuple[str, ...]) -> str:
    first, *rest = cells
    widths = WIDTHS[1:]
    padded = [
        f"{cell:>{width}}" for cell, width in zip(rest, widths, strict=True)
    ]
    return f"{first:<{WIDTHS[0]}}{''.join(padded)}".rstrip()


def beside(ours: str, theirs: str) -> str:
    return f"{ours} [{theirs}]"


def steps_until(row: Row) -> float:
    """Steps whose leaks make the share of the peak that the article says, of
    a training: ``share = grown * n / (after + grown * n)``."""
    share = row.said_share / 100
    return row.after * share / ((1 - share) * row.grown)


def memory_line(row: Row) -> str:
    said = row.said
    same = "" if said is None else f"{steps_until(row):.0f} steps"
    return line(
        (
            row.name,
            f"{row.parameters / 1e9:.1f} B",
            str(row.context),
            str(row.steps),
            beside(
                f"{row.before / GB:.1f}", str(said.before if said else "-")
            ),
            beside(f"{row.after / GB:.1f}", str(said.after if said else "-")),
            beside(f"{row.share:.1f} %", f"{row.said_share:g} %"),
            same,
        )
    )


def time_line(row: Row) -> str:
    theirs = f"{row.said.detection:g}" if row.said else "-"
    return (
        f"{row.name:<12}{row.step_ms:>12.0f}"
        f"{beside(f'{row.detection_ms:.1f}', theirs):>18}"
        f"{row.diagnosis_ms:>12.0f}"
    )


def found_lines(row: Row) -> list[str]:
    return [row.name] + [
        f"  {entry.verdict:<8}{as_size(entry.bytes_per_step):>10}"
        f"{as_size(entry.graph_bytes_per_step):>10}  {entry.path}"
        for entry in row.found
    ]


def agreement_line(row: Row) -> str:
    same = "equal" if row.ledger_live == row.meter_live else "DIFFERENT"
    return f"{row.name:<12}{row.ledger_live:>20,}{row.meter_live:>20,} {same}"


def as_size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def show(data: dict[str, Any]) -> str:
    """The whole table as text; ``data`` is what ``--json`` writes."""
    rows = [row_of(fields) for fields in data["rows"]]
    said = ["Memory; in brackets what the article says"]
    said += [line(titles) for titles in TITLES]
    said += [memory_line(row) for row in rows]
    said += ["", "Time in ms; in brackets the article's detection time"]
    said += [f"{'':<12}{'a step':>12}{'of it, watching':>18}{'last walk':>12}"]
    said += [time_line(row) for row in rows]
    said += ["", "Found: verdict, tensors and graph nodes a step, path"]
    for row in rows:
        said += found_lines(row)
    said += ["", "Live bytes at the end of the leaky run, ledger and meter"]
    said += [agreement_line(row) for row in rows]
    said += ["", remark(data["machine"])]
    return "\n".join(said)


def measure_all(names: list[str], steps: int) -> dict[str, Any]:
    data: dict[str, Any] = {
        "machine": describe("torch", "transformers", "impactarbiter")
    }
    rows = [in_own_process(name, steps) for name in names]
    data["rows"] = [asdict(row) for row in rows if row is not None]
    return data


def options_of() -> argparse.Namespace:
    names = [model.name for model in MODELS] + [CHAT]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--steps", type=int, default=20, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="run nothing"
    )
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"no program {min(unknown)!r}: there are {names}")
    options.names = options.names or names
    return options


def main() -> int:
    options = options_of()
    if options.one:
        print(json.dumps(asdict(one(options.one, options.steps))))
        return 0
    if options.source:
        print(show(json.loads(Path(options.source).read_text())))
        return 0
    data = measure_all(options.names, options.steps)
    print(show(data))
    if options.json:
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n")
    return int(len(data["rows"]) < len(options.names))


if __name__ == "__main__":
    sys.exit(main())
