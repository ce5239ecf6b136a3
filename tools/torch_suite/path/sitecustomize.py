"""On the path of torch's tests: their processes of multiprocessing watch too.

Each spawned process imports this first.  Whatever else a test starts is left
alone.
"""

import os
import sys

if (
    "IMPACTARBITER_SUITE_LOOKS" in os.environ
    and "--multiprocessing-fork" in sys.argv
):
    sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
    import forced

    sys.path.pop(0)
    forced.watch_children()
