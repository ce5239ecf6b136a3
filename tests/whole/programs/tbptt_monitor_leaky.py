"""Truncated BPTT on a long series, with an online surprise monitor."""

import argparse
from collections import deque

import torch
from torch import nn


def series(length, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length, dtype=torch.float32)
    wave = torch.sin(t / 5) + 0.5 * torch.sin(t / 17)
    jumps = torch.rand(length, generator=g) < 0.01
    return wave + 0.05 * torch.randn(length, generator=g) + 2.0 * jumps


class Forecaster(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRUCell(1, width)
        self.out = nn.Linear(width, 1)
        self.width = width

    def initial(self, batch):
        return torch.zeros(batch, self.width)

    def advance(self, x, state):
        state = self.cell(x, state)
        return self.out(state), state

    def forward(self, chunk, state):
        outputs = []
        for x in chunk.unbind(1):
            y, state = self.advance(x[:, None], state)
            outputs.append(y)
        return torch.cat(outputs, dim=1), state


class SurpriseMonitor:
    """Follows the raw stream one value at a time, beside the training."""

    def __init__(self, model, window):
        self.model = model
        self.state = model.initial(1)
        self.guess = None
        self.states = deque(maxlen=window)
        self.surprise = 0.0

    def observe(self, value):
        x = value.view(1, 1)
        if self.guess is not None:
            error = (self.guess - x).abs().item()
            self.surprise += 0.05 * (error - self.surprise)
        self.guess, self.state = self.model.advance(x, self.state)
        self.states.append(self.state)

    def drift(self):
        if len(self.states) < 2:
            return 0.0
        return (self.states[-1] - self.states[0]).norm().item()


class ChunkLoader:
    """Contiguous chunks of several parallel stretches of the series."""

    def __init__(self, data, batch, chunk):
        usable = len(data) // batch * batch
        self.rows = data[:usable].view(batch, -1)
        self.chunk = chunk

    def __len__(self):
        return (self.rows.shape[1] - 1) // self.chunk

    def __iter__(self):
        for i in range(len(self)):
            part = self.rows[:, i * self.chunk : (i + 1) * self.chunk + 1]
            yield part[:, :-1], part[:, 1:]


def train(model, loader, monitor, cfg):
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        state, total = model.initial(cfg["batch"]), 0.0
        for x, y in loader:
            out, state = model(x, state)
            state = state.detach()
            loss = (out - y).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
            monitor.observe(x[0, -1])
        print(
            f"epoch {epoch} loss {total / len(loader):.4f} "
            f"surprise {monitor.surprise:.3f} drift {monitor.drift():.3f}"
        )


def forecast(model, seedling, n):
    model.eval()
    with torch.no_grad():
        out, state = model(seedling[None], model.initial(1))
        y, path = out[:, -1:], []
        for _ in range(n):
            path.append(y.item())
            y, state = model.advance(y, state)
    model.train()
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--chunk", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(19)
    cfg = {"lr": 5e-3, "epochs": args.epochs, "batch": 4}
    data = series(2800, seed=19)
    model = Forecaster(16)
    monitor = SurpriseMonitor(model, window=8)
    train(model, ChunkLoader(data, cfg["batch"], args.chunk), monitor, cfg)
    path = forecast(model, data[:40], 10)
    print("forecast", " ".join(f"{y:+.2f}" for y in path))


if __name__ == "__main__":
    main()
