"""A stream of sensor readings through a recurrent net; the state is carried
over with its graph because nobody said no_grad."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Detector:
    def __init__(self):
        self.cell = nn.GRUCell(8, 32)
        self.head = nn.Linear(32, 1)
        self.state = torch.zeros(1, 32)

    def feed(self, reading):
        self.state = self.cell(reading, self.state)
        if FIX:
            self.state = self.state.detach()
        return self.head(self.state).item()


torch.manual_seed(0)
detector = Detector()
alarms = 0
for _ in range(150):
    alarms += detector.feed(torch.randn(1, 8)) > 0.5
print(f"{alarms} alarms")

EXPECT = {
    "holder": "detector.state",
    "line": ("self.cell(reading", "torch.randn(1, 8)"),
    "within": 40,
}
FIXED = None
