"""torch, JAX, TensorFlow and NumPy in one process, each with its own row.

IMPACTARBITER_BESIDE names the folders of packages that this Python has not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path += {beside!r}
{first}
import impactarbiter
arbiter = impactarbiter.watch()
{later}

kept = {{name: [] for name in ("torch", "jax", "tensorflow", "numpy")}}
of_imports = arbiter.report().accounted.get("numpy", 0)
stays = [jnp.ones(1000), tf.Variable(tf.ones(2000)), np.ones(4000)]
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters())
step = jax.jit(lambda x: x + 1)
double = tf.function(lambda x: x * 2.0)

def train():
    for i in range(60):
        kept["torch"].append(torch.ones(64))
        kept["jax"].append(step(jnp.full(128, float(i))))
        kept["tensorflow"].append(double(tf.fill((256,), float(i))))
        kept["numpy"].append(np.ones(2048))
        optimizer.zero_grad()
        net(torch.ones(2, 8)).sum().backward()
        optimizer.step()

train()
report = arbiter.report()
print(impactarbiter.retained_bytes(kept), of_imports)
report.to_json({out!r})
"""
IMPORTS = """import torch
import jax, jax.numpy as jnp
import tensorflow as tf
import numpy as np
"""
BYTES = {"torch": 256, "jax": 512, "tensorflow": 1024, "numpy": 16384}
#: What the program keeps without growing, by its row in a report.
STAYS = {"jax": 4000, "tensorflow": 8000, "numpy": 32000, "parameters": 288}


@pytest.mark.parametrize("when", ["before", "later"])
def test_all_at_once(tmp_path: Path, when: str) -> None:
    out = tmp_path / "report.json"
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(PROGRAM).format(
            beside=os.environ["IMPACTARBITER_BESIDE"].split(os.pathsep),
            first=IMPORTS if when == "before" else "",
            later=IMPORTS if when == "later" else "",
            out=str(out),
        )
    )
    done = subprocess.run(
        [sys.executable, "-P", str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    retained, of_imports = map(int, done.stdout.split())
    assert retained == 60 * sum(BYTES.values())
    report = json.loads(out.read_text())
    assert report["step_kind"] == "optimizer"
    assert report["steps"] == 60
    found = {
        f["holder"]["expression"]: f["bytes_per_step"]
        for f in report["findings"]
        if f["verdict"] == "leak"
    }
    assert found == {
        f"__main__.kept['{name}']": size for name, size in BYTES.items()
    }
    assert any("has the same" in said for said in report["cross_checks"])
    assert {"torch", "jax", "tensorflow"} <= report["environment"].keys()
    accounted = report["accounted"]
    rows = STAYS | {"numpy": STAYS["numpy"] + of_imports}
    assert {name: accounted[name] for name in rows} == rows
    assert accounted["findings"] == retained
    assert sum(accounted.values()) == report["live_bytes"]
    devices = {f["tensors"][0]["device"] for f in report["findings"]}
    assert devices >= {"cpu", "jax:cpu:0", "tensorflow:cpu:0", "numpy"}
