"""Physics-informed fit of u'' = -k u with L-BFGS and its closures."""

import argparse
import math

import torch
from torch import nn


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


class Solution(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width),
            Sine(),
            nn.Linear(width, width),
            Sine(),
            nn.Linear(width, 1),
        )

    def forward(self, t):
        return self.net(t)


def derivative(y, t):
    return torch.autograd.grad(y.sum(), t, create_graph=True)[0]


def residual(model, t, k, seen):
    u = model(t)
    du = derivative(u, t)
    r = derivative(du, t) + k * u
    seen[:] = [r.abs().max().item()]
    return r, seen


def boundary(model):
    t0 = torch.zeros(1, 1, requires_grad=True)
    u0 = model(t0)
    return (u0 - 1).pow(2).sum() + derivative(u0, t0).pow(2).sum()


def fit(model, cfg):
    t = torch.linspace(0, cfg["t_max"], cfg["points"])[:, None]
    t.requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        lr=0.5,
        max_iter=cfg["inner"],
        history_size=8,
        line_search_fn="strong_wolfe",
    )
    calls = 0
    worst = None

    def closure():
        nonlocal calls, worst
        calls += 1
        optimizer.zero_grad()
        r, seen = residual(model, t, cfg["k"], [])
        worst = seen[-1]
        loss = r.pow(2).mean() + 10 * boundary(model)
        loss.backward()
        return loss

    for step in range(1, cfg["steps"] + 1):
        loss = optimizer.step(closure)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.3e} worst {worst:.3e}")
    return calls


def error(model, cfg):
    t = torch.linspace(0, cfg["t_max"], 50)[:, None]
    with torch.no_grad():
        truth = torch.cos(math.sqrt(cfg["k"]) * t)
        return (model(t) - truth).abs().max().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--k", type=float, default=2.0)
    args = parser.parse_args()
    torch.manual_seed(4)
    cfg = {
        "steps": args.steps,
        "k": args.k,
        "t_max": 2.0,
        "points": 24,
        "inner": 6,
    }
    model = Solution()
    print(f"error before {error(model, cfg):.3f}")
    calls = fit(model, cfg)
    print(f"error after {error(model, cfg):.4f}")
    print("closure was called", "often" if calls > args.steps else "once a step")


if __name__ == "__main__":
    main()
