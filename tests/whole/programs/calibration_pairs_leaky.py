"""Calibration is fitted on the newest scores while a ranker trains."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class ClickLog:
    """Simulated impressions: features, whether clicked."""

    def __init__(self, dim, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(dim, generator=self.g)
        self.dim = dim

    def batch(self, n):
        x = torch.randn(n, self.dim, generator=self.g)
        p = torch.sigmoid(2 * x @ self.w / self.dim**0.5 - 1)
        return x, torch.bernoulli(p, generator=self.g)


class Ranker(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.wide = nn.Linear(dim, 1)
        self.deep = nn.Sequential(
            nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return (self.wide(x) + self.deep(x)).squeeze(1)


class PlattCalibrator:
    """p = sigmoid(a s + b), refitted on the last scores that were seen."""

    def __init__(self, window):
        self.window = window
        self.scores, self.clicks = [], []
        self.a, self.b = 1.0, 0.0

    def observe(self, scores, clicks):
        self.scores, self.clicks = self.scores + [scores], self.clicks + [clicks]

    def refit(self):
        s = torch.cat(self.scores[-self.window :])
        y = torch.cat(self.clicks[-self.window :])
        a = torch.tensor(self.a, requires_grad=True)
        b = torch.tensor(self.b, requires_grad=True)
        loss = F.binary_cross_entropy_with_logits(a * s + b, y)
        da, db = torch.autograd.grad(loss, (a, b))
        self.a -= 0.5 * da.item()
        self.b -= 0.5 * db.item()
        return loss.item()

    def __call__(self, scores):
        return torch.sigmoid(self.a * scores + self.b)


def calibration_error(p, y, bins=8):
    error = 0.0
    for low in torch.linspace(0, 1, bins + 1)[:-1].tolist():
        mask = (p >= low) & (p < low + 1 / bins)
        if mask.any():
            gap = (p[mask].mean() - y[mask].mean()).abs().item()
            error += gap * mask.float().mean().item()
    return error


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--refit-every", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(320)
    clicks = ClickLog(16, seed=320)
    model = Ranker(16, 32)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    calibrator = PlattCalibrator(args.window)
    for step in range(1, args.steps + 1):
        x, y = clicks.batch(args.batch)
        scores = model(x)
        loss = F.binary_cross_entropy_with_logits(scores, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        calibrator.observe(scores.detach(), y)
        if step % args.refit_every == 0:
            fitted = calibrator.refit()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} platt {fitted:.4f}")
    with torch.no_grad():
        x, y = clicks.batch(2000)
        error = calibration_error(calibrator(model(x)), y)
    print(f"calibration error {error:.4f} slope {calibrator.a:.3f}")


if __name__ == "__main__":
    main()
