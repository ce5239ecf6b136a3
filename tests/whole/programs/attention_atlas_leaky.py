"""Translation of digit strings with cross-attention that is watched."""

import argparse
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Reversal(Dataset):
    """Source: digits.  Target: the digits in reverse, plus one."""

    def __init__(self, n, length, seed):
        g = torch.Generator().manual_seed(seed)
        self.source = torch.randint(10, (n, length), generator=g)
        self.target = (self.source.flip(1) + 1) % 10

    def __len__(self):
        return len(self.source)

    def __getitem__(self, i):
        return self.source[i], self.target[i]


class Translator(nn.Module):
    def __init__(self, dim, length, atlas):
        super().__init__()
        self.embed = nn.Embedding(11, dim)
        self.pos = nn.Parameter(0.1 * torch.randn(length, dim))
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.cross = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.head = nn.Linear(dim, 10)
        self.atlas = atlas

    def forward(self, source):
        memory, _ = self.encoder(self.embed(source) + self.pos)
        query = self.pos.flip(0).expand(len(source), -1, -1)
        context, weights = self.cross(query, memory, memory)
        self.atlas.record(weights, self.training)
        return self.head(context + query)


class AttentionAtlas:
    """Mean attention maps of epochs, by mode."""

    def __init__(self, every):
        self.every = every
        self.epoch, self.calls = 0, 0
        self.maps = {"train": defaultdict(list), "eval": defaultdict(list)}

    def record(self, weights, training):
        self.calls += 1
        mode = "train" if training else "eval"
        if self.calls % self.every == 0:
            self.maps[mode][self.epoch].append(weights.mean(dim=0))

    def sharpness(self, mode, epoch):
        maps = self.maps[mode][epoch]
        return maps[-1].detach().amax(-1).mean().item()


def train_epoch(model, loader, opt):
    model.train()
    total = 0.0
    for source, target in loader:
        loss = F.cross_entropy(model(source).transpose(1, 2), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for source, target in loader:
        right += (model(source).argmax(-1) == target).sum().item()
        total += target.numel()
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--length", type=int, default=6)
    parser.add_argument("--record-every", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(300)
    atlas = AttentionAtlas(args.record_every)
    model = Translator(32, args.length, atlas)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    train = DataLoader(
        Reversal(640, args.length, 300), batch_size=32, shuffle=True
    )
    val = DataLoader(Reversal(160, args.length, 301), batch_size=32)
    print(f"untrained {evaluate(model, val):.3f}")
    for epoch in range(1, args.epochs + 1):
        atlas.epoch = epoch
        loss = train_epoch(model, train, opt)
        acc = evaluate(model, val)
        sharp = atlas.sharpness("train", epoch)
        print(f"epoch {epoch} loss {loss:.3f} acc {acc:.3f} sharp {sharp:.3f}")


if __name__ == "__main__":
    main()
