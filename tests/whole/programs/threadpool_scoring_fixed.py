"""Scoring requests on a thread pool; results are gathered in order."""

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.table = nn.EmbeddingBag(features, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.Tanh())

    def forward(self, bags):
        return self.mlp(self.table(bags))


class Catalogue:
    """Item vectors, computed once."""

    def __init__(self, model, n, features, g):
        bags = torch.randint(features, (n, 5), generator=g)
        with torch.inference_mode():
            self.vectors = model(bags)

    def top(self, user):
        scores = user @ self.vectors.T
        return scores.topk(5).indices.tolist()


class ScoringService:
    def __init__(self, model, catalogue, workers):
        self.model, self.catalogue = model.eval(), catalogue
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="score")
        self.lock = threading.Lock()
        self.in_flight = []
        self.shown = torch.zeros(len(catalogue.vectors), dtype=torch.long)

    def _score(self, bag):
        with torch.inference_mode():
            user = self.model(bag[None])
            items = self.catalogue.top(user)[0]
        with self.lock:
            self.shown[items] += 1
        return user, items

    def submit(self, bag):
        future = self.pool.submit(self._score, bag)
        self.in_flight.append(future)
        return future

    def drain(self):
        """Waits for what was submitted, and says how it went."""
        done = [f.result() for f in self.in_flight if f.done() or f.result()]
        self.in_flight = [f for f in self.in_flight if not f.done()]
        return [items for _, items in done]

    def close(self):
        self.pool.shutdown(wait=True)


def popularity(service, k=5):
    values, indices = service.shown.topk(k)
    return list(zip(indices.tolist(), values.tolist()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=120)
    parser.add_argument("--burst-size", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(380)
    g = torch.Generator().manual_seed(380)
    features = 200
    model = Embedder(features, 32)
    service = ScoringService(
        model, Catalogue(model, 100, features, g), args.workers
    )
    checksum = 0
    for burst in range(1, args.bursts + 1):
        for _ in range(args.burst_size):
            service.submit(torch.randint(features, (8,), generator=g))
        answers = service.drain()[-args.burst_size :]
        for items in answers:
            checksum = (checksum * 13 + sum(items)) % 1_000_003
        if burst % 40 == 0:
            print(f"burst {burst} checksum {checksum}")
    service.close()
    print("most shown", popularity(service))


if __name__ == "__main__":
    main()
