"""Cost-sensitive training that follows a soft confusion matrix."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SoftConfusion:
    """Expected confusions under the predicted probabilities."""

    def __init__(self, classes, momentum):
        self.classes, self.momentum = classes, momentum
        self.matrix = torch.full((classes, classes), 1 / classes)

    def update(self, logits, y):
        probs = logits.softmax(dim=1)
        truth = F.one_hot(y, self.classes).float()
        seen = truth.sum(0).clamp_min(1)[:, None]
        batch = truth.T @ probs / seen
        self.matrix = self.momentum * self.matrix
        self.matrix += (1 - self.momentum) * batch.detach()

    def weights(self):
        """Classes that are mistaken more often weigh more."""
        missed = 1 - self.matrix.detach().diagonal()
        return missed / missed.mean()


class Classifier(nn.Module):
    def __init__(self, dim, width, classes):
        super().__init__()
        self.inp = nn.Linear(dim, width)
        self.gate = nn.Linear(dim, width)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(torch.tanh(self.inp(x)) * torch.sigmoid(self.gate(x)))


def imbalanced(n, classes, dim, seed):
    g = torch.Generator().manual_seed(seed)
    share = 0.6 ** torch.arange(classes)
    y = torch.multinomial(share, n, replacement=True, generator=g)
    centers = torch.randn(
        classes, dim, generator=torch.Generator().manual_seed(1)
    )
    return TensorDataset(centers[y] + 0.9 * torch.randn(n, dim, generator=g), y)


@torch.no_grad()
def balanced_accuracy(model, loader, classes):
    hits, seen = torch.zeros(classes), torch.zeros(classes)
    for x, y in loader:
        right = (model(x).argmax(1) == y).float()
        hits.index_add_(0, y, right)
        seen.index_add_(0, y, torch.ones_like(right))
    return (hits / seen.clamp_min(1)).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--momentum", type=float, default=0.9)
    args = parser.parse_args()
    torch.manual_seed(260)
    train = DataLoader(
        imbalanced(640, args.classes, 12, 260), batch_size=32, shuffle=True
    )
    val = DataLoader(imbalanced(400, args.classes, 12, 261), batch_size=20)
    model = Classifier(12, 32, args.classes)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    confusion = SoftConfusion(args.classes, args.momentum)
    print(f"before {balanced_accuracy(model, val, args.classes):.3f}")
    for epoch in range(args.epochs):
        for x, y in train:
            logits = model(x)
            loss = F.cross_entropy(logits, y, weight=confusion.weights())
            opt.zero_grad()
            loss.backward()
            opt.step()
            confusion.update(logits, y)
        score = balanced_accuracy(model, val, args.classes)
        if epoch % 2:
            print(f"epoch {epoch + 1} balanced accuracy {score:.3f}")
    diagonal = confusion.matrix.diagonal().tolist()
    print("soft recall", [round(v, 2) for v in diagonal])


if __name__ == "__main__":
    main()
