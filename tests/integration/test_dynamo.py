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
