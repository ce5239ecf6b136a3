"""Interpreters beside the main one are refused, with one line."""

from __future__ import annotations

import subprocess
import sys

CODE = """if True:
    import sys
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        made = interpreters.create("legacy")
    else:
        import _xxsubinterpreters as interpreters
        made = interpreters.create(isolated=False)
    inside = '''if True:
        import os
        try:
            import impactarbiter._core
        except ImportError as error:
            os.write(1, str(error).encode())
    '''
    interpreters.run_string(made, inside)
    interpreters.destroy(made)
    import impactarbiter._core
"""


def test_a_subinterpreter_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "impactarbiter works in the main interpreter only"
