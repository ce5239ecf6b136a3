"""An inference server that remembers the answer to every request."""

import sys
from collections import OrderedDict

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Server:
    def __init__(self, model):
        self.model = model
        self.answers = OrderedDict()

    @torch.inference_mode()
    def answer(self, request_id, x):
        if request_id not in self.answers:
            self.answers[request_id] = self.model(x)
            if FIX and len(self.answers) > 16:
                self.answers.popitem(last=False)
        return self.answers[request_id]


torch.manual_seed(0)
server = Server(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)))
for number in range(120):
    server.answer(f"request-{number}", torch.randn(1, 32))
print(f"{len(server.answers)} answers")

EXPECT = {
    "holder": "server.answers",
    "line": "self.model(x)",
    "grown": "self.answers[request_id] =",
    "within": 20,
}
FIXED = {"at_most": "cache"}
