"""Waits for a framework in a Python that a watched program has started.

Stands alone: nothing of the package is imported before one is, so that a
child without any pays for a look into its environment and no more.
"""

import os
import sys
from _weakref import ref

# typing takes longer to load than all the rest of a small Python does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FRAMEWORKS = ("torch", "jax", "tensorflow")
_FOLDERS = ("IMPACTARBITER_CHILDREN", "IMPACTARBITER_JOB")


#: The code of a framework's module that runs now: when it goes, the module is
#: there; see impactarbiter.base.imports.
_codes: "dict[str, Any]" = {}


class _Finder:
    """Finds nothing: it learns that a framework is being imported."""

    @staticmethod
    def find_spec(
        name: str, path: "Any" = None, target: "Any" = None
    ) -> "Any":
        top = name.partition(".")[0]
        if top in _FRAMEWORKS and top != name and top not in _codes:
            _wait_for(top)
        return None


def _wait_for(name: str) -> None:
    """Until a module's own code has ended, which this thread is in."""
    frame: Any = sys._getframe()
    while frame is not None:
        if (
            frame.f_code.co_name == "<module>"
            and frame.f_globals.get("__name__") == name
        ):
            _codes[name] = ref(frame.f_code, lambda _: _ended(name))
            return
        frame = frame.f_back


def _ended(name: str) -> None:
    """One whose code has failed is there no more.  No failure of ours fails
    the import."""
    del _codes[name]
    if name not in sys.modules or _Finder not in sys.meta_path:
        return
    sys.meta_path.remove(_Finder)
    try:
        from impactarbiter.base.waiting import called_aside
        from impactarbiter.watching import children

        called_aside(children.framework_is_there)()
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
