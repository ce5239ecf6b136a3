"""The same with the collector on: it counts objects, not bytes, and seldom
runs when a step makes few objects of many bytes."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Episode:
    def __init__(self, frames):
        self.frames = frames
        self.parent = None if FIX else self


def main(steps=250):
    torch.manual_seed(0)
    model = nn.Linear(256, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        episode = Episode(torch.randn(128, 256))
        optimizer.zero_grad()
        model(episode.frames).square().mean().backward()
        optimizer.step()
    print("done")


main()

EXPECT = {
    "verdict": "cycle",
    "holder": "Episode",
    "line": "episode = Episode(torch.randn",
    "within": 120,
}
FIXED = None
