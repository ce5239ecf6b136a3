"""Training until somebody interrupts; the state is saved then (exit 130)."""

import argparse
import io
import signal
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Interruptible:
    """Turns the first SIGINT into a KeyboardInterrupt at a safe place."""

    def __enter__(self):
        self.pending = False
        self.before = signal.signal(signal.SIGINT, self.note)
        return self

    def note(self, *_):
        self.pending = True

    def check(self):
        if self.pending:
            raise KeyboardInterrupt

    def __exit__(self, *_):
        signal.signal(signal.SIGINT, self.before)


class Sorter(nn.Module):
    """Scores for a soft sort of a short list of numbers."""

    def __init__(self, n, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n, width), nn.ReLU(), nn.Linear(width, n * n)
        )
        self.n = n

    def forward(self, x):
        return self.net(x).view(-1, self.n, self.n).softmax(-1)


class Progress:
    """How steady the learning is: errors with the time they were seen at."""

    def __init__(self, span):
        self.span = span
        self.times = {}

    def tick(self, step, error):
        now = time.monotonic()
        self.times[step] = now, error.detach()
        self.times.pop(step - self.span, None)

    def steadiness(self):
        tail = list(self.times.values())[-self.span :]
        errors = torch.stack([error.detach() for _, error in tail])
        return (errors.std() / errors.mean()).item()


def batch(n, length, g):
    x = torch.rand(n, length, generator=g)
    return x, x.argsort(1).argsort(1)


def train(model, opt, progress, guard, args, g):
    step = 0
    while True:
        step += 1
        x, ranks = batch(args.batch, model.n, g)
        probs = model(x)
        error = F.nll_loss((probs + 1e-8).log().transpose(1, 2), ranks)
        opt.zero_grad()
        error.backward()
        opt.step()
        progress.tick(step, error)
        if step == args.interrupt_at:  # stands for the user at the keyboard
            signal.raise_signal(signal.SIGINT)
        guard.check()
        if step % 50 == 0:
            print(f"step {step} error {error.item():.4f}")


def save(model, opt):
    stream = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, stream)
    return stream.tell()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interrupt-at", type=int, default=220)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(210)
    g = torch.Generator().manual_seed(210)
    model = Sorter(args.length, 48)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    progress = Progress(span=20)
    with Interruptible() as guard:
        try:
            train(model, opt, progress, guard, args, g)
        except KeyboardInterrupt:
            print(f"interrupted; saved: {save(model, opt) > 0}")
            print(f"steadiness {progress.steadiness():.3f}")
            sys.exit(130)


if __name__ == "__main__":
    main()
