"""Super-resolution; a corner of the outputs is kept for a contact sheet."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Textures:
    """Smooth random textures and their small versions."""

    def __init__(self, size, seed):
        self.size = size
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n):
        coarse = torch.rand(n, 1, 5, 5, generator=self.g)
        big = F.interpolate(coarse, self.size, mode="bicubic")
        return F.avg_pool2d(big, 2), big


class Upscaler(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.PReLU(),
            nn.Conv2d(width, 4, 3, padding=1),
        )
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x):
        base = F.interpolate(x, scale_factor=2, mode="nearest")
        return base + self.shuffle(self.body(x))


class ContactSheet:
    """Corners of outputs, in the order of training."""

    def __init__(self, edge, keep):
        self.edge, self.keep = edge, keep
        self.tiles = []

    def add(self, images):
        self.tiles.append(images.detach()[0, 0, : self.edge, : self.edge])

    def render(self):
        recent = torch.cat(self.tiles[-self.keep :], dim=1)
        shades = " .:-=+*#%@"
        index = (recent.clamp(0, 1) * 9).long()
        return "\n".join("".join(shades[i] for i in row) for row in index.tolist())


def psnr(out, target):
    return -10 * (out - target).pow(2).mean().log10()


def charbonnier(out, target, eps=1e-3):
    return ((out - target).pow(2) + eps**2).sqrt().mean()


def train(model, data, sheet, args):
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(1, args.steps + 1):
        small, big = data.batch(args.batch)
        out = model(small)
        loss = charbonnier(out, big)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % args.sheet_every == 0:
            sheet.add(out)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--sheet-every", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(90)
    data = Textures(args.size, seed=90)
    model = Upscaler(12)
    sheet = ContactSheet(edge=6, keep=6)
    train(model, data, sheet, args)
    with torch.no_grad():
        small, big = data.batch(32)
        print(f"PSNR {psnr(model(small), big).item():.2f} dB")
    print(sheet.render())


if __name__ == "__main__":
    main()
