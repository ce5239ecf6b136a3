"""An asyncio server; tasks wait for an acknowledgement that never comes."""

import asyncio
import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv

pending = set()


async def respond(model, x, acknowledged):
    with torch.no_grad():
        output = model(x)
    await acknowledged.wait()
    return output.sum().item()


async def main(requests=80):
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    for _ in range(requests):
        acknowledged = asyncio.Event()
        task = asyncio.create_task(
            respond(model, torch.randn(2, 64), acknowledged)
        )
        pending.add(task)
        task.add_done_callback(pending.discard)
        if FIX:
            acknowledged.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    print(f"{len(pending)} pending")
    for task in tuple(pending):
        task.cancel()


asyncio.run(main())

EXPECT = {
    "holder": "pending",
    "line": ("output = model(x)", "torch.randn(2, 64)"),
    "grown": "pending.add(task)",
    "within": 25,
}
FIXED = None
