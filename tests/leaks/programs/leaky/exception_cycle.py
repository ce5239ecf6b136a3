"""error = e: the frame holds the exception, its traceback holds the frame."""

import gc
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


def attempt(model, batch):
    """Returns the output, or None when it is not finite."""
    problem = None
    try:
        output = model(batch)
        raise FloatingPointError(f"{output.mean()}")
    except FloatingPointError as error:
        problem = error
    text = str(problem)
    if FIX:
        problem = None
    return text


gc.disable()
torch.manual_seed(0)
model = nn.Linear(100, 100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(50):
    data = torch.randn(64, 100)
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    attempt(model, data + 1)
print("done")

EXPECT = {
    "verdict": "cycle",
    "holder": "",
    "line": ("output = model(batch)", "data + 1"),
    "within": 20,
}
FIXED = None
