"""Whole programs under the launcher: what is said, beside what is true.

    python tests/whole/run.py [--jobs 2] [--json F] [NAMES...]

Each program of truth.toml runs as plain Python and watched, leaky and
fixed, in a copy of the programs' folder; offered patches are applied to a
further copy and run again.  One line a program, then a table.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import truth

TIMEOUT = 600
ALARMS = ("leak", "growing")  # verdicts that a gate counts
STOPPED = 0.1  # of the growth may be left behind by a patch


@dataclass(frozen=True)
class Run:
    exit: int | None  # None: it ran past TIMEOUT
    stdout: str
    stderr: str
    cpu: float  # seconds, of all its processes
    report: dict | None


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
    steps: tuple[int | None, int]  # said, true
    explained: float | None
    cpu: float  # watched / plain, both twins
    cpu_plain: float


def execute(command: list[str], folder: Path) -> Run:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        process = subprocess.Popen(
            ["timeout", str(TIMEOUT), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Run(
            exit=None if code == 124 else code,
            stdout=out.read(),
            stderr=err.read(),
            cpu=usage.ru_utime + usage.ru_stime,
            report=None,
        )


def watched(script: Path, args: tuple[str, ...], gate: bool) -> Run:
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "report.json")
        # Without -P: the script finds its neighbours, as in the plain run.
        command = [sys.executable, "-m", "impactarbiter", "run"]
        command += ["--json", str(output)]
        if gate:
            command += ["--fail-on", "info"]
        run = execute([*command, str(script), *args], script.parent)
        report = json.loads(output.read_text()) if output.exists() else None
    return Run(run.exit, run.stdout, run.stderr, run.cpu, report)


def plain(script: Path, args: tuple[str, ...]) -> Run:
    return execute([sys.executable, str(script), *args], script.parent)


# -- what a finding says ------------------------------------------------------


def holder_of(finding: dict) -> str:
    holder = finding.get("holder") or {}
    return str(holder.get("expression") or finding.get("path") or "")


def rate_of(finding: dict) -> float:
    keys = ("bytes_per_step", "graph_bytes_per_step")
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
        leak.file or script.name,
        truth.lines_of(script, leak.file, leak.grown),
        leak.allocated_file or script.name,
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
    program: truth.Program, leak: truth.Leak, finding: dict, before: float
) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "programs")
        shutil.copytree(truth.PROGRAMS, folder)
        script = truth.script_of(program.name, "leaky", folder)
        named = r"^\+\+\+ \S*?([^/\s]+)\s*$"
        target = re.search(named, finding["patch"], re.M)
        try:
            apply_patch(
                finding["patch"],
                script.parent / (target[1] if target else script.name),
            )
        except (ValueError, OSError) as error:
            return f"fails: {error}"
        run = watched(script, program.args, gate=False)
    if run.exit != program.exit:
        last = run.stderr.strip().splitlines()[-1:] or ["?"]
        return f"fails: exit {run.exit}, {last[0][:60]}"
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
    program: truth.Program, leak: truth.Leak, script: Path, findings: list
) -> Answer:
    answer = Answer()
    lines = lines_of(leak, script)
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
        answer.patch = try_patch(program, leak, best, answer.rate)
    return answer


def announced(report: dict) -> list[dict]:
    return list(report.get("announced") or ())


def compare(name: str, was: Run, now: Run, varies: bool) -> list[str]:
    changed = []
    if was.exit != now.exit:
        changed.append(f"{name}: exit {was.exit}, watched {now.exit}")
    if was.stdout != now.stdout and not varies:
        changed.append(f"{name}: stdout")
    if now.report is None:
        last = now.stderr.strip().splitlines()[-1:] or ["?"]
        changed.append(f"{name}: no report: {last[0][:100]}")
    return changed


def judge(program: truth.Program) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "programs")
        shutil.copytree(truth.PROGRAMS, folder)
        script = truth.script_of(program.name, "leaky", folder)
        twin = truth.script_of(program.name, "fixed", folder)
        was = plain(script, program.args)
        now = watched(script, program.args, gate=False)
        twin_was = plain(twin, program.args)
        twin_now = watched(twin, program.args, gate=True)
        if was.exit != program.exit or twin_was.exit != program.exit:
            sys.exit(f"{program.name}: {was.exit}\n{was.stderr[-2000:]}")
        varies = program.stdout_varies
        changed = compare("leaky", was, now, varies)
        changed += compare("fixed", twin_was, twin_now, varies)
        report, twin_report = now.report or {}, twin_now.report or {}
        findings = report.get("findings", [])
        answers = [
            answer_of(program, leak, script, findings)
            for leak in program.leaks
        ]
        all_lines = [lines_of(leak, script) for leak in program.leaks]

    def fits(finding: dict) -> bool:
        holder = holder_of(finding)
        return any(truth.holder_fits(leak, holder) for leak in program.leaks)

    def met(finding: dict) -> bool:
        return any(lines.met_by(finding) for lines in all_lines)

    strange = [f for f in findings if is_alarm(f) and not fits(f)]
    in_passing = [
        f"leaky: {words(f)}"
        for f in announced(report)
        if not fits(f) and not met(f)
    ]
    in_passing += [f"fixed: {words(f)}" for f in announced(twin_report)]
    grown = report.get("grown_bytes_per_step")
    explained = report.get("explained_bytes_per_step")
    return Result(
        name=program.name,
        answers=answers,
        wrong=[words(f) for f in strange if not met(f)],
        renamed=[words(f) for f in strange if met(f)],
        wrong_fixed=[
            words(f) for f in twin_report.get("findings", []) if is_alarm(f)
        ],
        in_passing=in_passing,
        changed=changed,
        steps=(report.get("steps"), program.steps),
        explained=explained / grown if grown and explained else None,
        cpu=(now.cpu + twin_now.cpu) / (was.cpu + twin_was.cpu),
        cpu_plain=was.cpu + twin_was.cpu,
    )


# -- words --------------------------------------------------------------------


def line_of(result: Result) -> str:
    parts = []
    for answer in result.answers:
        if not answer.found:
            parts.append("UNCONFIRMED" if answer.unconfirmed else "MISSED")
            continue
        said = "found" if answer.holder else "found, other holder"
        if not answer.allocated:
            said += ", other birthplace"
        said += f", statement {answer.statement}, told at {answer.told_at}"
        if answer.share_of_truth is not None:
            said += f", rate {answer.share_of_truth:.2f} of the true one"
        if answer.patch != "none":
            said += f", patch {answer.patch}"
        parts.append(said)
    line = f"{result.name:26} {'; '.join(parts)}"
    steps, true_steps = result.steps
    if steps != true_steps:
        line += f"; {steps} steps, true {true_steps}"
    if result.explained is not None:
        line += f"; explained {result.explained:.2f}"
    return f"{line}; cpu {result.cpu:.2f}"


def details(result: Result) -> list[str]:
    out = [f"WATCHING CHANGED {text}" for text in result.changed]
    out += [f"wrong: {text}" for text in result.wrong]
    out += [f"told again: {text}" for text in result.renamed]
    out += [f"wrong on the fixed twin: {text}" for text in result.wrong_fixed]
    out += [f"wrong in passing: {text}" for text in result.in_passing]
    for answer in result.answers:
        if not (answer.found and answer.holder):
            out += [f"said: {text}" for text in answer.said]
    return out


def table(results: list[Result]) -> list[str]:
    answers = [a for result in results for a in result.answers]
    found = [a for a in answers if a.found]
    statements = Counter(a.statement for a in found)
    told = sorted(a.told_at for a in found if a.told_at is not None)
    patches = [a.patch for a in answers if a.patch != "none"]
    shares = sorted(r.explained for r in results if r.explained is not None)
    ratios = sorted(r.cpu for r in results)
    own = sum(r.steps[0] == r.steps[1] for r in results)

    def middle(values: list) -> str:
        return f"{values[len(values) // 2]:.2f}" if values else "none said"

    rows = {
        "programs": str(len(results)),
        "result or exit code changed": str(
            sum(bool(r.changed) for r in results)
        ),
        "leaks found": f"{len(found)} of {len(answers)}"
        f" ({sum(a.unconfirmed for a in answers)} more unconfirmed)",
        "right holder": f"{sum(a.holder for a in found)} of {len(found)}",
        "right birthplace": f"{sum(a.allocated for a in found)}"
        f" of {len(found)}",
        "right statement": f"{statements['right']} of {len(found)}"
        f" ({statements['not seen']} not seen,"
        f" {statements['wrong']} wrong)",
        "wrong words at the end": f"leaky {sum(len(r.wrong) for r in results)}"
        f" (and {sum(len(r.renamed) for r in results)} told again),"
        f" fixed {sum(len(r.wrong_fixed) for r in results)}",
        "wrong words in passing": str(sum(len(r.in_passing) for r in results)),
        "steps as a person counts": f"{own} of {len(results)}",
        "steps until told": f"{middle(told)} (median)",
        "patches that hold": f"{patches.count('holds')} of {len(patches)}",
        "growth explained": f"{middle(shares)} (median),"
        f" under 0.8 in {sum(s < 0.8 for s in shares)}",
        "CPU time, watched / plain": f"{middle(ratios)} (median),"
        f" {ratios[-1]:.2f} (worst)",
    }
    width = max(map(len, rows))
    return [f"{name:{width}}  {value}" for name, value in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="F")
    options = parser.parse_args()
    programs = truth.load(options.names)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(judge, programs):
            results.append(result)
            print(line_of(result), flush=True)
            for text in details(result):
                print(f"    {text}", flush=True)
    print()
    print("\n".join(table(results)))
    if options.json:
        records = [asdict(result) for result in results]
        options.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
