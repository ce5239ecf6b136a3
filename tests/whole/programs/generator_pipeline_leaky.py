"""A data pipeline of generators: read, filter, batch, train, smooth."""

import argparse
import itertools

import torch
import torch.nn.functional as F
from torch import nn


def records(seed):
    """An endless stream of (features, label); some are broken."""
    g = torch.Generator().manual_seed(seed)
    weights = torch.randn(3, 10, generator=g)
    for number in itertools.count():
        x = torch.randn(10, generator=g)
        y = int((weights @ x).argmax())
        if number % 9 == 0:
            x = x * float("inf")
        yield x, y


def only_finite(stream):
    for x, y in stream:
        if torch.isfinite(x).all():
            yield x, y


def shuffled(stream, size, seed):
    """A shuffle buffer of a fixed size."""
    g = torch.Generator().manual_seed(seed)
    buffer = list(itertools.islice(stream, size))
    for record in stream:
        i = int(torch.randint(size, (), generator=g))
        yield buffer[i]
        buffer[i] = record


def batched(stream, n):
    while rows := list(itertools.islice(stream, n)):
        xs, ys = zip(*rows)
        yield torch.stack(xs), torch.tensor(ys)


def training(model, opt, batches):
    for x, y in batches:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        yield loss


def smoothed(losses, window):
    """Mean of the last losses, one value for each that comes in."""
    seen = []
    for loss in losses:
        seen.append(loss)
        recent = torch.stack(seen[-window:])
        yield recent.mean().item()


def every(stream, n):
    return itertools.islice(stream, n - 1, None, n)


def build(args):
    model = nn.Sequential(
        nn.Linear(10, 32), nn.Hardswish(), nn.Linear(32, 3)
    )
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    stream = shuffled(only_finite(records(args.seed)), 64, args.seed + 1)
    batches = batched(stream, args.batch)
    curve = smoothed(training(model, opt, batches), args.window)
    return model, curve


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=130)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model, curve = build(args)
    limited = itertools.islice(curve, args.steps)
    for number, value in enumerate(every(limited, 50), 1):
        print(f"after {50 * number} steps: {value:.4f}")
    test = batched(only_finite(records(999)), 200)
    x, y = next(test)
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean().item()
    print(f"accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
