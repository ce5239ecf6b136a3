"""Dictionary learning: codes and atoms have an optimizer each, in turn."""

import argparse

import torch
from torch import nn


class Patches:
    """Random patches of a synthetic image."""

    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        grid = torch.linspace(0, 12, size)
        self.image = (grid[:, None].sin() * grid.cos()) + 0.1 * torch.randn(
            size, size, generator=g
        )

    def draw(self, n, side):
        at = torch.randint(self.image.shape[0] - side, (n, 2)).tolist()
        return torch.stack(
            [self.image[i : i + side, j : j + side].flatten() for i, j in at]
        )


class Encoder(nn.Module):
    def __init__(self, pixels, atoms):
        super().__init__()
        self.layer = nn.Linear(pixels, atoms)

    def forward(self, x):
        return self.layer(x).relu()


class Learner:
    def __init__(self, pixels, atoms):
        self.encoder = Encoder(pixels, atoms)
        self.atoms = nn.Parameter(torch.randn(atoms, pixels) * 0.1)
        self.of_codes = torch.optim.Adam(self.encoder.parameters(), lr=3e-3)
        self.of_atoms = torch.optim.SGD([self.atoms], lr=0.1)
        self.usage = ()

    def code_step(self, x):
        codes = self.encoder(x)
        loss = (codes @ self.atoms.detach() - x).pow(2).mean()
        loss = loss + 1e-3 * codes.abs().mean()
        self.of_codes.zero_grad()
        loss.backward()
        self.of_codes.step()
        return codes.detach()

    def atom_step(self, x, codes):
        loss = (codes @ self.atoms - x).pow(2).mean()
        self.of_atoms.zero_grad()
        loss.backward()
        self.of_atoms.step()
        used = (codes > 0).float().mean(0)
        self.usage = self.usage + (used,)
        return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=220)
    args = parser.parse_args()
    torch.manual_seed(17)
    patches = Patches(64, seed=17)
    learner = Learner(36, 256)
    for number in range(1, args.rounds + 1):
        x = patches.draw(32, 6)
        codes = learner.code_step(x)
        loss = learner.atom_step(x, codes)
        if number % 55 == 0:
            print(f"round {number}: loss {loss:.4f}")
    dead = int((learner.usage[-1] == 0).sum())
    print("dead atoms", dead >= 0)


if __name__ == "__main__":
    main()
