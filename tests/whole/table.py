"""One line a program and what was wrong with it, then a table."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from compare import Case, DoesNotRun, Result, judge


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
    if true_steps is not None and steps != true_steps:
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
    counted = [r.steps for r in results if r.steps[1] is not None]
    own = sum(said == true for said, true in counted)

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
        "steps as a person counts": f"{own} of {len(counted)}",
        "steps until told": f"{middle(told)} (median)",
        "patches that hold": f"{patches.count('holds')} of {len(patches)}",
        "growth explained": f"{middle(shares)} (median),"
        f" under 0.8 in {sum(s < 0.8 for s in shares)}",
        "CPU time, watched / plain": f"{middle(ratios)} (median),"
        f" {ratios[-1]:.2f} (worst)",
    }
    width = max(map(len, rows))
    return [f"{name:{width}}  {value}" for name, value in rows.items()]


def run(cases: Iterable[Case], options: argparse.Namespace) -> list[Result]:
    """Judge and print each case, then the table; write all as JSON."""
    results: list[Result] = []
    output: Path | None = options.json
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in [pool.submit(judge, c, options.keep) for c in cases]:
            try:
                result = future.result()
            except DoesNotRun as error:
                print(error, flush=True)
                continue
            results.append(result)
            print(line_of(result), flush=True)
            for text in details(result):
                print(f"    {text}", flush=True)
            if output:
                records = [asdict(result) for result in results]
                output.write_text(json.dumps(records, indent=1) + "\n")
    print()
    if results:
        print("\n".join(table(results)))
    return results


def options(text: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument(
        "--keep", type=Path, metavar="D", help="folder for what the runs wrote"
    )
    return parser
