"""Probes activations of every layer while a small CNN learns digits."""

import argparse
import functools

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {}
GLYPHS = [
    "111101101101111", "010110010010111", "111001111100111",
    "111001111001111", "101101111001001", "111100111001111",
    "111100111101111", "111001010010010", "111101111101111",
    "111101111001111",
]  # fmt: skip


def digits(n, g):
    y = torch.randint(10, (n,), generator=g)
    x = 0.35 * torch.randn(n, 1, 9, 7, generator=g)
    for i, label in enumerate(y.tolist()):
        glyph = torch.tensor([float(c) for c in GLYPHS[label]]).view(5, 3)
        top = int(torch.randint(5, (), generator=g))
        left = int(torch.randint(5, (), generator=g))
        x[i, 0, top : top + 5, left : left + 3] += glyph
    return x, y


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, padding=1)
        self.fc = nn.Linear(12 * 63, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.fc(x.flatten(1))


def record(name, module, args, output):
    ACTIVATIONS.setdefault(name, []).append(output.detach().mean(dim=0))


def install_probes(model):
    handles = []
    for name, module in model.named_modules():
        if not list(module.children()):
            hook = functools.partial(record, name)
            handles.append(module.register_forward_hook(hook))
    return handles


def dead_units(name):
    latest = ACTIVATIONS[name][-1]
    return (latest <= 0).float().mean().item()


def train(model, g, args):
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    smooth = None
    for step in range(1, args.steps + 1):
        x, y = digits(args.batch, g)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        value = loss.item()
        smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
        if step % 40 == 0:
            dead = ", ".join(f"{k} {dead_units(k):.2f}" for k in ACTIVATIONS)
            print(f"step {step:3d} loss {smooth:.3f} below zero: {dead}")


def test(model, g, n=300):
    model.eval()
    with torch.no_grad():
        x, y = digits(n, g)
        confusion = torch.zeros(10, 10, dtype=torch.long)
        for truth, guess in zip(y, model(x).argmax(1)):
            confusion[truth, guess] += 1
    model.train()
    return confusion


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()
    torch.manual_seed(40)
    g = torch.Generator().manual_seed(40)
    model = CNN()
    handles = install_probes(model)
    train(model, g, args)
    for handle in handles:
        handle.remove()
    confusion = test(model, g)
    print("accuracy", confusion.diag().sum().item() / confusion.sum().item())
    print("row of the eight", confusion[8].tolist())


if __name__ == "__main__":
    main()
