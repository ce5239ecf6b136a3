"""Rotary positions whose scale follows a curriculum of longer contexts."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

_TABLES = {}


def rotary_table(length, dim, scale):
    key = (length, dim, scale)
    if key not in _TABLES:
        inv = 1.0 / (10_000 ** (torch.arange(0, dim, 2) / dim))
        angles = torch.arange(length)[:, None] * inv / scale
        _TABLES[key] = (angles.cos(), angles.sin())
    return _TABLES[key]


def rotate(x, table):
    cos, sin = table
    a, b = x[..., ::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qk = nn.Linear(dim, 2 * dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)

    def forward(self, x, scale):
        table = rotary_table(x.shape[1], x.shape[2], scale)
        q, k = (rotate(part, table) for part in self.qk(x).chunk(2, -1))
        return x + F.scaled_dot_product_attention(
            q, k, self.v(x), is_causal=True
        )


class Model(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, scale):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, scale)
        return self.head(x)


def context_at(step):
    return 8 + 8 * (step // 80)


def scale_at(step):
    return 1.0 + step // 80


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=320)
    args = parser.parse_args()
    torch.manual_seed(2)
    model = Model(24, 32, depth=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        ids = torch.randint(24, (6, context_at(step)))
        logits = model(ids, scale_at(step))
        loss = F.cross_entropy(
            logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 80 == 79:
            print(f"context {ids.shape[1]} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
