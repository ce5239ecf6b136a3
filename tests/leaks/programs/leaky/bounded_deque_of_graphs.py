"""Only the last five states are kept, but each one's graph reaches back to
the very first."""

import sys
from collections import deque

import torch
from torch import nn

FIX = "fixed" in sys.argv


def main(frames=120):
    torch.manual_seed(0)
    cell = nn.GRUCell(8, 24)
    states = deque([torch.zeros(1, 24)], maxlen=5)
    for _ in range(frames):
        state = cell(torch.randn(1, 8), states[-1])
        states.append(state.detach() if FIX else state)
    print(f"{torch.cat(tuple(states)).mean().item():.4f}")


main()

EXPECT = {
    "holder": "states",
    "line": ("cell(torch.randn(1, 8)",),
    "within": 40,
}
FIXED = {"at_most": "cache"}
