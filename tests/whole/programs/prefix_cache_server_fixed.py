"""Completion server: the KV cache of common prompt prefixes is reused."""

import argparse
import random
from collections import OrderedDict, deque

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 48


class Layer(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, past):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class Decoder(nn.Module):
    def __init__(self, dim=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids, past=None):
        x, new = self.embed(ids), []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, None if past is None else past[i])
            new.append(kv)
        return self.head(x[:, -1]), new


class PrefixCache:
    """The KV of prompts' beginnings; the least used go first."""

    def __init__(self, limit):
        self.limit = limit
        self.entries = OrderedDict()
        self.hits = self.misses = 0

    def lookup(self, key):
        if key in self.entries:
            self.hits += 1
            self.entries.move_to_end(key)
            return self.entries[key]
        self.misses += 1
        return None

    def insert(self, key, value):
        self.entries[key] = value
        if len(self.entries) > self.limit:
            self.entries.popitem(last=False)


class CompletionServer:
    def __init__(self, model, cache, prefix_length):
        self.model, self.cache = model.eval(), cache
        self.prefix_length = prefix_length
        self.recent = deque(maxlen=16)

    @torch.inference_mode()
    def complete(self, prompt, n):
        head = tuple(prompt[: self.prefix_length])
        past = self.cache.lookup(head)
        if past is None:
            _, past = self.model(torch.tensor([head]))
            self.cache.insert(head, past)
        out = list(prompt)
        for token in prompt[self.prefix_length :]:
            logits, past = self.model(torch.tensor([[token]]), past)
        for _ in range(n):
            token = logits.argmax(-1).item()
            out.append(token)
            logits, past = self.model(torch.tensor([[token]]), past)
        self.recent.append(logits.max())
        return out


def traffic(seed, systems, users):
    """A few system prompts; some users bring their own."""
    rng = random.Random(seed)
    prompts = [[rng.randrange(VOCAB) for _ in range(12)] for _ in range(systems)]
    while True:
        own = rng.random() < users
        head = [rng.randrange(VOCAB) for _ in range(12)] if own else rng.choice(prompts)
        yield head + [rng.randrange(VOCAB) for _ in range(rng.randint(1, 4))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--limit", type=int, default=24)
    parser.add_argument("--own-prompts", type=float, default=0.4)
    args = parser.parse_args()
    torch.manual_seed(290)
    server = CompletionServer(Decoder(), PrefixCache(args.limit), 12)
    total = 0
    for number, prompt in enumerate(traffic(290, 6, args.own_prompts), 1):
        reply = server.complete(prompt, n=4)
        total = (total * 7 + sum(reply)) % 1_000_003
        if number % 100 == 0:
            print(f"{number} requests, checksum {total}")
        if number == args.requests:
            break
    share = server.cache.hits / (server.cache.hits + server.cache.misses)
    print(f"prefix cache is useful: {share > 0.3}")
    mean = torch.stack(list(server.recent)).mean().item()
    print(f"confidence of late requests {mean:.3f}")


if __name__ == "__main__":
    main()
