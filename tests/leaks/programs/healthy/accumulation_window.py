"""A backward per micro-batch; each one's outputs wait for the end of a long
window, when one statistic is made of all of them."""

import torch
from torch import nn


def main(windows=5, length=25):
    torch.manual_seed(0)
    model = nn.Linear(16, 16)
    for _ in range(windows):
        outputs = []
        for _ in range(length):
            output = model(torch.randn(8, 16))
            (output.square().mean() / length).backward()
            outputs.append(output.detach())
        spread = torch.cat(outputs).std()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad / (1 + spread)
                parameter.grad = None
    print(f"{spread.item():.4f}")


main()

EXPECT = {"at_most": "accumulation"}
