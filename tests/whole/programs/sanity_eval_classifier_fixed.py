"""Blob classifier with a small home-made trainer and callbacks."""

import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    epochs: int = 8
    batch_size: int = 32
    lr: float = 0.05
    n_train: int = 640
    n_val: int = 320
    sanity_batches: int = 10


def make_blobs(n, classes, dim, seed):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(classes, dim, generator=g) * 2
    y = torch.randint(classes, (n,), generator=g)
    x = centers[y] + torch.randn(n, dim, generator=g)
    return TensorDataset(x, y)


class Callback:
    def on_validation_start(self, trainer): ...

    def on_validation_batch(self, trainer, logits, target): ...

    def on_validation_end(self, trainer): ...

    def on_train_batch(self, trainer, loss): ...


class ProgressPrinter(Callback):
    def __init__(self):
        self.loss, self.n = 0.0, 0

    def on_train_batch(self, trainer, loss):
        self.loss += loss.item()
        self.n += 1

    def on_validation_end(self, trainer):
        mean = self.loss / max(self.n, 1)
        self.loss, self.n = 0.0, 0
        print(
            f"epoch {trainer.epoch} train {mean:.4f} "
            f"acc {trainer.metrics.get('acc', 0):.3f}"
        )


class PredictionCollector(Callback):
    """Collects a validation pass, for accuracy and calibration."""

    def __init__(self):
        self.store = []
        self.targets = []

    def on_validation_start(self, trainer):
        self.store.clear()
        self.targets = []

    def on_validation_batch(self, trainer, logits, target):
        probs = F.softmax(logits, dim=-1)
        self.store.append(probs)
        self.targets.append(target)

    def on_validation_end(self, trainer):
        n = len(self.targets)
        probs = torch.cat(self.store[-n:])
        target = torch.cat(self.targets)
        confidence, guess = probs.max(dim=1)
        acc = (guess == target).float().mean()
        trainer.metrics["acc"] = acc.item()
        trainer.metrics["gap"] = (confidence.mean() - acc).item()


class EarlyStopping(Callback):
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, 0.0, 0

    def on_validation_end(self, trainer):
        acc = trainer.metrics["acc"]
        self.bad = 0 if acc > self.best else self.bad + 1
        self.best = max(acc, self.best)
        trainer.should_stop = self.bad > self.patience


class Trainer:
    def __init__(self, cfg, callbacks):
        self.cfg, self.callbacks = cfg, callbacks
        self.metrics, self.epoch, self.should_stop = {}, 0, False

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    @torch.no_grad()
    def validate(self, model, loader, limit=None):
        model.eval()
        self.call("on_validation_start")
        for i, (x, y) in enumerate(loader):
            if limit is not None and i >= limit:
                break
            self.call("on_validation_batch", model(x), y)
        self.call("on_validation_end")
        model.train()

    def fit(self, model, train_loader, val_loader):
        optimizer = torch.optim.SGD(
            model.parameters(), lr=self.cfg.lr, momentum=0.9
        )
        self.validate(model, val_loader, self.cfg.sanity_batches)
        for self.epoch in range(1, self.cfg.epochs + 1):
            for x, y in train_loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                self.call("on_train_batch", loss)
            self.validate(model, val_loader)
            if self.should_stop:
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    cfg = Config(epochs=parser.parse_args().epochs)
    torch.manual_seed(0)
    data = make_blobs(cfg.n_train + cfg.n_val, classes=16, dim=8, seed=0)
    train, val = torch.utils.data.random_split(data, [cfg.n_train, cfg.n_val])
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
    trainer = Trainer(
        cfg, [ProgressPrinter(), PredictionCollector(), EarlyStopping(20)]
    )
    trainer.fit(
        model,
        DataLoader(train, cfg.batch_size, shuffle=True),
        DataLoader(val, 16),
    )
    print("final", {k: round(v, 4) for k, v in trainer.metrics.items()})


if __name__ == "__main__":
    main()
