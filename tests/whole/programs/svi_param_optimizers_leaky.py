"""Variational inference for a mixture; every parameter has its optimizer."""

import argparse
import math

import torch
from torch.distributions import Normal


class ParamStore:
    """Named parameters in the manner of probabilistic languages."""

    def __init__(self):
        self.values = {}

    def param(self, name, init):
        if name not in self.values:
            self.values[name] = init().requires_grad_()
        return self.values[name]


class PerParameterAdam:
    def __init__(self, **options):
        self.options = options
        self.optimizers = {}

    def __call__(self, store):
        for name, value in store.values.items():
            if name not in self.optimizers:
                self.optimizers[name] = torch.optim.Adam([value], **self.options)
            self.optimizers[name].step()
            self.optimizers[name].zero_grad()


class SVI:
    def __init__(self, model, guide, optimizer, store, samples):
        self.model, self.guide = model, guide
        self.optimizer, self.store = optimizer, store
        self.samples = samples
        self.trace = Trace(limit=100)

    def step(self, data):
        elbo = 0.0
        for _ in range(self.samples):
            z, log_q = self.guide(self.store)
            elbo = elbo + (self.model(z, data) - log_q) / self.samples
        loss = -elbo / len(data)
        loss.backward()
        self.optimizer(self.store)
        self.trace.add(loss=loss, best=z["loc"])
        return loss.item()


class Trace:
    """Values by name; old ones are dropped when there are too many."""

    def __init__(self, limit):
        self.limit = limit
        self.columns = {}

    def add(self, **values):
        for name, value in values.items():
            column = self.columns.setdefault(name, [])
            column = column + [value]
            if len(column) % self.limit == 0:
                column = column[:]
            self.columns[name] = column

    def mean(self, name, n):
        return sum(v.mean().item() for v in self.columns[name][-n:]) / n


def model(z, data):
    prior = Normal(0.0, 5.0).log_prob(z["loc"]).sum()
    prior = prior + Normal(0.0, 1.0).log_prob(z["log_scale"]).sum()
    parts = Normal(z["loc"], z["log_scale"].exp()).log_prob(data[:, None])
    mixture = torch.logsumexp(parts - math.log(parts.shape[1]), dim=1)
    return prior + mixture.sum()


def make_guide(k):
    def guide(store):
        z, log_q = {}, 0.0
        for name in ("loc", "log_scale"):
            mean = store.param(f"{name}.mean", lambda: torch.linspace(-1, 1, k))
            spread = store.param(f"{name}.spread", lambda: torch.full((k,), -2.0))
            q = Normal(mean, spread.exp())
            z[name] = q.rsample()
            log_q = log_q + q.log_prob(z[name]).sum()
        return z, log_q

    return guide


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--components", type=int, default=3)
    parser.add_argument("--samples", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(250)
    centers = torch.tensor([-3.0, 0.5, 4.0])
    data = centers[torch.randint(3, (200,))] + 0.5 * torch.randn(200)
    store = ParamStore()
    svi = SVI(
        model,
        make_guide(args.components),
        PerParameterAdam(lr=0.05),
        store,
        args.samples,
    )
    for step in range(1, args.steps + 1):
        svi.step(data)
        if step % 50 == 0:
            print(f"step {step} loss {svi.trace.mean('loss', 20):.4f}")
    print("means", [round(v, 2) for v in store.values["loc.mean"].tolist()])


if __name__ == "__main__":
    main()
