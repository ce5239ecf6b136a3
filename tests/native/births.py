"""Births and deaths under callgrind: python births.py COUNT DEPTH...

One block is born and dies COUNT times, DEPTH calls deep, in a watch for each
of the depths.
"""

import sys

from impactarbiter import _core


def work(count: int, depth: int) -> None:
    if depth > 1:
        work(count, depth - 1)
        return
    born, died = _core._born, _core._died
    for _ in range(count):
        born(1 << 20, 64)
        died(1 << 20)


for depth in map(int, sys.argv[2:]):
    _core.start(manual=True)
    work(int(sys.argv[1]), depth)
    _core.stop()
