"""Distils a wide teacher into a narrow student by matching features."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def conv_net(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * width, 5),
    )


def blobs(n, g):
    """A bright spot whose position tells the class."""
    y = torch.randint(5, (n,), generator=g)
    x = 0.3 * torch.randn(n, 1, 10, 10, generator=g)
    for i, label in enumerate(y.tolist()):
        x[i, 0, 2 * label : 2 * label + 2, 2 * label : 2 * label + 2] += 1.5
    return x, y


class FeatureTap:
    """Where a layer looked in the last forward: its attention map."""

    def __init__(self, layer):
        self.value = None
        self.handle = layer.register_forward_hook(self.hook)

    def hook(self, module, args, output):
        self.value = F.normalize(output.pow(2).mean(1).flatten(1))

    def close(self):
        self.handle.remove()


class Distiller:
    def __init__(self, teacher, student, temperature, feature_weight):
        self.teacher, self.student = teacher.eval(), student
        self.temperature = temperature
        self.feature_weight = feature_weight
        self.opt = torch.optim.Adam(student.parameters(), lr=3e-3)

    def losses(self, x, y):
        theirs = FeatureTap(self.teacher[4])
        ours = FeatureTap(self.student[4])
        with torch.no_grad():
            goal = self.teacher(x)
        logits = self.student(x)
        soft = F.kl_div(
            F.log_softmax(logits / self.temperature, dim=1),
            F.softmax(goal / self.temperature, dim=1),
            reduction="batchmean",
        )
        feature = F.mse_loss(ours.value, theirs.value)
        hard = F.cross_entropy(logits, y)
        theirs.close()
        return hard + soft + self.feature_weight * feature

    def step(self, x, y):
        loss = self.losses(x, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def pretrain(model, g, steps):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        x, y = blobs(32, g)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


@torch.no_grad()
def accuracy(model, seed, batches=4):
    g = torch.Generator().manual_seed(seed)
    right = 0
    for _ in range(batches):
        x, y = blobs(50, g)
        right += (model(x).argmax(1) == y).sum().item()
    return right / (50 * batches)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher-steps", type=int, default=40)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--temperature", type=float, default=2.0)
    args = parser.parse_args()
    torch.manual_seed(14)
    g = torch.Generator().manual_seed(14)
    teacher, student = conv_net(16), conv_net(6)
    pretrain(teacher, g, args.teacher_steps)
    print(f"teacher {accuracy(teacher, 99):.3f}")
    distiller = Distiller(teacher, student, args.temperature, 0.5)
    for step in range(1, args.steps + 1):
        loss = distiller.step(*blobs(24, g))
        if step % 30 == 0:
            print(f"step {step} loss {loss:.4f}")
    print(f"student {accuracy(student, 99):.3f}")


if __name__ == "__main__":
    main()
