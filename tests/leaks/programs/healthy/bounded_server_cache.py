"""An inference server whose dict of answers is emptied when it is full."""

import torch
from torch import nn

LIMIT = 30


class Server:
    def __init__(self):
        self.model = nn.Linear(32, 32)
        self.cache = {}

    @torch.no_grad()
    def answer(self, key, x):
        if len(self.cache) >= LIMIT:
            self.cache.clear()
        if key not in self.cache:
            self.cache[key] = self.model(x)
        return self.cache[key]


torch.manual_seed(0)
server = Server()
for number in range(200):
    server.answer(number, torch.randn(1, 32))
print(f"{len(server.cache)} answers")

EXPECT = {"at_most": ("accumulation", "cache")}
