"""Multi-task regression with the usual AverageMeters and a progress line."""

import argparse
import math
import random

import numpy as np
import torch
from torch import nn


class AverageMeter:
    """Computes and stores the average and current value."""

    def __init__(self, name, fmt=":.4f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        pattern = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return pattern.format(
            name=self.name, val=float(self.val), avg=float(self.avg)
        )


class ProgressMeter:
    def __init__(self, total, meters, prefix=""):
        digits = len(str(total))
        self.template = "[{:" + str(digits) + "d}/" + str(total) + "]"
        self.meters, self.prefix = meters, prefix

    def display(self, batch):
        entries = [self.prefix + self.template.format(batch)]
        entries += [str(meter) for meter in self.meters.values()]
        print("  ".join(entries))


class MultiTask(nn.Module):
    def __init__(self, dim, width, tasks):
        super().__init__()
        self.shared = nn.Sequential(
            nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width), nn.GELU()
        )
        self.heads = nn.ModuleDict({t: nn.Linear(width, 1) for t in tasks})

    def forward(self, x):
        h = self.shared(x)
        return {name: head(h).squeeze(1) for name, head in self.heads.items()}


TASKS = {
    "norm": lambda x: x.norm(dim=1),
    "prod": lambda x: x[:, 0] * x[:, 1],
    "wave": lambda x: torch.sin(2 * x[:, 2]),
}


def adjust_learning_rate(optimizer, step, args):
    lr = args.lr * 0.5 * (1 + math.cos(math.pi * step / args.steps))
    for group in optimizer.param_groups:
        group["lr"] = lr


def train(model, optimizer, args):
    meters = {name: AverageMeter(name) for name in TASKS}
    meters["total"] = AverageMeter("total")
    progress = ProgressMeter(args.steps, meters, "train ")
    model.train()
    for step in range(1, args.steps + 1):
        adjust_learning_rate(optimizer, step - 1, args)
        x = torch.randn(args.batch, args.dim)
        outputs = model(x)
        total = 0.0
        for name, task in TASKS.items():
            loss = (outputs[name] - task(x)).pow(2).mean()
            meters[name].update(loss.item(), len(x))
            total = total + loss
        meters["total"].update(total, len(x))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        if step % args.print_freq == 0:
            progress.display(step)


@torch.no_grad()
def validate(model, args):
    model.eval()
    meters = {name: AverageMeter(name) for name in TASKS}
    for _ in range(10):
        x = torch.randn(args.batch, args.dim)
        outputs = model(x)
        for name, task in TASKS.items():
            error = (outputs[name] - task(x)).abs().mean()
            meters[name].update(error.item(), len(x))
    print("valid", "  ".join(str(m) for m in meters.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dim", type=int, default=6)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--print-freq", type=int, default=60)
    parser.add_argument("--seed", type=int, default=270)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    model = MultiTask(args.dim, 32, TASKS)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    validate(model, args)
    train(model, optimizer, args)
    validate(model, args)


if __name__ == "__main__":
    main()
