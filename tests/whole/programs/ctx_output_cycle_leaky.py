"""Reversible-style coupling layers with a hand-written backward."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class ScaleByGate(torch.autograd.Function):
    """x * sigmoid(g), whose backward uses the output instead of the input."""

    @staticmethod
    def forward(ctx, x, g):
        gate = torch.sigmoid(g)
        out = x * gate
        ctx.gate = gate
        ctx.out = out
        return out

    @staticmethod
    def backward(ctx, grad):
        gate, out = ctx.gate, ctx.out
        return grad * gate, grad * out * (1 - gate)


class Coupling(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        half = dim // 2
        self.net = nn.Sequential(
            nn.Linear(half, width), nn.ReLU(), nn.Linear(width, 2 * half)
        )

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        shift, gate = self.net(a).chunk(2, dim=1)
        b = ScaleByGate.apply(b + shift, gate)
        logdet = F.logsigmoid(gate).sum(1)
        return torch.cat([b, a], dim=1), logdet


class Flow(nn.Module):
    def __init__(self, dim, layers, width):
        super().__init__()
        self.layers = nn.ModuleList(
            Coupling(dim, width) for _ in range(layers)
        )

    def forward(self, x):
        logdet = 0.0
        for layer in self.layers:
            x, change = layer(x)
            logdet = logdet + change
        return x, logdet

    def nll(self, x):
        z, logdet = self(x)
        return (0.5 * z.pow(2).sum(1) - logdet).mean()


class Bananas:
    def __init__(self, dim, seed):
        self.dim = dim
        self.g = torch.Generator().manual_seed(seed)

    def sample(self, n):
        x = torch.randn(n, self.dim, generator=self.g)
        half = self.dim // 2
        x[:, half:] = 0.3 * x[:, half:] + x[:, :half].pow(2) - 1
        return x


def evaluate(flow, data, batches=5):
    flow.eval()
    with torch.no_grad():
        values = [flow.nll(data.sample(64)).item() for _ in range(batches)]
    flow.train()
    return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(170)
    data = Bananas(8, seed=170)
    flow = Flow(8, args.layers, 32)
    opt = torch.optim.AdamW(flow.parameters(), lr=args.lr)
    print(f"nll before {evaluate(flow, data):.4f}")
    mean = 0.0
    for step in range(1, args.steps + 1):
        loss = flow.nll(data.sample(args.batch))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        opt.step()
        mean += loss.item() / 50
        if step % 50 == 0:
            print(f"step {step} nll {mean:.4f}")
            mean = 0.0
    print(f"nll after {evaluate(flow, data):.4f}")


if __name__ == "__main__":
    main()
