"""Verdicts: every leaky, fixed and healthy program, each watched in its own
process, against what its author expects.

    python benchmarks/verdicts.py [--jobs N] [--json FILE] [--against FILE]
        [NAME ...]

``--json`` saves what was found; ``--against`` compares with what was saved so,
and prints a table of the programs of which something else is said now.

A program below tests/leaks/programs says at its end what should be found:

EXPECT   None: nothing.  {"at_most": "cache"}: nothing but that, which is
         information.  Otherwise a leak, with the keys
         verdict   "leak" unless it says so
         holder    part of the holder's expression
         line      part of the source line that allocates (any of several)
         grown     part of the line that makes the holder grow
         within    steps after the warm-up in which it must be confirmed
         severity  if it must be a certain one
FIXED    the same for the program when it is called with "fixed"; such a
         program has a fixed twin.
OPTIONS  of the launcher.
NEEDS    a package without which the program is left out.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "leaks" / "programs"
WARMUP = 3
#: Verdicts that say how growth is bounded.
INFORMATION = ("cache", "accumulation")

#: Starts the launcher and notes when a finding is announced.  It is code of
#: no file, so that no path or site can lead here.
LAUNCH = """
import json, os, sys
import impactarbiter
notes = os.environ.pop("VERDICTS_NOTES")
plain = impactarbiter.watch
def watch(**options):
    from impactarbiter import _core
    def note(finding):
        status = _core.status()
        step = status["position"]
        holder = finding.holder.expression if finding.holder else ""
        with open(notes, "a") as stream:
            print(json.dumps([finding.signature, finding.verdict, step,
                              holder]), file=stream)
    return plain(on_finding=note, **options)
impactarbiter.watch = watch
from impactarbiter.commands import main
sys.exit(main())
"""


# -- cases -------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One program in one variant, and what is expected of it."""

    name: str
    path: Path
    arguments: tuple[str, ...]
    expect: dict[str, Any] | None
    options: tuple[str, ...] = ()
    needs: str | None = None

    @property
    def leaky(self) -> bool:
        return self.expect is not None and "at_most" not in self.expect

    @property
    def allowed(self) -> tuple[str, ...]:
        """Verdicts that are no alarm in a program without a leak."""
        return any_of((self.expect or {}).get("at_most", ()))

    @property
    def missing(self) -> bool:
        return (
            self.needs is not None
            and importlib.util.find_spec(self.needs) is None
        )


def any_of(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def constants(path: Path) -> dict[str, Any]:
    """The literals that a program assigns to upper-case names."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id.isupper():
            try:
                found[target.id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def cases(names: Iterable[str] = ()) -> list[Case]:
    """All cases, or those whose name contains one of the names."""
    wanted, found = tuple(names), []
    for path in sorted(PROGRAMS.glob("*/*.py")):
        known = constants(path)
        folder = path.parent.name
        options = tuple(known.get("OPTIONS", ()))
        rest = (options, known.get("NEEDS"))
        name = f"{folder}/{path.stem}"
        found.append(Case(name, path, (), known["EXPECT"], *rest))
        if "FIXED" in known:
            name = f"fixed/{path.stem}"
            found.append(Case(name, path, ("fixed",), known["FIXED"], *rest))
    if wanted:
        found = [c for c in found if any(w in c.name for w in wanted)]
    return found


# -- one run -----------------------------------------------------------------


@dataclass
class Outcome:
    """What the detector said of one case, and how far it is right."""

    name: str
    leaky: bool
    crashed: str | None = None
    found: bool = False  # the leak, with an acceptable verdict
    false: list[str] = field(default_factory=list)  # alarms without a cause
    needless: list[str] = field(default_factory=list)  # or information
    taken_back: list[str] = field(default_factory=list)
    right_holder: bool = False
    right_line: bool = False
    right_grown: bool | None = None  # None: it was not said
    right_severity: bool = True
    confirmed: int | None = None  # steps after the warm-up
    in_time: bool = True
    steps: int = 0
    said: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        if self.crashed or self.false or self.needless:
            return False
        return not self.leaky or (
            self.found
            and self.right_holder
            and self.right_line
            and self.right_grown is not False
            and self.right_severity
            and self.in_time
        )

    @property
    def wrongs(self) -> list[str]:
        """What is wrong, in words."""
        if self.crashed:
            return [f"crashed: {self.crashed}"]
        said = ["false alarm"] if self.false else []
        said += ["needless information"] if self.needless else []
        if self.leaky and not self.found:
            return [*said, "missed"]
        if self.leaky:
            said += [
                word
                for word, wrong in (
                    ("holder", not self.right_holder),
                    ("line", not self.right_line),
                    ("grown_at", self.right_grown is False),
                    ("severity", not self.right_severity),
                    ("late", not self.in_time),
                )
                if wrong
            ]
        return said


class Python(Protocol):
    """Runs ``python -P ARGUMENTS``."""

    def __call__(
        self,
        arguments: list[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
    ) -> subprocess.CompletedProcess[str]: ...


def fresh(
    arguments: list[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """In an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def launch(case: Case, python: Python) -> tuple[dict[str, Any], list[Any]]:
    """The report and the announcements; RuntimeError where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        report, notes = Path(folder, "run.json"), Path(folder, "notes")
        environment = {
            **os.environ,
            "VERDICTS_NOTES": str(notes),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        command = ["-c", LAUNCH, "run", "--json", str(report)]
        command += [*case.options, str(case.path), *case.arguments]
        done = python(command, env=environment, cwd=folder, timeout=300)
        if done.returncode or not report.exists():
            tail = done.stderr.strip().splitlines()[-1:] or ["no report"]
            raise RuntimeError(f"exit code {done.returncode}: {tail[0]}")
        lines = notes.read_text().splitlines() if notes.exists() else []
        return (
            json.loads(report.read_text(encoding="utf-8")),
            [json.loads(line) for line in lines],
        )


def judge(case: Case, python: Python = fresh) -> Outcome:
    outcome = Outcome(case.name, case.leaky)
    try:
        report, announced = launch(case, python)
    except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
        outcome.crashed = str(error)
        return outcome
    outcome.steps = report["steps"]
    outcome.said = [in_words(finding) for finding in report["findings"]]
    if case.leaky:
        judge_leak(case, outcome, report["findings"], announced)
    else:
        for finding in report["findings"]:
            if finding["verdict"] not in (*INFORMATION, *case.allowed):
                outcome.false.append(in_words(finding))
            elif finding["verdict"] not in case.allowed:
                outcome.needless.append(in_words(finding))
    present = {finding["signature"] for finding in report["findings"]}
    outcome.taken_back = [
        f"{verdict} {holder} at step {step}"
        for signature, verdict, step, holder in announced
        if signature not in present
        and verdict not in (*INFORMATION, *case.allowed)
    ]
    return outcome


def judge_leak(
    case: Case,
    outcome: Outcome,
    findings: list[dict[str, Any]],
    announced: list[Any],
) -> None:
    expect = case.expect or {}
    verdicts = any_of(expect.get("verdict", "leak"))
    best: tuple[int, dict[str, Any]] | None = None
    for finding in findings:
        if finding["verdict"] in INFORMATION:
            continue
        holder, line, grown = fits(finding, expect)
        if not (holder or line or grown):
            outcome.false.append(in_words(finding))
            continue
        if finding["verdict"] not in verdicts:
            continue
        score = 2 * holder + line
        if best is None or score > best[0]:
            best = (score, finding)
    if best is None:
        return
    finding = best[1]
    outcome.found = True
    outcome.right_holder, outcome.right_line, outcome.right_grown = fits(
        finding, expect
    )
    if "severity" in expect:
        outcome.right_severity = finding["severity"] == expect["severity"]
    first = finding.get("confirmed_step")
    if first is None:
        signature = finding["signature"]
        steps = [note[2] for note in announced if note[0] == signature]
        first = min(steps, default=outcome.steps)
    outcome.confirmed = max(first - WARMUP, 0)
    outcome.in_time = outcome.confirmed <= expect.get("within", 15)


def fits(
    finding: dict[str, Any], expect: dict[str, Any]
) -> tuple[bool, bool, bool | None]:
    """Whether holder, allocating line and growing line are the right ones."""
    holder = (finding["holder"] or {}).get("expression", "")
    line = finding["allocated_at"]["source"]
    grown = (finding["grown_at"] or {}).get("source")
    return (
        any(part in holder for part in any_of(expect.get("holder", ""))),
        any(part in line for part in any_of(expect.get("line", ""))),
        None
        if grown is None or "grown" not in expect
        else any(part in grown for part in any_of(expect["grown"])),
    )


def in_words(finding: dict[str, Any]) -> str:
    holder = (finding["holder"] or {}).get("expression", "?")
    line = finding["allocated_at"]
    where = f"{line['line']}: {line['source'].strip()}"
    if finding["grown_at"]:
        grown = finding["grown_at"]
        where += f" (grown {grown['line']}: {grown['source'].strip()})"
    return f"{finding['verdict']} {holder} <- {where}"


# -- the table ---------------------------------------------------------------


def ratio(part: int, whole: int) -> str:
    share = f"{part / whole:.1%}" if whole else "-"
    return f"{part} of {whole} ({share})"


def print_row(outcome: Outcome) -> None:
    mark = "ok  " if outcome.right else "FAIL"
    when = ""
    if outcome.confirmed is not None:
        when = f"+{outcome.confirmed}"
    print(f"{mark} {outcome.name:42} {when:>5}  {', '.join(outcome.wrongs)}")
    if not outcome.right:
        for line in outcome.said:
            print(f"       {line}")
    for line in outcome.taken_back:
        print(f"       taken back: {line}")
    sys.stdout.flush()


def print_summary(outcomes: Sequence[Outcome]) -> None:
    leaky = [o for o in outcomes if o.leaky]
    others = [o for o in outcomes if not o.leaky]
    found = [o for o in leaky if o.found]
    alarms = sum(len(o.false) for o in outcomes)
    steps = sorted(o.confirmed for o in found if o.confirmed is not None)
    said = [o for o in found if o.right_grown is not None]
    print()
    print("recall          ", ratio(len(found), len(leaky)))
    print("precision       ", ratio(len(found), len(found) + alarms))
    quiet = [o for o in others if not (o.false or o.crashed)]
    print("no false alarm  ", ratio(len(quiet), len(others)))
    print(
        "never cried     ",
        ratio(sum(not o.taken_back for o in quiet), len(others)),
    )
    print(
        "no needless word",
        ratio(sum(not o.needless for o in quiet), len(others)),
    )
    print(
        "right holder    ",
        ratio(sum(o.right_holder for o in found), len(found)),
    )
    print(
        "right line      ", ratio(sum(o.right_line for o in found), len(found))
    )
    print(
        "right grown_at  ",
        ratio(sum(bool(o.right_grown) for o in said), len(said)),
        f"of {len(found)} found",
    )
    print("in time         ", ratio(sum(o.in_time for o in found), len(found)))
    if steps:
        print(
            f"steps until confirmed, after {WARMUP} of warm-up: median"
            f" {steps[len(steps) // 2]}, longest {steps[-1]}"
        )
    crashed = [o.name for o in outcomes if o.crashed]
    if crashed:
        print("crashed         ", ", ".join(crashed))


Row = Mapping[str, Any]  # an outcome as --json writes it


def to_row(outcome: Outcome) -> Row:
    return {
        **asdict(outcome),
        "right": outcome.right,
        "wrongs": outcome.wrongs,
    }


def state(row: Row | None) -> str:
    """Whether it was right, and the verdicts: "right: cache, leak"."""
    if row is None:
        return "not run"
    words = [*row["wrongs"]] or ["right"]
    words += ["taken back"] if row["taken_back"] else []
    verdicts = sorted({said.split(" ", 1)[0] for said in row["said"]})
    return f"{', '.join(words)}: {', '.join(verdicts) or 'nothing said'}"


def changes(old: Iterable[Row], new: Iterable[Row]) -> list[str]:
    """A table in Markdown: what is said otherwise, or was not run before."""
    before = {row["name"]: row for row in old}
    lines = ["| program | then | now |", "|---|---|---|"]
    for row in new:
        then, now = state(before.get(row["name"])), state(row)
        if then != now:
            lines.append(f"| `{row['name']}` | {then} | {now} |")
    return lines


def print_changes(file: Path, new: Sequence[Row]) -> None:
    """Programs that were saved and not run now are no change."""
    head, rule, *rows = changes(json.loads(file.read_text()), new)
    print(f"\nagainst {file}: {len(rows)} of {len(new)} programs differ")
    if rows:
        print(head, rule, *rows, sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="save the outcomes")
    parser.add_argument(
        "--against", type=Path, help="outcomes that were saved"
    )
    given = parser.parse_args()
    if given.against and not given.against.is_file():
        parser.error(f"no outcomes at {given.against}: --json saves them")
    chosen = cases(given.names)
    here = [case for case in chosen if not case.missing]
    for case in chosen:
        if case.missing:
            print(f"left out: {case.name} needs {case.needs}")
    outcomes = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(judge, here):
            print_row(outcome)
            outcomes.append(outcome)
    print_summary(outcomes)
    rows = [to_row(outcome) for outcome in outcomes]
    if given.against:
        print_changes(given.against, rows)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if all(o.right for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
