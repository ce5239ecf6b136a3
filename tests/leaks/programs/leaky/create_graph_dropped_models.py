"""Meta-learning: a clone per task, differentiated with create_graph=True
and dropped. Parameter and gradient hold each other in C++."""

import copy
import sys
import warnings

import torch
from torch import nn

FIX = "fixed" in sys.argv
warnings.simplefilter("ignore")


def adapt(model, x, y):
    """Loss of a clone after one inner step."""
    learner = copy.deepcopy(model)
    loss = nn.functional.mse_loss(learner(x), y)
    if FIX:
        grads = torch.autograd.grad(loss, list(learner.parameters()))
    else:
        loss.backward(create_graph=True)
        grads = [parameter.grad for parameter in learner.parameters()]
    return sum(grad.square().sum() for grad in grads).item()


def main(steps=50):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        x = torch.randn(8, 32)
        norm = adapt(model, x, x.flip(1))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    print(f"{norm:.4f}")


main()

EXPECT = {
    "verdict": ("native", "cycle"),
    "line": (
        "copy.deepcopy(model)",
        "loss.backward(create_graph=True)",
        "mse_loss",
    ),
    "within": 25,
}
FIXED = None
