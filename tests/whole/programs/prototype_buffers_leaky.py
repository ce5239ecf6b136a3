"""Few-shot classifier whose prototypes are buffers, so that they are saved."""

import argparse
import io

import torch
import torch.nn.functional as F
from torch import nn


class PrototypeBook(nn.Module):
    """Class prototypes by name; the newest of a class is the one that counts."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.version = 0
        self.current = {}

    def add(self, label, vectors):
        self.version += 1
        name = f"proto_{label}_v{self.version}"
        self.register_buffer(name, vectors.mean(0))
        self.current[label] = name

    def forward(self, features):
        labels = sorted(self.current)
        protos = torch.stack([getattr(self, self.current[n]) for n in labels])
        return -torch.cdist(features, protos)


class Encoder(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, width)
        )

    def forward(self, x):
        return self.net(x)


class FewShotModel(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.encoder = Encoder(dim, width)
        self.book = PrototypeBook(width)

    def forward(self, x):
        return self.book(self.encoder(x))


class Episodes:
    def __init__(self, dim, classes, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(4, dim, generator=self.g)
        self.centers = torch.randn(classes, 4, generator=self.g)
        self.classes = classes

    def sample(self, label, n):
        z = self.centers[label] + 0.3 * torch.randn(n, 4, generator=self.g)
        x = torch.tanh(z @ self.mix)
        return x + 0.2 * torch.randn(x.shape, generator=self.g)

    def query(self, n):
        labels = torch.randint(self.classes, (n,), generator=self.g)
        return torch.cat([self.sample(i, 1) for i in labels.tolist()]), labels


@torch.no_grad()
def refresh(model, episodes, shots):
    model.eval()
    for label in range(episodes.classes):
        model.book.add(label, model.encoder(episodes.sample(label, shots)))
    model.train()


def size_of_checkpoint(model):
    stream = io.BytesIO()
    torch.save(model.encoder.state_dict(), stream)
    return len(stream.getvalue())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--refresh-every", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(120)
    episodes = Episodes(20, args.classes, seed=120)
    model = FewShotModel(20, 32)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        if step % args.refresh_every == 0:
            refresh(model, episodes, shots=5)
        x, y = episodes.query(24)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 49:
            with torch.no_grad():
                x, y = episodes.query(120)
                acc = (model(x).argmax(1) == y).float().mean().item()
            print(f"step {step + 1} loss {loss.item():.4f} accuracy {acc:.3f}")
    print("encoder is saved:", size_of_checkpoint(model) > 1000)


if __name__ == "__main__":
    main()
