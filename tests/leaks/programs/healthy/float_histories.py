"""Long histories of plain numbers: norms, losses, learning rates."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
history = {"norm": [], "loss": [], "lr": []}
for _step in range(100):
    loss = model(torch.randn(8, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    history["norm"].append(norm.item())
    history["loss"].append(loss.item())
    history["lr"].append(schedule.get_last_lr()[0])
print({name: len(values) for name, values in history.items()})

EXPECT = None
