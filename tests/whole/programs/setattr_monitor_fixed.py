"""Policy distillation with a monitor that notes gradients by step name."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class GradientMonitor:
    """Notes the gradient of one layer, to see whether it turns around."""

    def __init__(self, layer, every):
        self.layer, self.every = layer, every
        self.step = 0
        self.cosine = float("nan")

    def previous(self):
        return getattr(self, "grad_last", None)

    def note(self):
        self.step += 1
        if self.step % self.every:
            return
        grad = self.layer.weight.grad.flatten().clone()
        before = self.previous()
        if before is not None:
            self.cosine = F.cosine_similarity(grad, before, dim=0).item()
        self.grad_last = grad


class Student(nn.Module):
    def __init__(self, n_obs, n_act, width=24):
        super().__init__()
        self.inp = nn.Linear(n_obs, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, n_act)

    def forward(self, obs):
        h = torch.relu(self.inp(obs))
        h = h + torch.relu(self.mid(h))
        return self.out(h)


class Simulator:
    """Points on a circle that are pushed around by the chosen action."""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.angle = torch.rand(n, generator=self.g) * 2 * math.pi
        self.n_act = 5

    def observe(self):
        k = torch.arange(1, 4)
        return torch.cat(
            [(self.angle[:, None] * k).sin(), (self.angle[:, None] * k).cos()], 1
        )

    def act(self, action):
        push = (action.float() - 2) * 0.3
        wobble = 0.1 * torch.randn(len(action), generator=self.g)
        self.angle = (self.angle + push + wobble) % (2 * math.pi)


def teacher_action(obs):
    """Where the teacher would push: towards angle zero."""
    angle = torch.atan2(obs[:, 0], obs[:, 3])
    return (2 - (angle / 0.8).clamp(-2, 2)).round().long()


def dagger_round(student, sim, args):
    """Roll out the student, label with the teacher."""
    seen, labels = [], []
    with torch.no_grad():
        for _ in range(args.horizon):
            obs = sim.observe()
            seen.append(obs)
            labels.append(teacher_action(obs))
            sim.act(student(obs).argmax(1))
    return torch.cat(seen), torch.cat(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--horizon", type=int, default=20)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--monitor-every", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(111)
    sim = Simulator(16, seed=111)
    student = Student(6, sim.n_act)
    opt = torch.optim.RAdam(student.parameters(), lr=5e-3)
    monitor = GradientMonitor(student.mid, args.monitor_every)
    for number in range(1, args.rounds + 1):
        obs, labels = dagger_round(student, sim, args)
        for idx in torch.randperm(len(obs)).chunk(args.updates):
            loss = F.cross_entropy(student(obs[idx]), labels[idx])
            opt.zero_grad()
            loss.backward()
            monitor.note()
            opt.step()
        if number % 5 == 0:
            agree = (student(obs).argmax(1) == labels).float().mean().item()
            print(
                f"round {number} loss {loss.item():.4f} agree {agree:.3f} "
                f"cosine {monitor.cosine:+.3f}"
            )


if __name__ == "__main__":
    main()
