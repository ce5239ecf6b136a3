"""``python -m impactarbiter``."""

from __future__ import annotations

import sys

from impactarbiter.commands import console

if __name__ == "__main__":
    sys.exit(console())
