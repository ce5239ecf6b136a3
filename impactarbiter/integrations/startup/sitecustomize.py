"""``site`` imports this in each Python below a watched program.

It has the environment's own ``sitecustomize`` do what it does, and leaves
nothing behind: not this folder on ``sys.path``, nor its name.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _the_others() -> None:
    """The ``sitecustomize`` that this one stands before."""
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        # The importer looks for whatever goes by this name now.
        sys.modules.setdefault(__name__, ours)


def _ours() -> None:
    try:
        import _impactarbiter_children  # type: ignore[import-not-found]

        _impactarbiter_children.begin()
    except Exception:
        return


_ours()
# ``site`` has made ours absolute; there may be no working folder to ask for.
sys.path[:] = [entry for entry in sys.path if os.path.normpath(entry) != _here]
if __name__ == "sitecustomize":
    _the_others()
