"""Waits for a framework in a Python that a watched program has started.

Stands alone: nothing of the package is imported before one is, so that a
child without any pays for a look into its environment and no more.
"""

import os
import sys

# typing takes longer to load than all the rest of a small Python does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FRAMEWORKS = ("torch", "jax", "tensorflow")
_FOLDERS = ("IMPACTARBITER_CHILDREN", "IMPACTARBITER_JOB")


class _Finder:
    """Leaves the finding to the others and waits for the module's end."""

    @classmethod
    def find_spec(
        cls, name: str, path: "Any" = None, target: "Any" = None
    ) -> "Any":
        if name not in _FRAMEWORKS:
            return None
        if cls in sys.meta_path:
            sys.meta_path.remove(cls)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                _call_after(spec)
                return spec
        return None


def _call_after(spec: "Any") -> None:
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: "Any") -> None:
        # The loader is as it was when the module's own code sees it.
        del loader.exec_module
        execute(module)
        _is_there()

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        return  # one that is fixed


def _is_there() -> None:
    """No failure of ours fails the import."""
    try:
        from impactarbiter.watching import children

        children.framework_is_there()
    except Exception:
        return


def _is_ours() -> bool:
    """Whether this Python runs a command of ours, which sees to itself."""
    words = sys.orig_argv[1:]
    for at, word in enumerate(words):
        if word == "-m":
            name = "".join(words[at + 1 : at + 2])
            return name.partition(".")[0] == "impactarbiter"
        if not word.startswith("-"):
            return os.path.basename(word) == "impactarbiter"
    return False


def begin() -> None:
    """Waits, where somebody wants to know of children."""
    folder = next(filter(None, map(os.environ.get, _FOLDERS)), None)
    if folder is None or folder == "none" or _is_ours():
        return
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
