# %%
import torch

torch.manual_seed(3)

# %%
xs = torch.rand(256, 1) * 6 - 3
ys = (xs * 2).sin() + 0.1 * torch.randn_like(xs)

# %%
net = torch.nn.Sequential(
    torch.nn.Linear(1, 32), torch.nn.GELU(), torch.nn.Linear(32, 1)
)
adam = torch.optim.Adam(net.parameters(), lr=1e-2)

# %%
print(preview.shape)  # noqa: F821 - of a cell that is gone

# %%
residuals = {}
step = 0


def one_epoch(size=32):
    global step
    for part in torch.randperm(256).split(size):
        guess = net(xs[part])
        error = guess - ys[part]
        loss = error.pow(2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        step += 1
        residuals[step] = error


# %%
for epoch in range(20):
    one_epoch()
print("after 20 epochs", step)

# %%
for group in adam.param_groups:
    group["lr"] = 3e-3

# %%
for epoch in range(10):
    one_epoch()

# %%
worst = max(float(e.detach().abs().max()) for e in residuals.values())
final_worst = round(worst, 3)
print("worst residual of all", final_worst > 0)
