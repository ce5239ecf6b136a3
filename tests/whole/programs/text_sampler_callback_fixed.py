"""Character model with a KV cache; a callback writes samples in training."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

CORPUS = (
    "the quick brown fox jumps over the lazy dog. "
    "pack my box with five dozen liquor jugs. "
    "how vexingly quick daft zebras jump. "
) * 20


class Vocabulary:
    def __init__(self, text):
        self.chars = sorted(set(text))
        self.index = {c: i for i, c in enumerate(self.chars)}

    def encode(self, text):
        return torch.tensor([self.index[c] for c in text])

    def decode(self, ids):
        return "".join(self.chars[i] for i in ids)

    def __len__(self):
        return len(self.chars)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache=None):
        b, t, d = x.shape
        q, k, v = (
            part.view(b, t, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        if cache is not None:
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, x, cache=None):
        x = x + self.attn(self.ln1(x), cache)
        return x + self.mlp(self.ln2(x))


class CharGPT(nn.Module):
    def __init__(self, vocab, dim=32, layers=2, heads=2, context=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, caches=None, offset=0):
        positions = torch.arange(offset, offset + ids.shape[1])
        x = self.embed(ids) + self.pos(positions)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return self.head(x)

    @torch.no_grad()
    def generate(self, prompt, n):
        caches = [{} for _ in self.blocks]
        ids = prompt[None]
        logits = self(ids, caches)
        out = prompt.tolist()
        for _ in range(n):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            out.append(nxt.item())
            logits = self(nxt, caches, offset=len(out) - 1)
        return out, caches


class SampleWriter:
    """Every few steps: continue a prompt, keep the best for the report."""

    def __init__(self, vocab, prompt, every):
        self.vocab, self.every = vocab, every
        self.prompt = vocab.encode(prompt)
        self.samples = []

    def __call__(self, step, model):
        if step % self.every:
            return
        model.eval()
        ids, cache = model.generate(self.prompt, 24)
        text = self.vocab.decode(ids)
        self.samples = [*self.samples[-4:], (step, text)]
        model.train()


def batches(data, steps, size, length):
    for _ in range(steps):
        starts = torch.randint(0, len(data) - length - 1, (size,))
        rows = torch.stack([data[s : s + length + 1] for s in starts])
        yield rows[:, :-1], rows[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sample-every", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(5)
    vocab = Vocabulary(CORPUS)
    data = vocab.encode(CORPUS)
    model = CharGPT(len(vocab))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: 0.5 * (1 + math.cos(math.pi * i / args.steps))
    )
    writer = SampleWriter(vocab, "the quick ", args.sample_every)
    for step, (x, y) in enumerate(batches(data, args.steps, 8, 32), 1):
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        writer(step, model)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")
            print("   ", repr(writer.samples[-1][1]))


if __name__ == "__main__":
    main()
