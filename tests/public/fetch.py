"""Trees of public repositories, as they are at a commit.

From a folder of mirrors, OWNER+NAME each, or from GitHub, into build/public.
Read out of git's objects: a snapshot that lacks its largest files will do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build" / "public"
LARGEST = 3_000_000  # bytes of a file: no program here reads a larger one


@dataclass(frozen=True)
class Entry:
    path: str
    mode: str
    name: str  # of the object


def git(folder: Path, *arguments: str, text: bytes = b"") -> bytes:
    command = ["git", f"--git-dir={folder}", *arguments]
    return subprocess.run(
        command, input=text, check=True, stdout=subprocess.PIPE
    ).stdout


def mirrored(repository: str, mirrors: Path | None) -> Path | None:
    if mirrors is None:
        return None
    at = mirrors / repository.replace("/", "+")
    for folder in (at / "repo" / ".git", at / "repo", at / ".git", at):
        if (folder / "HEAD").exists():
            return folder
    return None


def cloned(repository: str, commit: str) -> Path:
    folder = BUILD / "git" / repository.replace("/", "+")
    if not folder.exists():
        subprocess.run(["git", "init", "-q", "--bare", folder], check=True)
    if subprocess.run(
        ["git", f"--git-dir={folder}", "cat-file", "-e", commit],
        stderr=subprocess.DEVNULL,
    ).returncode:
        address = f"https://github.com/{repository}.git"
        git(folder, "fetch", "-q", "--depth", "1", address, commit)
    return folder


def files_of(folder: Path, commit: str) -> list[Entry]:
    """Files of the tree that are there and not too large."""
    entries = []
    for row in git(folder, "ls-tree", "-r", "-z", commit).decode().split("\0"):
        if row:
            meta, path = row.split("\t", 1)
            mode, kind, name = meta.split()
            if kind == "blob" and mode != "120000":
                entries.append(Entry(path, mode, name))
    names = "".join(f"{entry.name}\n" for entry in entries).encode()
    known = git(folder, "cat-file", "--batch-check", text=names).decode()
    there = []
    for entry, row in zip(entries, known.splitlines(), strict=True):
        if row.endswith(" missing") or int(row.split()[2]) > LARGEST:
            continue
        there.append(entry)
    return there


def write_tree(folder: Path, commit: str, into: Path) -> None:
    entries = files_of(folder, commit)
    names = "".join(f"{entry.name}\n" for entry in entries).encode()
    data = git(folder, "cat-file", "--batch", text=names)
    at = 0
    for entry in entries:
        end = data.index(b"\n", at)
        size = int(data[at:end].split()[2])
        file = into / entry.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data[end + 1 : end + 1 + size])
        at = end + 2 + size


def tree(repository: str, commit: str, mirrors: Path | None) -> Path:
    """The folder with the repository's files at the commit."""
    into = BUILD / "trees" / f"{repository.replace('/', '+')}@{commit[:12]}"
    if not into.exists():
        folder = mirrored(repository, mirrors) or cloned(repository, commit)
        part = into.with_name(f"{into.name}.part{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        write_tree(folder, commit, part)
        part.rename(into)
    return into


def packages(requirements: list[str], constraints: Path) -> Path:
    """A folder with the packages, installed without their dependencies."""
    into = BUILD / "packages"
    stamp = into / ".requirements"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(into, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        command += ["--no-input", "--disable-pip-version-check"]
        command += ["--target", str(into), "-c", str(constraints)]
        subprocess.run([*command, *requirements], check=True)
        stamp.write_text(wanted)
    return into
