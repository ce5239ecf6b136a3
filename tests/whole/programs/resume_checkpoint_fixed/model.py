"""The denoiser and its data."""

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.encode = nn.Linear(dim, width)
        self.decode = nn.Linear(width, dim)

    def forward(self, x):
        return self.decode(torch.tanh(self.encode(x)))


class Signals:
    """Random sums of sines, with and without noise."""

    def __init__(self, dim, seed):
        self.dim = dim
        self.g = torch.Generator().manual_seed(seed)

    def sample(self, n):
        t = torch.linspace(0, 6.28, self.dim)
        freq = torch.randint(1, 4, (n, 1), generator=self.g)
        phase = torch.rand(n, 1, generator=self.g) * 6.28
        clean = torch.sin(freq * t + phase)
        noise = 0.4 * torch.randn(n, self.dim, generator=self.g)
        return clean + noise, clean

    def state_dict(self):
        return {"rng": self.g.get_state()}

    def load_state_dict(self, state):
        self.g.set_state(state["rng"])
