"""Programs of public repositories, as they are and with a leak planted.

    python tests/public/run.py [--mirrors D] [--json F] [--keep D] [NAMES...]

Each program of recipe.toml is taken from a mirror, or from GitHub, at its
commit and made shorter.  It runs plain and watched, as it is ("fixed") and
with the recipe's plant ("leaky"); what grows by itself is in the recipe.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "whole"))

import fetch  # noqa: E402
import table  # noqa: E402
import truth  # noqa: E402
from compare import Case  # noqa: E402
from runs import Script  # noqa: E402

SEED = (
    "import random, numpy, torch; "
    "random.seed(0); numpy.random.seed(0); torch.manual_seed(0)"
)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if old not in text:
        raise LookupError(f"{file.name} has no {old!r}")
    file.write_text(text.replace(old, new))


def seed(file: Path) -> None:
    lines = file.read_text().splitlines()
    futures = [n for n, x in enumerate(lines) if x.startswith("from __fut")]
    lines.insert(futures[-1] + 1 if futures else 0, SEED)
    file.write_text("\n".join(lines) + "\n")


def plant(file: Path, after: str, lines: list[str], nth: int) -> None:
    source = file.read_text().splitlines()
    places = [n for n, line in enumerate(source) if line.strip() == after]
    if len(places) < nth:
        raise LookupError(f"{file.name} has no line {after!r}")
    line = source[places[nth - 1]]
    indent = line[: len(line) - len(line.lstrip())]
    at = places[nth - 1] + 1
    source[at:at] = [indent + text if text else "" for text in lines]
    file.write_text("\n".join(source) + "\n")


def environment_of(record: dict, root: Path, packages: Path) -> dict[str, str]:
    path = [str(root / folder) for folder in record.get("path", ())]
    path += [str(HERE / "fakes"), str(packages)]
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "MPLBACKEND": "Agg",
        "PYTHONWARNINGS": "ignore",
    } | record.get("environment", {})


def preparer(
    record: dict, mirrors: Path | None, packages: Path
) -> Callable[[str, Path], Script]:
    def prepare(variant: str, folder: Path) -> Script:
        tree = fetch.tree(record["repository"], record["commit"], mirrors)
        shutil.copytree(tree, folder)
        script = folder / record["script"]
        environment = environment_of(record, folder, packages)
        if "prepare" in record:
            subprocess.run(
                [sys.executable, "-c", record["prepare"]],
                cwd=script.parent,
                env=os.environ | environment,
                check=True,
            )
        for old, new in record.get("shorten", ()):
            replace(script, old, new)
        if record.get("seed", True):
            seed(script)
        if variant == "leaky":
            for part in record["plant"]:
                file = script.parent / part.get("file", script.name)
                nth = part.get("nth", 1)
                plant(file, part["after"], part["lines"], nth)
        arguments = tuple(record.get("arguments", ()))
        return Script(script, arguments, tuple(environment.items()))

    return prepare


def case_of(record: dict, mirrors: Path | None, packages: Path) -> Case:
    return Case(
        name=record["name"],
        leaks=tuple(map(truth.leak_of, record["leak"])),
        prepare=preparer(record, mirrors, packages),
        varies=record.get("varies", False),
        gate=False,
        twice=False,
        grows=tuple(record.get("grows", ())),
    )


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--mirrors", type=Path, metavar="D")
    options = parser.parse_args()
    recipe = tomllib.loads((HERE / "recipe.toml").read_text())
    records = {record["name"]: record for record in recipe["program"]}
    unknown = set(options.names) - set(records)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    constraints = HERE.parents[1] / "constraints.txt"
    packages = fetch.packages(recipe["packages"], constraints)
    names = options.names or list(records)
    cases = [
        case_of(records[name], options.mirrors, packages) for name in names
    ]
    results = table.run(cases, options)
    sys.exit(len(results) < len(cases))


if __name__ == "__main__":
    main()
