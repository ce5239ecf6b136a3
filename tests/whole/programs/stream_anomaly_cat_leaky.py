"""Online anomaly detection on sensor windows; no training happens here."""

import argparse
import collections
import math
import sys
import time

import torch
from torch import nn


class Sensor:
    """Correlated channels; from time to time one of them drifts off."""

    def __init__(self, channels, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(3, channels, generator=self.g)
        self.t = 0

    def read(self, n):
        time_ = torch.arange(self.t, self.t + n, dtype=torch.float32)
        self.t += n
        waves = torch.stack(
            [torch.sin(time_ / period) for period in (3, 7, 19)], dim=1
        )
        x = waves @ self.mix
        x = x + 0.1 * torch.randn(x.shape, generator=self.g)
        if self.t % (37 * n) == 0:
            x[:, 0] += 4.0
        return x


class Reconstructor(nn.Module):
    """A linear autoencoder fitted by PCA in closed form."""

    def __init__(self, channels, rank):
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("basis", torch.zeros(channels, rank))

    @torch.no_grad()
    def fit(self, x):
        self.mean.copy_(x.mean(0))
        _, _, v = torch.linalg.svd(x - self.mean, full_matrices=False)
        self.basis.copy_(v[: self.basis.shape[1]].T)
        return self

    def forward(self, x):
        centered = x - self.mean
        return centered @ self.basis @ self.basis.T - centered


class Detector:
    """Flags windows whose error is above a quantile of the recent ones."""

    def __init__(self, model, quantile, memory):
        self.model, self.quantile, self.memory = model.eval(), quantile, memory
        self.errors = torch.empty(0)
        self.alarms = collections.deque(maxlen=50)
        self.count = 0

    def threshold(self):
        recent = self.errors[-self.memory :]
        if len(recent) < 20:
            return math.inf
        return torch.quantile(recent, self.quantile).item() * 1.5

    @torch.inference_mode()
    def process(self, window):
        error = self.model(window).pow(2).mean(dim=1)
        level = self.threshold()
        self.count += 1
        alarm = error.mean().item() > level
        if alarm:
            self.alarms.append((self.count, error.mean().item()))
        self.errors = torch.cat([self.errors, error])
        return alarm


def serve(sensor, detector, args):
    begun = time.monotonic()
    alarms = 0
    for number in range(1, args.windows + 1):
        alarms += detector.process(sensor.read(args.size))
        if number % 200 == 0:
            print(f"{number} windows, {alarms} alarms")
            took = time.monotonic() - begun
            print(f"{took:.1f} s", file=sys.stderr)
    return alarms


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--memory", type=int, default=4096)
    args = parser.parse_args()
    torch.manual_seed(330)
    sensor = Sensor(args.channels, seed=330)
    model = Reconstructor(args.channels, rank=3).fit(sensor.read(2048))
    detector = Detector(model, 0.99, args.memory)
    serve(sensor, detector, args)
    if detector.alarms:
        print("last alarm in window", detector.alarms[-1][0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
