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
    """Finds nothing: it learns that a framework is being imported, and not
    only asked for."""

    @staticmethod
    def find_spec(
        name: str, path: "Any" = None, target: "Any" = None
    ) -> "Any":
        top = name.partition(".")[0]
        if top != name and top in _FRAMEWORKS and top in sys.modules:
            _wait()
        return None


def _is_a_finder_of_ours(finder: object) -> bool:
    """``site`` runs the files of an environment twice: each time this is
    made anew."""
    return type(finder) is type and (
        (finder.__module__, finder.__name__) == (__name__, _Finder.__name__)
    )


def _wait() -> None:
    """For the end of it, on the thread that is in the middle."""
    if _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)
    try:
        from impactarbiter.base import imports
    except ImportError:
        return
    for name in _FRAMEWORKS:
        imports.after(name, _one_is_there)


def _one_is_there() -> None:
    """No failure of ours fails the import."""
    from impactarbiter.base import imports
    from impactarbiter.base.signals import Tolerated

    for name in _FRAMEWORKS:
        imports.forget(name)
    with Tolerated():
        from impactarbiter.watching import children

        children.framework_is_there()


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
    if not any(map(_is_a_finder_of_ours, sys.meta_path)):
        sys.meta_path.insert(0, _Finder)
