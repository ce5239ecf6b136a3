"""Metrics as objects with update, compute and reset; one for each split."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("metrics")


class Metric:
    def update(self, logits, target):
        raise NotImplementedError

    def compute(self):
        raise NotImplementedError

    def reset(self):
        raise NotImplementedError


class Accuracy(Metric):
    def __init__(self):
        self.reset()

    def reset(self):
        self.right = self.total = 0

    def update(self, logits, target):
        self.right += (logits.argmax(1) == target).sum().item()
        self.total += len(target)

    def compute(self):
        return self.right / max(self.total, 1)


class AUROC(Metric):
    """One against the rest for class 1; exact, so it needs all scores."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.preds, self.labels = [], []

    def update(self, logits, target):
        self.preds.append(logits.detach().softmax(1)[:, 1])
        self.labels.append(target == 1)

    def compute(self):
        scores = torch.cat(self.preds)
        labels = torch.cat(self.labels)[scores.argsort()]
        ranks = torch.arange(1, len(labels) + 1, dtype=torch.float64)
        pos = labels.sum().double()
        neg = len(labels) - pos
        return ((ranks[labels].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


class MetricCollection(dict):
    def update_all(self, logits, target):
        for metric in self.values():
            metric.update(logits, target)

    def compute_all(self):
        return {name: round(m.compute(), 4) for name, m in self.items()}

    def reset_all(self):
        for metric in self.values():
            metric.reset()


class Experiment:
    def __init__(self, model, loaders, lr):
        self.model, self.loaders = model, loaders
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.metrics = {
            split: MetricCollection(acc=Accuracy(), auroc=AUROC())
            for split in ("train", "val")
        }

    def train_epoch(self):
        metrics = self.metrics["train"]
        metrics.reset_all()
        for x, y in self.loaders["train"]:
            logits = self.model(x)
            loss = F.cross_entropy(logits, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            metrics.update_all(logits, y)

    @torch.no_grad()
    def validate(self):
        metrics = self.metrics["val"]
        metrics.reset_all()
        self.model.eval()
        for x, y in self.loaders["val"]:
            metrics.update_all(self.model(x), y)
        self.model.train()
        return metrics.compute_all()

    def run(self, epochs):
        print("untrained", self.validate())
        for epoch in range(1, epochs + 1):
            self.train_epoch()
            scores = self.validate()
            train = self.metrics["train"].compute_all()
            log.info("epoch %d train %s", epoch, train)
            if epoch % 5 == 0:
                print("epoch", epoch, scores)


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    score = x[:, 0] * x[:, 1] + x[:, 2].sin() * 2 + x[:, 3]
    y = (score > 0).long() + (score > 1.5).long()
    return TensorDataset(x, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--log-level", default="WARNING")
    args = parser.parse_args()
    logging.basicConfig(level=args.log_level)
    torch.manual_seed(27)
    loaders = {
        "train": DataLoader(make_data(600, 1), batch_size=40, shuffle=True),
        "val": DataLoader(make_data(300, 2), batch_size=50),
    }
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 3))
    Experiment(model, loaders, lr=5e-3).run(args.epochs)


if __name__ == "__main__":
    main()
