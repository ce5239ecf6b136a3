"""Training that rewinds to a checkpoint whenever its loss jumps."""

import argparse
import copy
import io

import torch
import torch.nn.functional as F
from torch import nn


class Checkpoints:
    """The newest checkpoint in memory, as bytes and as tensors."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.bytes = b""
        self.saved = []
        self.rewinds = 0

    def save(self, step):
        buffer = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "step": step}, buffer)
        self.bytes = buffer.getvalue()
        self.saved.append(copy.deepcopy(self.model.state_dict()))

    def rewind(self):
        state = torch.load(io.BytesIO(self.bytes))
        self.model.load_state_dict(state["model"])
        self.rewinds += 1
        return state["step"]


def noisy_batch(step):
    x = torch.randn(24, 10)
    y = x[:, :3].sum(1, keepdim=True).sin()
    if step % 37 == 36:  # a batch with broken labels
        y = y * 50
    return x, y


def train(model, optimizer, checkpoints, steps):
    mean, step, done = 1.0, 0, 0
    while done < steps:
        x, y = noisy_batch(done)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        step += 1
        if loss.item() > 20 * mean:
            step = checkpoints.rewind()
            continue
        mean = 0.9 * mean + 0.1 * loss.item()
        if step % 5 == 0:
            checkpoints.save(step)
    return mean


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=320)
    args = parser.parse_args()
    torch.manual_seed(21)
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    checkpoints = Checkpoints(model, optimizer)
    checkpoints.save(0)
    mean = train(model, optimizer, checkpoints, args.steps)
    print(f"mean loss {mean:.4f}, {checkpoints.rewinds} rewinds")


if __name__ == "__main__":
    main()
