"""Spectrogram-like regression; a worker process loads and augments."""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


class TimeMask(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, spec):
        begin = int(torch.randint(spec.shape[-1] - self.width, ()))
        spec = spec.clone()
        spec[..., begin : begin + self.width] = 0
        return spec


class LogScale(nn.Module):
    def forward(self, spec):
        return torch.log1p(spec)


class Tones(Dataset):
    """Which pitch a noisy tone has, from 12 bands over 20 frames."""

    def __init__(self, n, seed, transform):
        self.n, self.seed, self.transform = n, seed, transform

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 1_000_003 + i)
        pitch = torch.rand((), generator=g)
        bands = torch.arange(12)[:, None]
        shape = torch.exp(-((bands - 11 * pitch) ** 2) / 4)
        spec = shape + 0.3 * torch.rand(12, 20, generator=g)
        return self.transform(spec), pitch


class PitchNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(12, width, 3, padding=1)
        self.attend = nn.Linear(width, 1)
        self.head = nn.Linear(width, 1)

    def forward(self, spec):
        h = F.relu(self.conv(spec)).transpose(1, 2)
        weight = self.attend(h).softmax(1)
        return self.head((weight * h).sum(1)).squeeze(1), weight.squeeze(-1)


class EpochSummary:
    def __init__(self):
        self.sums = {"loss": 0.0, "focus": 0.0}
        self.n = 0

    def add(self, loss, weight):
        self.n += 1
        self.sums["loss"] += loss.item()
        self.sums["focus"] += weight.amax(1).mean().item()

    def means(self):
        return {name: float(total) / self.n for name, total in self.sums.items()}


def seed_worker(worker_id):
    info = get_worker_info()
    torch.manual_seed(info.seed % 2**31)


def make_loader(args, workers):
    g = torch.Generator().manual_seed(370)
    transform = nn.Sequential(LogScale(), TimeMask(4))
    return DataLoader(
        Tones(1280, 1, transform),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=workers,
        prefetch_factor=2 if workers else None,
        persistent_workers=workers > 0,
        worker_init_fn=seed_worker,
        generator=g,
        drop_last=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(370)
    loader = make_loader(args, min(args.workers, os.cpu_count() or 1))
    val = DataLoader(Tones(200, 2, LogScale()), batch_size=50)
    model = PitchNet(24)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    summary = EpochSummary()
    for epoch in range(1, args.epochs + 1):
        for spec, pitch in loader:
            guess, weight = model(spec)
            loss = F.smooth_l1_loss(guess, pitch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            summary.add(loss, weight)
        with torch.no_grad():
            errors = [(model(s)[0] - p).abs().mean().item() for s, p in val]
        means = {k: round(v, 4) for k, v in summary.means().items()}
        print(f"epoch {epoch} {means} error {sum(errors) / len(errors):.4f}")


if __name__ == "__main__":
    main()
