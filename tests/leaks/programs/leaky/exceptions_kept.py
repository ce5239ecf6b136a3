"""Bad batches raise; the exceptions are kept for a summary at the end, and
their tracebacks keep the frames with all the tensors in them."""

import sys
import traceback

import torch
from torch import nn

FIX = "fixed" in sys.argv


class BadBatch(Exception):
    pass


def forward(model, batch):
    hidden = model[0](batch)
    output = model[1](hidden)
    if output.abs().max() > 1.0:
        raise BadBatch(f"largest output {output.abs().max():.2f}")
    return output


def main(steps=50):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 80), nn.Linear(80, 40))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    failures = []
    for _ in range(steps):
        batch = torch.randn(32, 40)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        try:
            forward(model, batch * 3)
        except BadBatch as error:
            failures.append(traceback.format_exc() if FIX else error)
    print(f"{len(failures)} bad batches")


main()

EXPECT = {
    "holder": "failures",
    "line": (
        "batch * 3",
        "model[0](batch)",
        "model[1](hidden)",
        "forward(model",
    ),
    "grown": "failures.append",
    "within": 15,
}
FIXED = None
