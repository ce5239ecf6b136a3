"""What a look and a report need, in one place.

The arbiter has it loaded at its first step (``base.later``): most of what
``import`` costs of us is here, and whoever only begins to watch goes without.
"""

from ..core import ledger
from ..core.depth import Room
from ..core.wire import STEP_KINDS
from ..judging.diagnostician import Diagnostician
from ..judging.masks import obfuscated
from ..model.moment import Moment
from ..model.report import Report
from ..reports.children import with_children
from . import armed
from .job_file import REFRESH, JobFile, this_process

__all__ = [
    "REFRESH",
    "STEP_KINDS",
    "Diagnostician",
    "JobFile",
    "Moment",
    "Report",
    "Room",
    "armed",
    "ledger",
    "obfuscated",
    "this_process",
    "with_children",
]
