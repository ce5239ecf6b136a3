"""Second-order MAML on sine regression, written by hand."""

import argparse
import math
from collections import defaultdict

import torch
from torch import nn
from torch.func import functional_call

ADAPTED = defaultdict(list)


class SineTasks:
    families = ("slow", "fast", "shifted")

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def uniform(self, low, high):
        return low + (high - low) * torch.rand((), generator=self.g).item()

    def sample(self):
        index = int(torch.randint(3, (), generator=self.g))
        family = self.families[index]
        freq = 0.7 if family == "slow" else 1.4
        phase = self.uniform(0, math.pi) if family == "shifted" else 0.0
        return Task(family, self.uniform(0.5, 3), freq, phase, self.g)


class Task:
    def __init__(self, family, amplitude, freq, phase, generator):
        self.family, self.amplitude = family, amplitude
        self.freq, self.phase, self.g = freq, phase, generator

    def points(self, n):
        x = torch.rand(n, 1, generator=self.g) * 10 - 5
        return x, self.amplitude * torch.sin(self.freq * x + self.phase)


def make_net(width=24):
    return nn.Sequential(
        nn.Linear(1, width),
        nn.Tanh(),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.Linear(width, 1),
    )


def mse(net, params, x, y):
    return (functional_call(net, params, (x,)) - y).pow(2).mean()


def adapt(net, params, task, steps, lr, create_graph=True):
    x, y = task.points(10)
    for _ in range(steps):
        loss = mse(net, params, x, y)
        grads = torch.autograd.grad(
            loss, list(params.values()), create_graph=create_graph
        )
        params = {
            name: p - lr * g for (name, p), g in zip(params.items(), grads)
        }
    return params


def meta_step(net, optimizer, tasks, cfg):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(cfg["tasks"]):
        task = tasks.sample()
        fast = adapt(
            net, dict(net.named_parameters()), task, cfg["inner"], cfg["lr"]
        )
        loss = mse(net, fast, *task.points(10)) / cfg["tasks"]
        loss.backward()
        total += loss.item()
        ADAPTED[task.family].append(fast["4.bias"])
    optimizer.step()
    return total


def evaluate(net, seed, cfg, n=10):
    tasks = SineTasks(seed)
    losses = []
    for _ in range(n):
        task = tasks.sample()
        params = {k: p.detach().requires_grad_() for k, p in net.named_parameters()}
        fast = adapt(net, params, task, cfg["inner"], cfg["lr"], False)
        with torch.no_grad():
            losses.append(mse(net, fast, *task.points(20)).item())
    return sum(losses) / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--meta-steps", type=int, default=120)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--inner", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(31)
    cfg = {"tasks": args.tasks, "inner": args.inner, "lr": 0.02}
    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    tasks = SineTasks(seed=31)
    print(f"adapted error before {evaluate(net, 77, cfg):.3f}")
    for step in range(1, args.meta_steps + 1):
        loss = meta_step(net, optimizer, tasks, cfg)
        if step % 40 == 0:
            print(f"meta step {step} loss {loss:.3f}")
    print(f"adapted error after {evaluate(net, 77, cfg):.3f}")
    for family in sorted(ADAPTED):
        print(f"{family:8} last bias {ADAPTED[family][-1].item():+.3f}")


if __name__ == "__main__":
    main()
