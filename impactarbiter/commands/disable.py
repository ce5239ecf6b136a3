"""``impactarbiter disable``: takes back what ``enable`` wrote."""

from __future__ import annotations

from ..base.text import clean
from ..integrations import startup_file
from .enable import expect_none

HELP = """\
usage: impactarbiter disable

Removes the start-up file that `impactarbiter enable` wrote into this Python
environment, and nothing else.
"""


def execute(args: list[str]) -> int:
    """Removes the file and says so; ImpactArbiterError where it cannot."""
    expect_none("disable", args)
    path = startup_file.location()
    if not startup_file.is_ours(path):
        print(f"not enabled: there is no {clean(path)}")
        return 0
    startup_file.remove(path)
    print(f"disabled: removed {clean(path)}")
    return 0
