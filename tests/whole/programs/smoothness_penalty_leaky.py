"""Control policy with a penalty on jumps against a smoothed past output."""

import argparse
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Smoother:
    """A slow copy of what the policy has been doing."""

    rate: float
    past: torch.Tensor | None = None
    jumps: int = 0
    config: dict = field(default_factory=dict)

    def penalty(self, out):
        if self.past is None:
            self.past = out.detach().mean(0)
        delta = out.mean(0) - self.past
        self.jumps += int(delta.abs().max().item() > 1.0)
        self.past = self.past + self.rate * delta
        return delta.pow(2).sum()


class Policy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh())
        self.head = nn.Linear(32, n_act)

    def forward(self, obs):
        return self.head(self.trunk(obs))


class Expert:
    def __init__(self, n_obs, n_act, g):
        self.gain = torch.randn(n_obs, n_act, generator=g) / n_obs**0.5
        self.g = g

    def demonstrate(self, n):
        obs = torch.randn(n, self.gain.shape[0], generator=self.g)
        return obs, torch.tanh(obs @ self.gain)


def clone_behaviour(policy, expert, args):
    opt = torch.optim.SGD(policy.parameters(), lr=args.lr, momentum=0.8)
    smoother = Smoother(args.rate, config=vars(args))
    for step in range(1, args.steps + 1):
        obs, act = expert.demonstrate(args.batch)
        out = policy(obs)
        imitation = (out - act).pow(2).mean()
        penalty = smoother.penalty(out)
        opt.zero_grad()
        if args.separate:
            imitation.backward(retain_graph=True)
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        # the penalty looks at the present output only
        (args.weight * (out.mean(0) - smoother.past.detach()).pow(2).sum()).backward()
        opt.step()
        if step % 60 == 0:
            print(
                f"step {step} imitation {imitation.item():.4f} "
                f"penalty {penalty.item():.5f} jumps {smoother.jumps}"
            )
    return smoother


def evaluate(policy, expert):
    policy.eval()
    with torch.no_grad():
        obs, act = expert.demonstrate(500)
        return (policy(obs) - act).abs().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--together", dest="separate", action="store_false")
    args = parser.parse_args()
    torch.manual_seed(81)
    g = torch.Generator().manual_seed(81)
    policy, expert = Policy(10, 4), Expert(10, 4, g)
    print(f"error before {evaluate(policy, expert):.3f}")
    smoother = clone_behaviour(policy, expert, args)
    print(f"error after {evaluate(policy, expert):.3f}")
    print("smoothed", [round(v, 3) for v in smoother.past.tolist()])


if __name__ == "__main__":
    main()
