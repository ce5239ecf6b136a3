"""What is said of a program that leaks, beside what is true.

A case has two variants, one that leaks and one that does not.  Both run as
plain Python and watched, each in a copy of its own; an offered patch is
applied to one more copy and run.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import truth
from runs import Run, Script, last_line, plain, watched

ALARMS = ("leak", "growing")  # verdicts that a gate counts
STOPPED = 0.1  # of the growth may be left behind by a patch


class DoesNotRun(Exception):
    """The program itself fails, without us."""


@dataclass(frozen=True)
class Case:
    name: str
    leaks: tuple[truth.Leak, ...]
    # Puts the variant ("leaky" or "fixed") into an empty folder.
    prepare: Callable[[str, Path], Script]
    exit: int = 0
    steps: int | None = None  # as a person counts; None: not known
    varies: bool = False  # its output is not the same twice
    gate: bool = True  # --fail-on info for the fixed variant
    twice: bool = True  # the leaky variant runs plain, too
    grows: tuple[str, ...] = ()  # holders that grow in both variants


@dataclass
class Answer:
    """What was said of one leak."""

    found: bool = False
    unconfirmed: bool = False
    holder: bool = False
    allocated: bool = False
    statement: str = "-"  # right, wrong, not seen
    told_at: int | None = None
    rate: float = 0.0  # bytes a step, graph included
    share_of_truth: float | None = None
    patch: str = "none"  # none, holds, fails: why
    said: list[str] = field(default_factory=list)


@dataclass
class Result:
    name: str
    answers: list[Answer]
    wrong: list[str]  # findings of the leaky twin that fit no leak
    renamed: list[str]  # a leak's lines, told again of another holder
    wrong_fixed: list[str]  # alarms on the fixed twin
    in_passing: list[str]  # announced, and not true
    changed: list[str]  # what watching changed: stdout, exit code
    steps: tuple[int | None, int | None]  # said, true
    explained: float | None
    cpu: float  # watched / plain, both twins
    cpu_plain: float


# -- what a finding says ------------------------------------------------------


def holder_of(finding: dict) -> str:
    holder = finding.get("holder") or {}
    return str(holder.get("expression") or finding.get("path") or "")


def rate_of(finding: dict) -> float:
    """With the nodes of graphs and the tensors' own objects, as a process
    grows by them, too."""
    keys = (
        "bytes_per_step",
        "graph_bytes_per_step",
        "object_bytes_per_step",
    )
    return float(sum(finding.get(key) or 0 for key in keys))


def stands_at(site: dict | None, name: str, lines: set[int]) -> bool:
    return (
        site is not None
        and Path(site["file"]).name == name
        and site["line"] in lines
    )


def is_alarm(finding: dict) -> bool:
    return finding["verdict"] in ALARMS or finding["severity"] != "info"


def words(finding: dict) -> str:
    grown = finding.get("grown_at") or {}
    return (
        f"{finding['verdict']} ({finding['severity']}) {holder_of(finding)} "
        f"{rate_of(finding):.0f} B/step, grown at {grown.get('line', '?')}"
    )


@dataclass(frozen=True)
class Lines:
    """A leak's lines as numbers in the script that ran."""

    grown_file: str
    grown: set[int]
    allocated_file: str
    allocated: set[int]

    def grow(self, finding: dict) -> bool:
        return stands_at(finding.get("grown_at"), self.grown_file, self.grown)

    def allocate(self, finding: dict) -> bool:
        site = finding.get("allocated_at")
        return stands_at(site, self.allocated_file, self.allocated)

    def met_by(self, finding: dict) -> bool:
        return self.grow(finding) or self.allocate(finding)


def lines_of(leak: truth.Leak, script: Path) -> Lines:
    return Lines(
        Path(leak.file or script).name,
        truth.lines_of(script, leak.file, leak.grown),
        Path(leak.allocated_file or script).name,
        truth.lines_of(script, leak.allocated_file, leak.allocated),
    )


# -- patches ------------------------------------------------------------------


def apply_patch(diff: str, file: Path) -> None:
    """Apply a unified diff of one file; its lines must be there as told."""
    source = file.read_text().splitlines()
    shift = 0
    for hunk in re.split(r"^(?=@@ )", diff, flags=re.M)[1:]:
        head, *body = hunk.splitlines()
        numbers = re.match(r"@@ -(\d+)", head)
        assert numbers, head
        old = [line[1:] for line in body if line[:1] in (" ", "-", "")]
        new = [line[1:] for line in body if line[:1] in (" ", "+", "")]
        begin = int(numbers[1]) - 1 + shift
        if source[begin : begin + len(old)] != old:
            raise ValueError(f"hunk {head} does not fit {file.name}")
        source[begin : begin + len(old)] = new
        shift += len(new) - len(old)
    file.write_text("\n".join(source) + "\n")


def try_patch(
    case: Case, leak: truth.Leak, finding: dict, before: float
) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "copy")
        script = case.prepare("leaky", folder)
        named = r"^\+\+\+ \S*?([^/\s]+)\s*$"
        target = re.search(named, finding["patch"], re.M)
        files = [script.file]
        if target and target[1] != script.file.name:
            files = sorted(folder.rglob(target[1]))
        reason = "no such file"
        for file in files:
            try:
                apply_patch(finding["patch"], file)
                break
            except (ValueError, OSError) as error:
                reason = str(error)
        else:
            return f"fails: {reason}"
        run = watched(script, gate=False)
    if run.exit != case.exit:
        return f"fails: exit {run.exit}, {last_line(run)}"
    if run.report is None:
        return "fails: no report"
    left = sum(
        rate_of(other)
        for other in run.report["findings"]
        if truth.holder_fits(leak, holder_of(other))
    )
    if left > STOPPED * before:
        return f"fails: {left:.0f} of {before:.0f} B/step are left"
    return "holds"


# -- one program --------------------------------------------------------------


def answer_of(
    case: Case, leak: truth.Leak, lines: Lines, findings: list
) -> Answer:
    answer = Answer()
    of_leak = [
        f
        for f in findings
        if truth.holder_fits(leak, holder_of(f)) or lines.met_by(f)
    ]
    answer.said = [words(f) for f in of_leak]
    told = [f for f in of_leak if f["verdict"] in leak.verdicts]
    answer.unconfirmed = not told and any(
        f["verdict"] == "growing" for f in of_leak
    )
    if not told:
        return answer
    answer.found = True
    fits = [f for f in told if truth.holder_fits(leak, holder_of(f))]
    answer.holder = bool(fits)
    best = max(fits or told, key=rate_of)
    answer.allocated = any(lines.allocate(f) for f in fits or told)
    if best.get("grown_at") is None:
        answer.statement = "not seen"
    elif lines.grow(best):
        answer.statement = "right"
    else:
        answer.statement = "wrong"
    steps = [f.get("confirmed_step") for f in fits or told]
    answer.told_at = min((s for s in steps if s is not None), default=None)
    answer.rate = sum(map(rate_of, fits or told))
    if leak.bytes_per_step:
        answer.share_of_truth = answer.rate / leak.bytes_per_step
    if best.get("patch"):
        answer.patch = try_patch(case, leak, best, answer.rate)
    return answer


#: What is said while the program runs, maybe behind a progress bar: the
#: verdict, and the holder first.
SAID = re.compile(r"impactarbiter: step [\d,]+: ([A-Z]+ [\w-]+): (.+)$", re.M)
#: What follows the holder.
KEEPS = re.compile(r" (?:keeps|has kept) ")
BOUNDED = ("accumulation", "cache")


def said_in_passing(run: Run) -> list[tuple[str, str]]:
    """Alarms, as a severity and a verdict, with their holders."""
    return [
        (word, KEEPS.split(text, maxsplit=1)[0])
        for word, text in SAID.findall(run.stderr)
        if word.split()[1] not in BOUNDED
    ]


def changes(name: str, was: Run, now: Run, varies: bool) -> list[str]:
    changed = []
    if was.exit != now.exit:
        changed.append(f"{name}: exit {was.exit}, watched {now.exit}")
    if was.stdout != now.stdout and not varies:
        changed.append(f"{name}: stdout")
    if now.report is None:
        changed.append(f"{name}: no report: {last_line(now)}")
    return changed


def keep_runs(
    name: str, runs: dict[str, tuple[Run | None, Run]], folder: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for variant, both in runs.items():
        for way, ran in zip(("plain", "watched"), both, strict=True):
            if ran is None:
                continue
            stem = f"{name}.{variant}.{way}"
            (folder / f"{stem}.out").write_text(ran.stdout)
            (folder / f"{stem}.err").write_text(ran.stderr)
            if ran.report is not None:
                text = json.dumps(ran.report, indent=1)
                (folder / f"{stem}.json").write_text(text + "\n")


def judge(case: Case, keep: Path | None = None) -> Result:
    runs: dict[str, tuple[Run | None, Run]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for variant in ("fixed", "leaky"):
            script = case.prepare(variant, Path(scratch, variant))
            was = None
            if variant == "fixed" or case.twice:
                was = plain(script)
                if was.exit != case.exit:
                    tail = was.stderr[-2000:]
                    raise DoesNotRun(f"{case.name}: exit {was.exit}\n{tail}")
            gate = case.gate and variant == "fixed"
            runs[variant] = was, watched(script, gate)
        # The last of the two is the leaky one.
        lines = [lines_of(leak, script.file) for leak in case.leaks]
    if keep:
        keep_runs(case.name, runs, keep)
    return result_of(case, runs, lines)


def result_of(
    case: Case, runs: dict[str, tuple[Run | None, Run]], lines: list[Lines]
) -> Result:
    changed = []
    cpu = cpu_plain = 0.0
    for variant, (was, now) in runs.items():
        if was is not None:
            changed += changes(variant, was, now, case.varies)
            cpu, cpu_plain = cpu + now.cpu, cpu_plain + was.cpu
        elif now.exit != case.exit or now.report is None:
            changed.append(f"{variant}: exit {now.exit}, {last_line(now)}")
    report = runs["leaky"][1].report or {}
    twin_report = runs["fixed"][1].report or {}
    findings = report.get("findings", [])

    def fits(finding: dict) -> bool:
        holder = holder_of(finding)
        return any(truth.holder_fits(leak, holder) for leak in case.leaks)

    def met(finding: dict) -> bool:
        return any(part.met_by(finding) for part in lines)

    def grows(finding: dict) -> bool:
        holder = holder_of(finding)
        return any(re.fullmatch(text, holder) for text in case.grows)

    strange = [
        f for f in findings if is_alarm(f) and not fits(f) and not grows(f)
    ]
    known = {holder_of(f) for f in findings if met(f)}
    in_passing = [
        f"leaky: {word}: {holder}"
        for word, holder in said_in_passing(runs["leaky"][1])
        if not fits({"path": holder})
        and not grows({"path": holder})
        and holder not in known
    ]
    in_passing += [
        f"fixed: {word}: {holder}"
        for word, holder in said_in_passing(runs["fixed"][1])
        if not grows({"path": holder})
    ]
    grown = report.get("grown_bytes_per_step")
    explained = report.get("explained_bytes_per_step")
    return Result(
        name=case.name,
        answers=[
            answer_of(case, leak, part, findings)
            for leak, part in zip(case.leaks, lines, strict=True)
        ],
        wrong=[words(f) for f in strange if not met(f)],
        renamed=[words(f) for f in strange if met(f)],
        wrong_fixed=[
            words(f)
            for f in twin_report.get("findings", [])
            if is_alarm(f) and not grows(f)
        ],
        in_passing=in_passing,
        changed=changed,
        steps=(report.get("steps"), case.steps),
        explained=explained / grown if grown and explained else None,
        cpu=cpu / cpu_plain,
        cpu_plain=cpu_plain,
    )
