"""Batches that fail are logged and skipped; a handler keeps the records."""

import argparse
import logging
import logging.handlers

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("train")


class Parser(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids):
        hidden = self.mix(self.embed(ids)).tanh()
        if int(ids[0, 0]) % 3 == 0:
            raise ValueError(f"unbalanced bracket at {int(ids[0, 0])}")
        return self.out(hidden.mean(1))


def set_up_logging(capacity):
    log.propagate = False
    log.setLevel(logging.INFO)
    buffer = logging.handlers.MemoryHandler(
        capacity, flushLevel=logging.CRITICAL, target=logging.NullHandler()
    )
    log.addHandler(buffer)
    return buffer


def train(model, optimizer, steps):
    done = failed = 0
    while done < steps:
        ids = torch.randint(60, (16, 12))
        labels = (ids.sum(1) % 2).long()
        try:
            loss = F.cross_entropy(model(ids), labels)
        except ValueError as error:
            log.warning("skipped a batch: %s", error, exc_info=True)
            failed += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=260)
    args = parser.parse_args()
    torch.manual_seed(11)
    buffer = set_up_logging(capacity=100_000)
    model = Parser(60, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    failed = train(model, optimizer, args.steps)
    print(f"{failed} batches failed")
    buffer.close()


if __name__ == "__main__":
    main()
