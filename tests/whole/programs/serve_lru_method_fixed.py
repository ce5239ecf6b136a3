"""Semantic search: queries are embedded once and ranked against documents."""

import argparse
import functools
import json
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

TOPICS = {
    "garden": "rose tulip soil water seed spade hedge".split(),
    "kitchen": "bread flour salt oven yeast knife pan".split(),
    "harbour": "boat rope tide sail crane gull pier".split(),
}


class HashingTokenizer:
    def __init__(self, size):
        self.size = size

    def __call__(self, text):
        value = [sum(map(ord, w)) * 31 % self.size for w in text.split()]
        return torch.tensor(value or [0])


class TextEncoder(nn.Module):
    def __init__(self, buckets, dim):
        super().__init__()
        self.bag = nn.EmbeddingBag(buckets, dim)
        self.proj = nn.Sequential(
            nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)
        )

    def forward(self, ids):
        return F.normalize(self.proj(self.bag(ids[None])), dim=-1)


class SearchEngine:
    def __init__(self, documents, dim=64):
        self.documents = documents
        self.tokenize = HashingTokenizer(512)
        self.encoder = TextEncoder(512, dim).eval()
        self.index = torch.cat([self._encode(d) for d in documents])
        self.served = 0

    @torch.no_grad()
    def _encode(self, text):
        return self.encoder(self.tokenize(text))

    @functools.lru_cache(maxsize=64)
    def embed(self, query):
        return self._encode(query)

    def search(self, query, k=3):
        self.served += 1
        scores = (self.embed(query) @ self.index.T).squeeze(0)
        top = scores.topk(k)
        return [
            (round(s, 3), self.documents[i])
            for s, i in zip(top.values.tolist(), top.indices.tolist())
        ]


class QueryLog:
    """Popular queries repeat; most are typed once."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        words = [w for group in TOPICS.values() for w in group]
        self.words = words
        self.popular = [" ".join(self.rng.sample(words, 2)) for _ in range(8)]

    def __iter__(self):
        n = 0
        while True:
            n += 1
            if self.rng.random() < 0.5:
                yield self.rng.choice(self.popular)
            else:
                yield " ".join(self.rng.choices(self.words, k=3)) + f" {n}"


def make_documents(rng, n):
    out = []
    for i in range(n):
        topic = rng.choice(sorted(TOPICS))
        out.append(f"{topic} {i}: " + " ".join(rng.choices(TOPICS[topic], k=6)))
    return out


def handle_line(engine, line):
    message = json.loads(line)
    hits = engine.search(message["query"], message.get("k", 3))
    return json.dumps({"id": message["id"], "hits": hits})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--documents", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    engine = SearchEngine(make_documents(random.Random(2), args.documents))
    checksum = 0
    for number, query in enumerate(QueryLog(seed=3)):
        if number == args.queries:
            break
        line = json.dumps({"id": number, "query": query, "k": 2})
        reply = json.loads(handle_line(engine, line))
        checksum = (checksum * 31 + len(reply["hits"][0][1])) % 99991
        if number % 1000 == 0:
            print(number, reply["hits"][0][1])
    print("served", engine.served, "checksum", checksum)
    return 0


if __name__ == "__main__":
    sys.exit(main())
