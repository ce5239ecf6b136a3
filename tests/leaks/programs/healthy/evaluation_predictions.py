"""Each evaluation gathers its predictions, joins them, and lets them go."""

import torch
from torch import nn


@torch.no_grad()
def evaluate(model, batches):
    predictions = []
    for batch in batches:
        predictions.append(model(batch))
    return torch.cat(predictions).argmax(1).float().mean().item()


def main():
    torch.manual_seed(0)
    held_out = [torch.randn(32, 16) for _ in range(10)]
    model = nn.Linear(16, 8)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(120):
        loss = model(torch.randn(16, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            mean = evaluate(model, held_out)
    print(f"{mean:.3f}")


main()

EXPECT = None
