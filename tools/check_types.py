"""Asks pyright whether every public type is known: `--verifytypes`.

    python tools/check_types.py

Of the installed package.  What is unknown is printed, and the exit code is 1.
Classes below one of a package that has no types of its own, or is not
installed (accelerate, ray), are listed and let pass: only that package can
make them known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: What is said of a class whose base nobody can know.
BASES = {"Type of metaclass unknown", "Type of base class unknown"}


def symbols() -> list[dict[str, Any]]:
    """What pyright says of each symbol of the package."""
    folder = Path(sys.executable).parent
    command = [str(folder / "basedpyright"), "--verifytypes", "impactarbiter"]
    command += ["--ignoreexternal", "--outputjson"]
    # The interpreter is the PATH's first.  Elsewhere, lest the source folder
    # be taken for the package.
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            command, cwd=empty, env=environment, capture_output=True, text=True
        )
    answer = json.loads(done.stdout)
    if "typeCompleteness" not in answer:
        sys.exit(done.stdout + done.stderr)
    found: list[dict[str, Any]] = answer["typeCompleteness"]["symbols"]
    return found


def main() -> int:
    ours = [one for one in symbols() if one["isExported"]]
    unknown = [one for one in ours if not one["isTypeKnown"]]
    # What says nothing itself is unknown for its parts, which say why.
    foreign = [
        one["name"] for one in unknown if said(one) and said(one) <= BASES
    ]
    failed = [one for one in unknown if one["name"] not in foreign]
    for one in failed:
        print(one["name"], *sorted(said(one)), sep="\n    ")
    print(f"{len(ours) - len(unknown)} of {len(ours)} types are known")
    for name in foreign:
        print(f"its base has no types: {name}")
    return 1 if failed or not ours else 0


def said(symbol: dict[str, Any]) -> set[str]:
    """What is wrong with it."""
    return {one["message"].strip() for one in symbol["diagnostics"]}


if __name__ == "__main__":
    sys.exit(main())
