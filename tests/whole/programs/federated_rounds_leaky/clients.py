"""Clients that train on data of their own and send back a difference."""

import torch
import torch.nn.functional as F


class Client:
    def __init__(self, name, make_model, skew, seed):
        self.name = name
        self.model = make_model()
        self.skew = skew
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        y = torch.multinomial(self.skew, n, replacement=True, generator=self.g)
        x = torch.randn(n, 10, generator=self.g)
        x[torch.arange(n), y] += 2.5
        return x, y

    def train(self, weights, steps, lr):
        """Local steps from the given weights: the change, and the loss."""
        self.model.load_state_dict(weights)
        opt = torch.optim.SGD(self.model.parameters(), lr=lr)
        total = 0.0
        for _ in range(steps):
            x, y = self.batch(16)
            loss = F.cross_entropy(self.model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        delta = {
            key: value - weights[key]
            for key, value in self.model.state_dict().items()
        }
        return delta, total / steps


def make_clients(n, make_model, classes, seed):
    g = torch.Generator().manual_seed(seed)
    return [
        Client(
            f"client-{i}",
            make_model,
            torch.rand(classes, generator=g) + 0.05,
            seed + i,
        )
        for i in range(n)
    ]
