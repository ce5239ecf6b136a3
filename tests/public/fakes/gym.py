"""Old programs say gym; its own last version does not run with NumPy 2."""

import sys

import gymnasium

sys.modules[__name__] = gymnasium
