"""Copy task with a curriculum: sequences and batches become longer."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

STAGES = [
    {"length": 4, "batch": 8, "steps": 50},
    {"length": 8, "batch": 16, "steps": 50},
    {"length": 12, "batch": 24, "steps": 70},
    {"length": 16, "batch": 32, "steps": 130},
]


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.scale = dim**-0.5
        self.last_entropy = 0.0

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * self.scale
        attn = scores.softmax(-1)
        if self.training:
            self.last_entropy = entropy(attn[0].detach())
        return attn @ self.value(x)


def entropy(attn):
    return -(attn * attn.clamp_min(1e-9).log()).sum(-1).mean().item()


class Copier(nn.Module):
    def __init__(self, vocab, dim, max_len):
        super().__init__()
        self.token = nn.Embedding(vocab, dim)
        self.place = nn.Embedding(max_len, dim)
        self.attn = SelfAttention(dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.norm(x + self.attn(x)))


def batch_of(stage, vocab):
    ids = torch.randint(vocab, (stage["batch"], stage["length"]))
    return ids, ids.flip(1)


def evaluate(model, stage, vocab):
    model.eval()
    with torch.no_grad():
        x, y = batch_of(stage, vocab)
        acc = (model(x).argmax(-1) == y).float().mean().item()
    model.train()
    return acc


def run_stage(model, optimizer, stage, vocab):
    total = 0.0
    for _ in range(stage["steps"]):
        x, y = batch_of(stage, vocab)
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / stage["steps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab", type=int, default=12)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(8)
    model = Copier(args.vocab, 32, max_len=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for number, stage in enumerate(STAGES):
        loss = run_stage(model, optimizer, stage, args.vocab)
        acc = evaluate(model, stage, args.vocab)
        print(
            f"stage {number}: length {stage['length']} batch {stage['batch']}"
            f" loss {loss:.3f} accuracy {acc:.3f}"
        )
    print(f"attention entropy {model.attn.last_entropy:.3f}")


if __name__ == "__main__":
    main()
