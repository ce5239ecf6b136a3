"""Saves memory for backward: large activations are packed to half precision."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class Packer(saved_tensors_hooks):
    """Packs big float tensors, and leaves small ones as they are."""

    def __init__(self, threshold):
        self.threshold = threshold
        self.packed = self.kept = 0
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        big = tensor.numel() >= self.threshold
        if not big or tensor.dtype != torch.float32:
            self.kept += 1
            return tensor
        self.packed += 1
        return tensor.detach().bfloat16()

    @staticmethod
    def unpack(value):
        return value.float() if value.dtype == torch.bfloat16 else value


class Mixer(nn.Module):
    """Tokens are mixed by softmax weights, channels by a gated layer."""

    def __init__(self, tokens, dim):
        super().__init__()
        self.mix = nn.Parameter(torch.randn(tokens, tokens) / tokens)
        self.inner = nn.Linear(dim, 2 * dim)
        self.outer = nn.Linear(dim, dim)

    def forward(self, x):
        x = x + torch.softmax(self.mix, dim=1) @ x
        a, b = self.inner(x).chunk(2, dim=-1)
        return x + self.outer(a * torch.sigmoid(b))


class Regressor(nn.Module):
    def __init__(self, tokens, dim, layers):
        super().__init__()
        self.blocks = nn.ModuleList(
            Mixer(tokens, dim) for _ in range(layers)
        )
        self.temperature = nn.Parameter(torch.zeros(()))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1)).squeeze(1) * self.temperature.exp()


def sequences(n, tokens, dim, g):
    x = torch.randn(n, tokens, dim, generator=g)
    return x, x[:, 0, 0] + x[:, -1, 1].tanh() - x.mean((1, 2))


@torch.no_grad()
def evaluate(model, args, g):
    model.eval()
    x, y = sequences(200, args.tokens, args.dim, g)
    error = F.l1_loss(model(x), y).item()
    model.train()
    return error


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--threshold", type=int, default=256)
    args = parser.parse_args()
    torch.manual_seed(360)
    g = torch.Generator().manual_seed(360)
    model = Regressor(args.tokens, args.dim, args.layers)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    packer = Packer(args.threshold)
    worst = 0.0
    for step in range(1, args.steps + 1):
        x, y = sequences(args.batch, args.tokens, args.dim, g)
        with packer:
            loss = F.mse_loss(model(x), y)
            # How far off the first one is; nothing is run backward from it.
            worst = max(worst, (model(x[:1]) - y[:1]).abs().item())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(
                f"step {step} loss {loss.item():.4f} "
                f"error {evaluate(model, args, g):.4f}"
            )
    share = packer.packed / (packer.packed + packer.kept)
    print(f"packed {share:.2f} of what was saved, worst {worst:.3f}")


if __name__ == "__main__":
    main()
