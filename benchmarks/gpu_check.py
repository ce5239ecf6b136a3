"""Everything that takes a GPU to say, in one command and under ten minutes.

    make gpu-check            # or: python benchmarks/gpu_check.py [PART ...]

Builds impactarbiter from this tree against the torch that this Python has,
into build/gpu-site, and runs each part (gpu_parts.py) in a process of its
own.  Results go to benchmarks/results/ under the machine's name.  Without a
GPU it says so, claims nothing and exits with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SITE = ROOT / "build" / "gpu-site"

#: Parts in their order, and the most seconds that each may take.
PARTS = {
    "equality": 60,
    "oom": 60,
    "overhead": 150,
    "shares": 60,
    "long": 240,
    "lab": 240,
    "models": 120,
}
BUILD_SECONDS = 240
#: The whole of it; what does not fit is left out, and said to be.
MOST_SECONDS = 570


def gpu() -> str | None:
    """The GPU's name and versions, or None; asked in another process."""
    ask = (
        "import torch; c = torch.cuda; assert c.is_available();"
        " print(c.get_device_name() + '; torch ' + torch.__version__"
        " + ', CUDA ' + torch.version.cuda)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else None


def build() -> str | None:
    """Into SITE; else the line that says why not."""
    for folder in (ROOT / "build").glob("lib*"):
        shutil.rmtree(folder)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--upgrade"]
    pip += ["--no-build-isolation", "--no-deps", "--target", str(SITE)]
    try:
        done = subprocess.run(
            [*pip, "."],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            env={"MAX_JOBS": str(os.cpu_count() or 2), **os.environ},
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {BUILD_SECONDS} s"
    if done.returncode == 0:
        return None
    wrong = [t for t in done.stderr.splitlines() if "rror" in t]
    return wrong[0].strip() if wrong else f"exit status {done.returncode}"


def run(part: str, limit: int) -> dict[str, Any]:
    """What the part found; {"failed": why} where it did not end well."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(HERE / "gpu_parts.py"), part],
            capture_output=True,
            text=True,
            timeout=limit,
            env={**os.environ, "PYTHONPATH": str(SITE)},
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"took longer than {limit} s"}
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        tail = done.stderr.strip().splitlines() or ["no output"]
        return {"failed": tail[-1], "stderr": tail[-20:]}
    found: dict[str, Any] = json.loads(lines[-1])
    found["seconds"] = round(time.monotonic() - start, 1)
    return found


def show(part: str, found: dict[str, Any]) -> None:
    print(f"== {part}")
    for name, value in found.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for row in value:
                print("  " + ", ".join(f"{k} {v}" for k, v in row.items()))
        else:
            print(f"  {name}: {value}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(
            f"no part named {', '.join(sorted(unknown))}: there are "
            + ", ".join(PARTS)
        )
    name = gpu()
    if name is None:
        print(
            "no GPU that torch can use here: nothing ran, nothing is claimed"
        )
        return 0
    start = time.monotonic()
    print(f"== {name}; building against it", flush=True)
    wrong = build()
    if wrong:
        print(f"the build failed: {wrong}")
        return 1
    words = re.findall(r"\w+", name.partition(";")[0].lower())
    path = HERE / "results" / f"gpu_{'_'.join(words)}.json"
    results: dict[str, Any] = {"machine": name}
    if path.exists():
        # Parts that are not asked for stay as they were found there.
        before: dict[str, Any] = json.loads(path.read_text())
        results = before if before["machine"] == name else results
    results["host"] = platform.node()
    for part in options.parts or PARTS:
        left = int(MOST_SECONDS - (time.monotonic() - start))
        if left < 10:
            results[part] = {"failed": "left out: no time was left"}
        else:
            results[part] = run(part, min(PARTS[part], left))
        show(part, results[part])
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"== written to {path.relative_to(ROOT)}")
    return int(any("failed" in results[p] for p in options.parts or PARTS))


if __name__ == "__main__":
    sys.exit(main())
