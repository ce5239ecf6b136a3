"""A writer thread takes metrics from a queue, so that training never waits."""

import argparse
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn


class Writer(threading.Thread):
    def __init__(self):
        super().__init__(name="writer", daemon=True)
        self.inbox = queue.Queue(maxsize=4)
        self.rows = {}
        self.means = []

    def put(self, step, values):
        self.inbox.put((step, values))

    def run(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            step, values = item
            spread = values.std(0)
            self.rows = {step: spread}
            self.means.append(float(spread.mean()))
            del item, values, spread

    def finish(self):
        self.inbox.put(None)
        self.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    writer = Writer()
    writer.start()
    for step in range(args.steps):
        x = torch.randn(32, 8)
        y = x[:, :4].argmax(1)
        hidden = model[1](model[0](x))
        loss = F.cross_entropy(model[2](hidden), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.put(step, hidden.detach())
    writer.finish()
    print(f"{len(writer.means)} rows, mean {sum(writer.means) > 0}")


if __name__ == "__main__":
    main()
