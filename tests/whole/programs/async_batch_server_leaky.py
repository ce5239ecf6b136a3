"""Asyncio inference server with dynamic batching and background audits."""

import argparse
import asyncio
import random

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        )
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        features = self.net(x)
        return self.head(features), features


class Batcher:
    """Collects requests until there are enough, then runs the model once."""

    def __init__(self, model, max_batch):
        self.model, self.max_batch = model.eval(), max_batch
        self.queue = asyncio.Queue(maxsize=4 * max_batch)
        self.batches = 0

    async def score(self, x):
        future = asyncio.get_running_loop().create_future()
        await self.queue.put((x, future))
        return await future

    async def run(self):
        while True:
            items = [await self.queue.get()]
            while len(items) < self.max_batch and not self.queue.empty():
                items.append(self.queue.get_nowait())
            xs = torch.stack([x for x, _ in items])
            with torch.inference_mode():
                scores, features = self.model(xs)
            self.batches += 1
            for (_, future), s, f in zip(items, scores, features):
                future.set_result((s.clone(), f.clone()))


class Service:
    def __init__(self, batcher, audit_every):
        self.batcher, self.audit_every = batcher, audit_every
        self.audits = set()
        self.handled = 0
        self.suspicious = 0

    async def audit(self, features):
        """Looks for outliers without keeping the client waiting."""
        await asyncio.sleep(0)
        distance = (features - features.mean()) / (features.std() + 1e-6)
        if distance.abs().max() > 4:
            self.suspicious += 1
        return distance

    async def handle(self, request):
        scores, features = await self.batcher.score(request["x"])
        self.handled += 1
        if self.handled % self.audit_every == 0:
            # a reference is needed, lest the task be collected
            task = asyncio.create_task(self.audit(features))
            self.audits.add(task)
        return {"id": request["id"], "label": int(scores.argmax())}


async def client(service, name, n, dim, counts):
    rng = random.Random(name)
    g = torch.Generator().manual_seed(name)
    for i in range(n):
        x = torch.randn(dim, generator=g) * rng.choice([1, 1, 2])
        reply = await service.handle({"id": (name, i), "x": x})
        counts[reply["label"]] += 1
        if rng.random() < 0.1:
            await asyncio.sleep(0)


async def serve(args):
    service = Service(Batcher(Scorer(args.dim, 64), 8), args.audit_every)
    worker = asyncio.create_task(service.batcher.run())
    counts = [0, 0, 0]
    await asyncio.gather(
        *(client(service, c, args.requests, args.dim, counts) for c in range(8))
    )
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return service, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=250)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--audit-every", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(140)
    service, counts = asyncio.run(serve(args))
    print("labels", counts)
    print("handled", service.handled, "suspicious", service.suspicious)
    print("batched", service.batcher.batches < service.handled)


if __name__ == "__main__":
    main()
