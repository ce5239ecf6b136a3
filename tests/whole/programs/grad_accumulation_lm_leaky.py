"""Bigram-ish language model with gradient accumulation."""

import argparse
import logging
import sys

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


class TokenStream:
    """A synthetic language: each token depends on the two before it."""

    def __init__(self, vocab, seed):
        self.vocab = vocab
        self.g = torch.Generator().manual_seed(seed)
        self.table = torch.randint(
            vocab, (vocab, vocab), generator=self.g
        )

    def batch(self, size, length):
        rows = torch.randint(self.vocab, (size, 2), generator=self.g)
        out = [rows[:, 0], rows[:, 1]]
        for _ in range(length - 1):
            nxt = self.table[out[-2], out[-1]]
            noise = torch.rand(size, generator=self.g) < 0.1
            other = torch.randint(self.vocab, (size,), generator=self.g)
            out.append(torch.where(noise, other, nxt))
        seq = torch.stack(out, dim=1)
        return seq[:, :-1], seq[:, 1:]


class GRULM(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.drop(self.rnn(self.embed(ids))[0]))


def lm_loss(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def perplexity(model, stream, batches=6):
    model.eval()
    losses = [lm_loss(model, stream.batch(16, 16)).item() for _ in range(batches)]
    model.train()
    return torch.tensor(losses).mean().exp().item()


def train(model, stream, cfg):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=cfg["lr"], weight_decay=0.01
    )
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    state = {"step": 0, "tokens": 0, "loss_sum": 0.0}
    for step in range(1, cfg["steps"] + 1):
        for _ in range(cfg["accumulation"]):
            batch = stream.batch(cfg["batch"], cfg["length"])
            loss = lm_loss(model, batch) / cfg["accumulation"]
            loss.backward()
            state["loss_sum"] += loss
            state["tokens"] += batch[0].numel()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
        state["step"] = step
        logger.debug("step %d norm %.3f", step, norm)
        if step % cfg["log_every"] == 0:
            mean = state["loss_sum"] / step
            print(
                f"step {step:4d} tokens {state['tokens']:6d} "
                f"mean loss {float(mean):.4f}"
            )
    return state


def parse(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--accumulation", type=int, default=4)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    logging.basicConfig(
        level=logging.DEBUG if args.verbose else logging.WARNING
    )
    torch.manual_seed(2)
    stream = TokenStream(vocab=24, seed=9)
    model = GRULM(24, 32)
    print(f"perplexity before {perplexity(model, stream):.2f}")
    train(
        model,
        stream,
        {
            "steps": args.steps,
            "accumulation": args.accumulation,
            "batch": 8,
            "length": 12,
            "lr": 5e-3,
            "log_every": 20,
        },
    )
    print(f"perplexity after {perplexity(model, stream):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
