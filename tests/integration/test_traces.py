"""What ``make traces`` records of a program, and what it makes of that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools" / "traces"

PROGRAM = """\
import torch

weight = torch.nn.Parameter(torch.ones(4))
opt = torch.optim.SGD([weight], lr=0.1)
kept, last = [], None
for _ in range(40):
    opt.zero_grad()
    weight.sum().backward()
    opt.step()
    kept.append(torch.ones(8))
    last = torch.ones(9)
"""

REPLAY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from replay import replay
answer = replay(Path(sys.argv[2]))
print(sorted(answer.at_end), sorted(answer.in_passing))
"""


def run(*command: object) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_line_that_keeps_is_named_from_a_recording(tmp_path: Path) -> None:
    program, trace = tmp_path / "keeps.py", tmp_path / "keeps.npz"
    program.write_text(PROGRAM)
    run(TOOLS / "record.py", trace, program)
    said = run("-c", REPLAY, TOOLS, trace)
    line = PROGRAM.splitlines().index("    kept.append(torch.ones(8))") + 1
    named = [("keeps.py", line)]
    assert said.strip() == f"{named} {named}"
