"""Evaluates before it trains, and after each epoch; keeps what it saw."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Evaluator:
    """Accuracy, and how calibrated the probabilities were in each epoch."""

    def __init__(self, loader):
        self.loader = loader
        self.epochs = []

    @torch.no_grad()
    def run(self, model):
        model.eval()
        probs, hits, seen = [], 0, 0
        for x, y in self.loader:
            p = model(x).softmax(-1)
            probs.append(p)
            hits += int((p.argmax(-1) == y).sum())
            seen += len(y)
        self.epochs = [*self.epochs[-1:], probs]
        model.train()
        return hits / seen

    def drift(self):
        """How far the last two epochs' probabilities lie apart."""
        if len(self.epochs) < 2:
            return 0.0
        old, new = (torch.cat(part) for part in self.epochs[-2:])
        return (old - new).abs().mean().item()


def datasets(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(600, 16, generator=g)
    y = (x[:, :4].sum(1) > 0).long() + 2 * (x[:, 4] > 0).long()
    return TensorDataset(x[:360], y[:360]), TensorDataset(x[360:], y[360:])


def train_epoch(model, optimizer, loader):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(60)
    train_set, test_set = datasets(60)
    loader = DataLoader(train_set, batch_size=30, shuffle=True)
    evaluator = Evaluator(DataLoader(test_set, batch_size=24))
    model = nn.Sequential(
        nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    print(f"before training {evaluator.run(model):.3f}")
    for epoch in range(1, args.epochs + 1):
        train_epoch(model, optimizer, loader)
        accuracy = evaluator.run(model)
        if epoch % 8 == 0:
            print(
                f"epoch {epoch} accuracy {accuracy:.3f}"
                f" drift {evaluator.drift():.4f}"
            )


if __name__ == "__main__":
    main()
