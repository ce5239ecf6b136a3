"""A server that adds an adapter for each tenant and never takes one away."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Adapter(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, x):
        return self.up(self.down(x))


class Server(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.width = width
        self.base = nn.Linear(width, width)
        self.adapters = nn.ModuleDict()

    def forward(self, x, tenant):
        return self.base(x) + self.adapters[tenant](x)

    def serve(self, x, tenant):
        self.adapters[tenant] = Adapter(self.width, 4)
        with torch.no_grad():
            answer = self(x, tenant)
        if FIX:
            del self.adapters[tenant]
        return answer.mean().item()


def main():
    torch.manual_seed(0)
    server = Server()
    total = 0.0
    for request in range(80):
        total += server.serve(torch.randn(2, 64), f"tenant-{request}")
    print(f"{total:.3f}")


main()

EXPECT = {
    "holder": "server.adapters",
    "line": (
        "nn.Linear(width, rank",
        "nn.Linear(rank, width",
        "Adapter(self.width",
    ),
    "grown": "self.adapters[tenant] =",
    "within": 25,
}
FIXED = None
