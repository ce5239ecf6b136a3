# %% [markdown]
# # Two moons with a small network
# Exported from a notebook: everything lives at the top level.

# %%
import math

import torch
import torch.nn.functional as F

torch.manual_seed(42)
torch.set_printoptions(precision=4)

# %%
n = 400
t = torch.rand(n) * math.pi
which = torch.arange(n) % 2
x = torch.stack([t.cos(), t.sin()], dim=1)
x[which == 1] = torch.tensor([1.0, 0.5]) - x[which == 1]
x += 0.1 * torch.randn(n, 2)
perm = torch.randperm(n)
x, which = x[perm], which[perm]
x_train, y_train = x[:300], which[:300]
x_val, y_val = x[300:], which[300:]
print(x_train.shape, x_val.shape, y_train.float().mean())

# %%
model = torch.nn.Sequential(
    torch.nn.Linear(2, 24),
    torch.nn.SiLU(),
    torch.nn.Linear(24, 24),
    torch.nn.SiLU(),
    torch.nn.Linear(24, 2),
)
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
sum(p.numel() for p in model.parameters())

# %%
def accuracy(features, labels):
    with torch.no_grad():
        return (model(features).argmax(1) == labels).float().mean().item()


accuracy(x_val, y_val)

# %%
batch_size = 30
epochs = 20
outs = None
for epoch in range(epochs):
    order = torch.randperm(len(x_train))
    for i in range(0, len(order), batch_size):
        idx = order[i : i + batch_size]
        logits = model(x_train[idx])
        loss = F.cross_entropy(logits, y_train[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        outs = (logits.detach(), loss.item())
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:2d} val {accuracy(x_val, y_val):.3f}")

# %%
last_logits, last_loss = outs
print("last loss", round(float(last_loss), 4))
print("confidence", last_logits.softmax(1).max(1).values.mean().item())

# %%
# Decision boundary, coarse, as text
grid = torch.linspace(-1.2, 2.2, 30)
rows = []
for yv in torch.linspace(1.3, -0.9, 9):
    points = torch.stack([grid, torch.full_like(grid, yv)], dim=1)
    with torch.no_grad():
        side = model(points).argmax(1)
    rows.append("".join(".#"[s] for s in side.tolist()))
print("\n".join(rows))
del rows, points

# %%
# A second run with label smoothing, as one does
for epoch in range(5):
    order = torch.randperm(len(x_train))
    for i in range(0, len(order), batch_size):
        idx = order[i : i + batch_size]
        loss = F.cross_entropy(
            model(x_train[idx]), y_train[idx], label_smoothing=0.1
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
print("final", accuracy(x_val, y_val))
