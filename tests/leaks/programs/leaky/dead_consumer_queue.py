"""A queue to a thread that died; the training loop keeps putting."""

import queue
import sys
import threading

import torch
from torch import nn

FIX = "fixed" in sys.argv

samples = queue.Queue()
written = []


def writer():
    while True:
        sample = samples.get()
        if sample is None or (len(written) == 3 and not FIX):
            return  # as if it had failed
        written.append(sample.mean().item())


torch.manual_seed(0)
thread = threading.Thread(target=writer, daemon=True)
thread.start()
model = nn.Linear(16, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(60):
    output = model(torch.randn(4, 16))
    optimizer.zero_grad()
    output.square().mean().backward()
    optimizer.step()
    preview = output.detach().clone()
    samples.put(preview)
    if FIX:
        while samples.qsize() > 2:
            pass
samples.put(None)
print(f"{len(written)} samples written")

EXPECT = {
    "holder": "samples.queue",
    "line": "preview = output.detach().clone()",
    "grown": "samples.put(preview)",
    "within": 15,
}
FIXED = None
