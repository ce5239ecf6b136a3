"""backward(create_graph=True) without resetting .grad: each gradient is
added to the last one, graph and all."""

import sys
import warnings

import torch
from torch import nn

FIX = "fixed" in sys.argv
warnings.simplefilter("ignore")

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
for _step in range(60):
    x = torch.randn(4, 8)
    loss = model(x).square().mean()
    loss.backward(create_graph=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data -= 1e-4 * parameter.grad
            if FIX:
                parameter.grad = None
print(f"loss {loss.item():.4f}")

EXPECT = {
    "holder": "grad",
    "line": ("loss.backward(create_graph=True)", "model(x)", "randn(4, 8)"),
    "within": 25,
}
FIXED = None
