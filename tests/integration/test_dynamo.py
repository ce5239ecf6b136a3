"""Programs whose functions Dynamo compiles: it is to see nothing of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import warm

#: A backend that counts its calls takes no compiler of C.
PROGRAM = """import warnings
import torch
from torch._dynamo.utils import counters

graphs = []

def backend(graph, inputs):
    graphs.append(len(graph.graph.nodes))
    return graph.forward

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
optimizer = torch.optim.{optimizer}(model.parameters(), 0.01)

def step(inputs):
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

step(torch.randn(4, 8))
step = torch.compile(step, backend=backend)
kept = []
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(80):
        kept.append(step(torch.randn(4, 8)))
print(kept[-1].item(), graphs, counters["frames"]["total"])
print(counters["stats"]["unique_graphs"])
print([str(one.message) for one in said if "impactarbiter" in str(one)])
"""


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_it_compiles_what_it_would_have(
    optimizer: str, tmp_path: Path
) -> None:
    text = PROGRAM.replace("{optimizer}", optimizer)
    (tmp_path / "program.py").write_text(text)
    plain = warm.run(["program.py"], cwd=tmp_path)
    watched = warm.run(
        ["-m", "impactarbiter", "run", "program.py"],
        cwd=tmp_path,
        safe_path=False,
    )
    assert plain.returncode == watched.returncode == 0, watched.stderr
    assert plain.stdout == watched.stdout
    assert "kept keeps" in watched.stderr, watched.stderr
    assert "impactarbiter is off" not in watched.stderr
    assert "Dynamo" not in watched.stderr


#: A handler in C is no frame, either.
SIGNALLED = """import operator, os, signal, sys
import torch
from torch._dynamo.utils import counters

graphs = []

def backend(graph, inputs):
    graphs.append(len(graph.graph.nodes))
    return graph.forward

if len(sys.argv) > 1:
    signal.signal(signal.SIGUSR1, operator.is_)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
kept = []

def step(inputs, asks):
    loss = model(inputs).square().mean()
    loss.backward()
    if asks:
        os.kill(os.getpid(), signal.SIGUSR1)
    optimizer.step()
    return loss

step = torch.compile(step, backend=backend)
for number in range(30):
    kept.append(step(torch.randn(4, 8), number in (10, 20)))
print(graphs, counters["frames"]["total"])
"""


def test_a_report_that_a_signal_asks_for_is_not_compiled(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(SIGNALLED)
    plain = warm.run(["program.py", "handles it"], cwd=tmp_path)
    watched = warm.run(
        ["-m", "impactarbiter", "run", "--json", "out.json", "program.py"],
        cwd=tmp_path,
        safe_path=False,
    )
    assert plain.returncode == watched.returncode == 0, watched.stderr
    assert plain.stdout == watched.stdout
    assert (tmp_path / "out.json").exists()
