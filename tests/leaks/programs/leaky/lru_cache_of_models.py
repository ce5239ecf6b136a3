"""lru_cache(maxsize=128) of models that the memory cannot hold."""

import functools
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


@functools.lru_cache(maxsize=4 if FIX else 128)
def load_model(customer):
    torch.manual_seed(customer)
    return nn.Linear(512, 512)


with torch.no_grad():
    for customer in range(60):
        model = load_model(customer)
        answer = model(torch.randn(1, 512)).mean().item()
print(f"{answer:.4f}")

OPTIONS = ["--memory-limit", "80MiB"]
EXPECT = {
    "holder": "load_model",
    "line": "nn.Linear(512, 512)",
    "within": 25,
}
FIXED = {"at_most": "cache"}
