"""Train ResNet-18 on scikit-learn's digits, 32x32, on CPU or GPU.

    python examples/resnet_digits.py --variant leaky --steps 40

A forward hook on layer4 captures activations for a look at them after
training. --variant leaky keeps all of them; --variant fixed keeps the last
one, on the CPU, and removes the hook when training is done.
"""

import argparse
from collections import deque

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(
            in_planes, planes, 3, stride=stride, padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Identity()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 for 32x32 images: a 3x3 stem, and no pooling behind it."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = self._layer(64, 64, stride=1)
        self.layer2 = self._layer(64, 128, stride=2)
        self.layer3 = self._layer(128, 256, stride=2)
        self.layer4 = self._layer(256, 512, stride=2)
        self.fc = nn.Linear(512, num_classes)

    def _layer(self, in_planes, planes, stride):
        return nn.Sequential(
            BasicBlock(in_planes, planes, stride),
            BasicBlock(planes, planes, 1),
        )

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


def load_data(batch_size):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    images = F.interpolate(images.unsqueeze(1), size=(32, 32))
    dataset = TensorDataset(
        images.expand(-1, 3, -1, -1).contiguous(), torch.tensor(digits.target)
    )
    return DataLoader(
        dataset, batch_size=batch_size, shuffle=True, drop_last=True
    )


activation_store = []


def capture_all(module, inputs, output):
    activation_store.append(output.detach())


last_activation = deque(maxlen=1)


def capture_last(module, inputs, output):
    last_activation.append(output.detach().cpu())


def batches(loader, epochs, steps):
    """Pairs (epoch, batch), at most steps of them."""
    seen = 0
    for epoch in range(epochs):
        for batch in loader:
            if steps is not None and seen >= steps:
                return
            yield epoch, batch
            seen += 1


def train(model, loader, device, epochs, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model.train()
    for step, (epoch, (images, labels)) in enumerate(
        batches(loader, epochs, steps), start=1
    ):
        optimizer.zero_grad()
        outputs = model(images.to(device))
        loss = F.cross_entropy(outputs, labels.to(device))
        loss.backward()
        optimizer.step()
        if step == 1 or step % 10 == 0:
            print(f"epoch {epoch + 1} step {step:4d} loss {loss.item():.3f}")


def parse_args():
    parser = argparse.ArgumentParser(
        description="ResNet-18 on scikit-learn's digits"
    )
    parser.add_argument(
        "--variant", choices=("leaky", "fixed"), default="leaky"
    )
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    loader = load_data(args.batch_size)
    model = ResNet18().to(args.device)

    leaky = args.variant == "leaky"
    captured = activation_store if leaky else last_activation
    hook = capture_all if leaky else capture_last
    handle = model.layer4.register_forward_hook(hook)
    train(model, loader, args.device, args.epochs, args.steps)
    if not leaky:
        handle.remove()

    active = torch.stack([(x > 0).float().mean() for x in captured])
    print(f"active units of layer4, last batch: {active[-1]:.1%}")


if __name__ == "__main__":
    main()
