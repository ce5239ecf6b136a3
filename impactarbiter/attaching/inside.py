"""What is run inside of the process that is attached to.

The text of this file is what goes there: it imports nothing of ours before it
knows that the very same build of us is to be had, and changes nothing there
where it is not.
"""

from __future__ import annotations

from typing import Any


def enter(folder: str) -> None:
    """Answers what stands in ``folder``; raises nothing."""
    import io
    import json
    import os
    import threading

    answer: dict[str, Any] = {"thread": threading.get_native_id()}
    try:
        with io.open(os.path.join(folder, "task.json"), "rb") as stream:
            task = json.load(stream)
        refusal = other_build(task)
        if refusal:
            answer.update(refusal)
        else:
            from impactarbiter.watching import attended

            answer.update(attended.begin(folder, task))
    except BaseException as error:
        answer["failed"] = f"{type(error).__name__}: {error}"
    try:
        name = os.path.join(folder, "answer.json")
        with io.open(name + ".tmp", "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
        os.replace(name + ".tmp", name)
    except OSError:
        pass  # whoever asked is gone


def other_build(task: dict[str, Any]) -> dict[str, Any]:
    """What is wrong with the package that would be imported here, or {}."""
    import importlib.util
    import sys

    spec = importlib.util.find_spec("impactarbiter")
    where = list(spec.submodule_search_locations or []) if spec else []
    found = {"python": sys.executable, "where": where[0] if where else ""}
    if where and build_of(where[0]) == task["build"]:
        return {}
    return {"refused": "build" if where else "missing", **found}


def build_of(folder: str) -> str:
    """Names the build of us in a folder: a digest of what was compiled."""
    import hashlib
    import io
    import os

    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if name.startswith("_") and name.endswith(".so"):
            digest.update(name.encode() + b"\0")
            with io.open(os.path.join(folder, name), "rb") as stream:
                digest.update(stream.read())
    return digest.hexdigest()
