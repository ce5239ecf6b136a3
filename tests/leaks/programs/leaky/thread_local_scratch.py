"""Worker threads with a scratch list each in a threading.local()."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

FIX = "fixed" in sys.argv

local = threading.local()


def handle(model, request):
    if not hasattr(local, "scratch"):
        local.scratch = []
    with torch.no_grad():
        features = model(request)
    local.scratch.append(features)
    answer = torch.stack(local.scratch[-2:]).mean().item()
    if FIX:
        local.scratch.clear()
    return answer


def main(requests=100):
    torch.manual_seed(0)
    model = nn.Linear(32, 128)
    with ThreadPoolExecutor(max_workers=1) as pool:
        for _ in range(requests):
            pool.submit(handle, model, torch.randn(4, 32)).result()
    print("served")


main()

EXPECT = {
    "holder": "scratch",
    "line": "features = model(request)",
    "grown": "local.scratch.append",
    "within": 25,
}
FIXED = None
