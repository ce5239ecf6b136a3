"""A memory handler keeps log records, and they keep their arguments."""

import logging
import logging.handlers
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

log = logging.getLogger("train")
log.setLevel(logging.DEBUG)
log.propagate = False
memory = logging.handlers.MemoryHandler(
    capacity=1_000_000, flushLevel=logging.CRITICAL
)
log.addHandler(memory)


def main():
    torch.manual_seed(0)
    model = nn.Linear(32, 32)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(60):
        x = torch.randn(8, 32)
        output = model(x)
        loss = (output - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if FIX:
            log.debug("step %d: mean %s", step, output.mean().item())
        else:
            log.debug("step %d: output %s", step, output)
    print(f"{len(memory.buffer)} records")


main()

EXPECT = {
    "holder": ".buffer",
    "line": "output = model(x)",
    "grown": ("log.debug",),
    "within": 15,
}
FIXED = None
