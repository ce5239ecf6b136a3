"""GAN on a ring of Gaussians: two networks, two optimizers."""

import argparse
import math
import sys
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn


def ring(n, modes=8, radius=2.0):
    which = torch.randint(modes, (n,)) * (2 * math.pi / modes)
    centers = torch.stack([which.cos(), which.sin()], dim=1) * radius
    return centers + 0.05 * torch.randn(n, 2)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class GAN:
    def __init__(self, latent, width, lr):
        self.latent = latent
        self.generator = mlp(latent, width, width, 2)
        self.discriminator = mlp(2, width, width, 1)
        self.opt_g = torch.optim.Adam(
            self.generator.parameters(), lr=lr, betas=(0.5, 0.9)
        )
        self.opt_d = torch.optim.Adam(
            self.discriminator.parameters(), lr=lr, betas=(0.5, 0.9)
        )

    def noise(self, n):
        return torch.randn(n, self.latent)

    def d_step(self, real):
        fake = self.generator(self.noise(len(real))).detach()
        real_score = self.discriminator(real)
        fake_score = self.discriminator(fake)
        loss = (F.softplus(-real_score) + F.softplus(fake_score)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss

    def g_step(self, n):
        fake_score = self.discriminator(self.generator(self.noise(n)))
        loss = F.softplus(-fake_score).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss


class Dashboard:
    def __init__(self, stream):
        self.stream = stream
        self.curves = defaultdict(list)

    def add(self, **values):
        for name, value in values.items():
            self.curves[name].append(value)

    def summary(self):
        parts = []
        for name, values in self.curves.items():
            mean = 0.0
            for value in values:
                mean += 0.1 * (value.item() - mean)
            parts.append(f"{name} {mean:.3f}")
        return "  ".join(parts)


@torch.no_grad()
def coverage(gan, modes=8, n=400):
    """How many modes the generator reaches."""
    points = gan.generator(gan.noise(n))
    angle = torch.atan2(points[:, 1], points[:, 0])
    bins = ((angle + math.pi) / (2 * math.pi) * modes).long().clamp(0, 7)
    return int((torch.bincount(bins, minlength=modes) > n // 40).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--critic-steps", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(21)
    gan = GAN(latent=4, width=32, lr=1e-3)
    board = Dashboard(sys.stdout)
    print("modes before", coverage(gan))
    for i in range(1, args.rounds + 1):
        for _ in range(args.critic_steps):
            d_loss = gan.d_step(ring(args.batch))
        g_loss = gan.g_step(args.batch)
        board.add(discriminator=d_loss, generator=g_loss)
        if i % 50 == 0:
            print(f"round {i}  {board.summary()}", file=board.stream)
    print("modes after", coverage(gan))


if __name__ == "__main__":
    main()
