"""Snapshots are evaluated in a background thread while training goes on."""

import argparse
import copy
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn


class Evaluator(threading.Thread):
    """Takes snapshots from a queue, scores them on a fixed validation set."""

    def __init__(self, template, x, y):
        super().__init__(daemon=True, name="evaluator")
        self.jobs = queue.Queue(maxsize=2)
        self.model = copy.deepcopy(template).eval()
        self.x, self.y = x, y
        self.lock = threading.Lock()
        self.best = (0.0, None)
        self.results = []

    def submit(self, step, model):
        state = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self.jobs.put((step, state))

    def run(self):
        while (job := self.jobs.get()) is not None:
            self.evaluate(*job)
            self.jobs.task_done()
        self.jobs.task_done()

    @torch.no_grad()
    def evaluate(self, step, state):
        self.model.load_state_dict(state)
        logits = self.model(self.x)
        acc = (logits.argmax(1) == self.y).float().mean().item()
        with self.lock:
            self.results.append((step, acc, logits))
            if acc > self.best[0]:
                self.best = (acc, state)

    def last(self):
        self.jobs.join()
        with self.lock:
            step, acc, _ = self.results[-1]
        return step, acc


class XorRegions:
    def __init__(self, dim, seed):
        self.dim = dim
        self.g = torch.Generator().manual_seed(seed)

    def sample(self, n):
        x = torch.rand(n, self.dim, generator=self.g) * 2 - 1
        y = (x[:, 0] * x[:, 1] > 0).long() * 2 + (x[:, 2] > 0).long()
        return x, y


def make_model(dim):
    return nn.Sequential(
        nn.Linear(dim, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(),
        nn.Linear(48, 4),
    )


def train(model, data, evaluator, args):
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(1, args.steps + 1):
        x, y = data.sample(args.batch)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % args.eval_every == 0:
            evaluator.submit(step, model)
        if step % 100 == 0:
            at, acc = evaluator.last()
            print(f"step {step} loss {loss.item():.4f}; step {at}: {acc:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--eval-every", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(150)
    data = XorRegions(5, seed=150)
    model = make_model(5)
    evaluator = Evaluator(model, *XorRegions(5, seed=151).sample(200))
    evaluator.start()
    try:
        train(model, data, evaluator, args)
    finally:
        evaluator.jobs.put(None)
        evaluator.join()
    print(f"best {evaluator.best[0]:.3f}")


if __name__ == "__main__":
    main()
