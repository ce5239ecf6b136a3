"""``impactarbiter enable``: plain ``python`` knows the flag from now on."""

from __future__ import annotations

from ..base.errors import UsageError
from ..base.text import clean
from ..integrations import startup_file
from .options import parse

HELP = """\
usage: impactarbiter enable

Writes a start-up file into this Python environment, after which
`python train.py --detect_memory_leaks` watches any script that trains with
the Hugging Face Trainer, and `--report_to impactarbiter` does too. The file
does nothing where these are not on the command line or in the configuration
file that is named there. `impactarbiter disable` removes it.
"""


def execute(args: list[str]) -> int:
    """Writes the file and says where; ImpactArbiterError where it cannot."""
    expect_none("enable", args)
    path = startup_file.location()
    before = startup_file.is_ours(path)
    startup_file.write(path)
    print(
        f"{'already enabled, written again' if before else 'enabled'}:"
        f" {clean(path)}"
        "\n`python SCRIPT --detect_memory_leaks` works in this environment"
        " now; `impactarbiter disable` takes it back"
    )
    return 0


def expect_none(command: str, args: list[str]) -> None:
    """Raises UsageError where there are arguments."""
    _, left = parse(command, {}, args)
    if left:
        raise UsageError(
            f"`{command}` takes no arguments: expected `impactarbiter"
            f" {command}` alone"
        )
