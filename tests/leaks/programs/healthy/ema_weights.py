"""An exponential moving average of the weights, new tensors each step."""

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach() for n, p in model.named_parameters()}

    def update(self, model):
        self.shadow = {
            name: self.decay * self.shadow[name]
            + (1 - self.decay) * parameter.detach()
            for name, parameter in model.named_parameters()
        }


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters())
ema = EMA(model)
for _step in range(80):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(model)
print(f"loss {loss.item():.4f}")

EXPECT = None
