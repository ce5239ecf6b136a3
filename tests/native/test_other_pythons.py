"""The plain C against the other Pythons that are here: compiled and linked.

Internal headers come with every version under names of their own, and what
they declare is not always there to be linked with: one of ours that is theirs
too, or one of theirs that a module may not use, is found here, not by who
builds the package there first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CORE = Path(__file__).resolve().parents[2] / "src" / "core"
CC = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
OPTIONS = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O0 -fPIC"
#: Python's headers and how we adapt to them: most of what each file reads.
FIRST = CORE / "base" / "compat.h"


def library_of(version: str, headers: Path) -> Path | None:
    """The shared library, where that Python has one."""
    name = f"libpython{version}.so"
    folders = [headers.parents[1] / "lib", Path("/usr/lib/x86_64-linux-gnu")]
    return next((f / name for f in folders if (f / name).exists()), None)


def headers_of(version: str) -> Path | None:
    """Of an installed Python, Debian's or pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    name = f"include/python{version}"
    found = [Path("/usr", name), Path("/usr/local", name)]
    found += pyenv.glob(f"versions/{version}.*/{name}")
    return next((p for p in found if (p / "Python.h").is_file()), None)


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize("version", VERSIONS)
def test_builds(version: str, tmp_path: Path) -> None:
    if version == "{}.{}".format(*sys.version_info[:2]):
        pytest.skip("what was built here")
    headers = headers_of(version)
    if headers is None:
        pytest.skip(f"no headers of Python {version}")
    folders = [CORE, *(path for path in CORE.iterdir() if path.is_dir())]
    command = [str(CC), *OPTIONS.split()]
    command += [f"-I{folder}" for folder in folders]
    command += [f"-isystem{headers}", f"-isystem{np.get_include()}"]
    first = tmp_path / "first.h"
    first.write_text(f'#include "{FIRST}"\n')
    succeeds(*command, "-x", "c-header", str(first), "-o", f"{first}.gch")
    command += ["-include", str(first), "-shared"]
    command += map(str, sorted(CORE.rglob("*.c")))
    command += ["-o", str(tmp_path / "core.so"), "-lm"]
    if library := library_of(version, headers):
        command += [str(library), "-Wl,--no-undefined"]
    succeeds(*command)


def succeeds(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
