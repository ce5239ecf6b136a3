"""Autoencoder with a run logger that writes rows to a CSV at the end."""

import argparse
import csv
import io
import time

import torch
from torch import nn


class RunLogger:
    """Rows of scalars; the same interface as the trackers on the market."""

    def __init__(self, project, config):
        self.project, self.config = project, dict(config)
        self.rows = []
        self.begun = time.time()

    def log(self, step, **scalars):
        self.rows.append({"step": step, **scalars})

    def tail(self, n):
        out = io.StringIO()
        names = list(self.rows[-1])
        writer = csv.DictWriter(out, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        for row in self.rows[-n:]:
            writer.writerow({k: f"{float(v):.4f}" for k, v in row.items()})
        return out.getvalue()


class AutoEncoder(nn.Module):
    def __init__(self, dim, code):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(dim, 32), nn.ELU(), nn.Linear(32, code)
        )
        self.decoder = nn.Sequential(
            nn.Linear(code, 32), nn.ELU(), nn.Linear(32, dim)
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


class LowRankData:
    def __init__(self, dim, rank, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.basis = torch.randn(rank, dim, generator=self.g)
        self.rank = rank

    def batch(self, n):
        z = torch.randn(n, self.rank, generator=self.g)
        return torch.tanh(z @ self.basis)


def global_norm(parameters):
    return torch.stack([p.grad.norm() for p in parameters]).norm()


def train(model, data, logger, args):
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    for step in range(1, args.steps + 1):
        x = data.batch(args.batch)
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        opt.step()
        sched.step()
        logger.log(step, loss=loss.item(), grad_norm=norm, lr=sched.get_last_lr()[0])
        if step % args.eval_every == 0:
            evaluate(model, data, step)


@torch.no_grad()
def evaluate(model, data, step):
    model.eval()
    x = data.batch(200)
    error = (model(x) - x).pow(2).mean() / x.var()
    print(f"step {step} unexplained variance {error.item():.4f}")
    model.train()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--eval-every", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(33)
    logger = RunLogger("autoencoder", vars(args))
    data = LowRankData(40, 5, seed=33)
    train(AutoEncoder(40, 5), data, logger, args)
    print(logger.tail(4), end="")


if __name__ == "__main__":
    main()
