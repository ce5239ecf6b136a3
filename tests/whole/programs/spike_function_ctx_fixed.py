"""Spiking network with a surrogate gradient (a custom autograd Function)."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Spike(torch.autograd.Function):
    """Heaviside forward; a fast sigmoid's slope backward."""

    sharpness = 8.0
    rate = 0.0

    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        fired = (potential > 0).float()
        if potential.requires_grad or torch.is_grad_enabled():
            Spike.rate = fired.mean().item()
        return fired

    @staticmethod
    def backward(ctx, grad):
        (potential,) = ctx.saved_tensors
        slope = 1 / (1 + Spike.sharpness * potential.abs()) ** 2
        return grad * slope

    @classmethod
    def last_rate(cls):
        return cls.rate


class LIFLayer(nn.Module):
    def __init__(self, n_in, n_out, decay):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.decay = decay

    def forward(self, spikes):
        membrane = torch.zeros(spikes.shape[1], self.fc.out_features)
        out = []
        for current in self.fc(spikes):
            membrane = self.decay * membrane + current
            fired = Spike.apply(membrane - 1.0)
            membrane = membrane * (1 - fired.detach())
            out.append(fired)
        return torch.stack(out)


class SpikingNet(nn.Module):
    def __init__(self, n_in, hidden, classes):
        super().__init__()
        self.layer = LIFLayer(n_in, hidden, 0.8)
        self.readout = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.readout(self.layer(x).mean(0))


def events(n, steps, channels, g):
    """Poisson trains whose busy half of channels gives the class."""
    y = torch.randint(2, (n,), generator=g)
    rate = torch.full((n, channels), 0.1)
    half = channels // 2
    rate[y == 0, :half] = 0.4
    rate[y == 1, half:] = 0.4
    draws = torch.rand(steps, n, channels, generator=g)
    return (draws < rate).float(), y


def accuracy(net, g, steps, channels):
    with torch.no_grad():
        x, y = events(200, steps, channels, g)
        return (net(x).argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--per-epoch", type=int, default=20)
    parser.add_argument("--time-steps", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(70)
    g = torch.Generator().manual_seed(70)
    channels = 24
    net = SpikingNet(channels, 32, 2)
    opt = torch.optim.Adamax(net.parameters(), lr=1e-2)
    print(f"before {accuracy(net, g, args.time_steps, channels):.3f}")
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for _ in range(args.per_epoch):
            x, y = events(32, args.time_steps, channels, g)
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(
            f"epoch {epoch} loss {total / args.per_epoch:.4f} "
            f"rate {Spike.last_rate():.3f} "
            f"accuracy {accuracy(net, g, args.time_steps, channels):.3f}"
        )


if __name__ == "__main__":
    main()
