"""ResNet-18, the data and the training loop that all eight leaks share."""

import argparse

import torch
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
    """ResNet-18 for 32x32 images; width 64 is the original."""

    def __init__(self, width=64, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._layer(width, width, 1)
        self.layer2 = self._layer(width, 2 * width, 2)
        self.layer3 = self._layer(2 * width, 4 * width, 2)
        self.layer4 = self._layer(4 * width, 8 * width, 2)
        self.fc = nn.Linear(8 * width, num_classes)

    def _layer(self, in_planes, planes, stride):
        return nn.Sequential(
            BasicBlock(in_planes, planes, stride),
            BasicBlock(planes, planes, 1),
        )

    def features(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))

    def forward(self, x):
        return self.fc(self.features(x))


#: So many of the 1,797 digits are kept back to tell what was learned.
HELD_OUT = 297


def load_data(batch_size):
    """Handwritten digits, 8x8 and grey, made 32x32 with three channels: what
    is trained on, and what is held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    images = F.interpolate(images.unsqueeze(1), size=(32, 32))
    images = images.expand(-1, 3, -1, -1).contiguous()
    labels = torch.tensor(digits.target)
    train = TensorDataset(images[:-HELD_OUT], labels[:-HELD_OUT])
    held_out = TensorDataset(images[-HELD_OUT:], labels[-HELD_OUT:])
    return (
        DataLoader(train, batch_size, shuffle=True, drop_last=True),
        DataLoader(held_out, batch_size),
    )


class Trainer:
    """Plain training; a leak and its fix override what they change."""

    def __init__(self, options):
        self.options = options
        self.device = torch.device(options.device)
        self.model = ResNet18(options.width).to(self.device)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.02, momentum=0.9
        )
        self.loader, self.held_out = load_data(options.batch_size)

    def train_step(self, images, labels):
        """One step; returns the loss as a number."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def finish(self):
        """What is done after training."""

    def batches(self):
        seen = 0
        while True:
            for images, labels in self.loader:
                if seen == self.options.steps:
                    return
                yield images.to(self.device), labels.to(self.device)
                seen += 1

    @torch.no_grad()
    def accuracy(self):
        """Share of the held-out digits that are recognised.

        By a model of its own with the same weights: a leak's hooks are not
        in it.
        """
        model = ResNet18(self.options.width).to(self.device)
        model.load_state_dict(self.model.state_dict())
        model.eval()
        right = 0
        for images, labels in self.held_out:
            said = model(images.to(self.device)).argmax(1).cpu()
            right += int((said == labels).sum())
        return right / HELD_OUT

    def fit(self):
        self.model.train()
        for step, (images, labels) in enumerate(self.batches(), start=1):
            loss = self.train_step(images, labels)
            if step == 1 or step % 10 == 0:
                print(f"step {step:4d} loss {loss:.3f}", flush=True)
        self.finish()
        print(f"validation accuracy {self.accuracy():.1%}", flush=True)


def parse_args(arguments=None):
    parser = argparse.ArgumentParser(description="ResNet-18 on digits")
    parser.add_argument(
        "--variant", choices=("leaky", "fixed"), default="leaky"
    )
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args(arguments)


def run(leaky, fixed, arguments=None):
    """Trains with one of two Trainer classes, as the command line says."""
    options = parse_args(arguments)
    torch.manual_seed(0)
    trainer = (leaky if options.variant == "leaky" else fixed)(options)
    trainer.fit()
    return trainer
