"""Federated averaging over a handful of simulated clients."""

import argparse
import random

import torch
from clients import make_clients
from server import Server
from torch import nn

CLASSES = 10


def make_model():
    return nn.Sequential(
        nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, CLASSES)
    )


@torch.no_grad()
def evaluate(model, n=500):
    g = torch.Generator().manual_seed(999)
    y = torch.randint(CLASSES, (n,), generator=g)
    x = torch.randn(n, 10, generator=g)
    x[torch.arange(n), y] += 2.5
    return (model(x).argmax(1) == y).float().mean().item()


def run_round(server, clients, args):
    deltas, losses = [], []
    weights = server.weights()
    for client in clients:
        delta, loss = client.train(weights, args.local_steps, args.lr)
        server.ledger.file(client.name, delta)
        deltas.append(delta)
        losses.append(loss)
    server.merge(deltas)
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--sampled", type=int, default=3)
    parser.add_argument("--local-steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(350)
    rng = random.Random(350)
    server = Server(make_model(), momentum=0.5)
    clients = make_clients(args.clients, make_model, CLASSES, seed=350)
    print(f"before {evaluate(server.model):.3f}")
    for number in range(1, args.rounds + 1):
        chosen = rng.sample(clients, args.sampled)
        loss = run_round(server, chosen, args)
        if number % 10 == 0:
            norm = server.ledger.norm_of_last(chosen[-1].name)
            print(
                f"round {number} loss {loss:.4f} norm {norm:.3f} "
                f"accuracy {evaluate(server.model):.3f}"
            )


if __name__ == "__main__":
    main()
