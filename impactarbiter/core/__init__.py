"""The C modules: what they answer, as plain data."""

from .built import require_core

require_core()
