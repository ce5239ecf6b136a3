"""``python -m impactarbiter``."""

from __future__ import annotations

import sys

from impactarbiter.commands import console

if __name__ == "__main__":
    code = console()
    if code:  # `python -i` shows any exit, and goes on
        sys.exit(code)
