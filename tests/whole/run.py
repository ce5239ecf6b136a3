"""Whole programs under the launcher: what is said, beside what is true.

    python tests/whole/run.py [--jobs 2] [--json F] [NAMES...]

Each program of truth.toml runs as plain Python and watched, leaky and
fixed, in a copy of the programs' folder; offered patches are applied to a
further copy and run again.  One line a program, then a table.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import table
import truth
from compare import Case
from runs import Script


def case_of(program: truth.Program) -> Case:
    def prepare(variant: str, folder: Path) -> Script:
        shutil.copytree(truth.PROGRAMS, folder)
        script = truth.script_of(program.name, variant, folder)
        return Script(script, program.args)

    return Case(
        name=program.name,
        leaks=program.leaks,
        prepare=prepare,
        exit=program.exit,
        steps=program.steps,
        varies=program.stdout_varies,
        gate=not program.grows,
        grows=program.grows,
    )


def main() -> None:
    options = table.options(__doc__).parse_args()
    cases = [case_of(program) for program in truth.load(options.names)]
    results = table.run(cases, options)
    sys.exit(len(results) < len(cases))


if __name__ == "__main__":
    main()
