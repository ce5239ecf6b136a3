"""Boundaries under callgrind: python boundaries.py COUNT.

A framework is there, and no tensor has a graph.
"""

import sys

from impactarbiter import _arrays, _core

_arrays.register()
_core.start(manual=True)
for _ in range(int(sys.argv[1])):
    _core.step()
_core.stop()
