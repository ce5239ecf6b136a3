"""``python -m impactarbiter``."""

from __future__ import annotations

import sys

from impactarbiter.commands import main

if __name__ == "__main__":
    sys.exit(main())
