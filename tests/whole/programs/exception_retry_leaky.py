"""Training on dirty data: bad batches raise, are noted, and are skipped."""

import argparse
import collections
import logging
import sys

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("dirty")


class BadBatch(ValueError):
    pass


class DirtySource:
    """Every few batches have NaNs or labels out of range."""

    def __init__(self, dim, classes, batch, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.dim, self.classes, self.batch = dim, classes, batch
        self.centers = torch.randn(classes, dim, generator=self.g)
        self.count = 0

    def next(self):
        self.count += 1
        y = torch.randint(self.classes, (self.batch,), generator=self.g)
        x = self.centers[y] + 0.5 * torch.randn(
            self.batch, self.dim, generator=self.g
        )
        if self.count % 4 == 0:
            x[0, 0] = float("nan")
        elif self.count % 7 == 0:
            y[-1] = self.classes + 3
        return x, y


class Model(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()
        )
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        features = self.backbone(x)
        if not torch.isfinite(features).all():
            bad = (~torch.isfinite(features)).any(1).sum().item()
            raise BadBatch(f"{bad} rows are not finite")
        return self.head(features)


class ErrorJournal:
    def __init__(self):
        self.by_type = collections.Counter()
        self.failures = []

    def note(self, step, error):
        self.by_type[type(error).__name__] += 1
        log.info("step %d: %s", step, error)
        self.failures.append((step, error))

    def report(self):
        for name, count in sorted(self.by_type.items()):
            print(f"{name}: {count}")
        step, error = self.failures[-1]
        print(f"last at step {step}: {error}")


class RobustTrainer:
    def __init__(self, model, source, lr):
        self.model, self.source = model, source
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.journal = ErrorJournal()
        self.done = 0

    def forward_loss(self, x, y):
        logits = self.model(x)
        if int(y.max()) >= logits.shape[1]:
            raise IndexError(f"label {int(y.max())} is out of range")
        return F.cross_entropy(logits, y)

    def try_step(self, step):
        x, y = self.source.next()
        try:
            loss = self.forward_loss(x, y)
        except (BadBatch, IndexError) as error:
            self.journal.note(step, error)
            return None
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.done += 1
        return loss.item()

    def run(self, steps):
        smooth = None
        for step in range(1, steps + 1):
            loss = self.try_step(step)
            if loss is None:
                continue
            smooth = loss if smooth is None else 0.95 * smooth + 0.05 * loss
            if step % 60 == 0 or step % 61 == 0:
                print(f"step {step} loss {smooth:.4f} good {self.done}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--log-level", default="ERROR")
    args = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=args.log_level)
    torch.manual_seed(17)
    trainer = RobustTrainer(
        Model(32, 6), DirtySource(32, 6, 32, seed=17), lr=1e-3
    )
    trainer.run(args.steps)
    trainer.journal.report()


if __name__ == "__main__":
    main()
