"""A writer thread with a bounded queue gets .item() values and arrays."""

import queue
import threading

import torch
from torch import nn


class Writer:
    def __init__(self):
        self.queue = queue.Queue(maxsize=10)
        self.count = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while self.queue.get() is not None:
            self.count += 1

    def add(self, tag, value):
        self.queue.put((tag, value))

    def close(self):
        self.queue.put(None)
        self.thread.join()


def main():
    torch.manual_seed(0)
    writer = Writer()
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(80):
        out = model(torch.randn(4, 16))
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add("loss", loss.item())
        writer.add("output", out.detach().numpy().copy())
    writer.close()
    print(f"{writer.count} events")


main()

EXPECT = None
