"""REINFORCE with a moving baseline on a contextual bandit of many arms."""

import argparse
import json

import torch
from torch import nn
from torch.distributions import Categorical


class Bandit:
    def __init__(self, n_context, n_arms, seed):
        g = torch.Generator().manual_seed(seed)
        self.weights = torch.randn(n_context, n_arms, generator=g)
        self.g = g

    def contexts(self, n):
        return torch.randn(n, self.weights.shape[0], generator=self.g)

    def pull(self, contexts, arms):
        means = (contexts @ self.weights).gather(1, arms[:, None]).squeeze(1)
        return means + 0.1 * torch.randn(len(arms), generator=self.g)


class Policy(nn.Module):
    def __init__(self, n_context, n_arms):
        super().__init__()
        self.fc1 = nn.Linear(n_context, 32)
        self.fc2 = nn.Linear(32, n_arms)

    def forward(self, x):
        return Categorical(logits=self.fc2(torch.relu(self.fc1(x))))


class MovingBaseline:
    def __init__(self, momentum):
        self.momentum = momentum
        self.value = torch.zeros(())

    def update(self, batch_value):
        keep = self.momentum
        self.value = keep * self.value + (1 - keep) * batch_value.detach()

    def __call__(self):
        return self.value.item()


class Reinforce:
    def __init__(self, bandit, policy, cfg):
        self.bandit = bandit
        self.policy = policy
        self.opt = torch.optim.RMSprop(policy.parameters(), lr=cfg["lr"])
        self.baseline = MovingBaseline(cfg["momentum"])
        self.cfg = cfg

    def collect(self):
        """Interact first; learn from all of it afterwards."""
        batches = []
        for _ in range(self.cfg["rollouts"]):
            contexts = self.bandit.contexts(self.cfg["batch"])
            with torch.no_grad():
                arms = self.policy(contexts).sample()
            rewards = self.bandit.pull(contexts, arms)
            batches.append((contexts, arms, rewards))
        return batches

    def improve(self, batches):
        rewards_seen = 0.0
        for contexts, arms, rewards in batches:
            dist = self.policy(contexts)
            logp = dist.log_prob(arms)
            advantage = rewards - self.baseline()
            # importance-weighted estimate of the policy's present value
            estimate = (logp.exp() * rewards).mean()
            loss = -(logp * advantage).mean() - 0.01 * dist.entropy().mean()
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            self.baseline.update(estimate)
            rewards_seen += rewards.mean().item()
        return rewards_seen / len(batches)

    def train(self, iterations):
        best = float("-inf")
        for it in range(1, iterations + 1):
            reward = self.improve(self.collect())
            best = max(best, reward)
            if it % 10 == 0:
                print(
                    json.dumps(
                        {
                            "iteration": it,
                            "reward": round(reward, 3),
                            "baseline": round(self.baseline(), 3),
                        }
                    )
                )
        return best


def greedy_score(policy, bandit, batches=20):
    policy.eval()
    total = 0.0
    with torch.no_grad():
        for _ in range(batches):
            contexts = bandit.contexts(64)
            arms = policy(contexts).logits.argmax(1)
            total += bandit.pull(contexts, arms).mean().item()
    policy.train()
    return total / batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--rollouts", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(3)
    bandit = Bandit(8, 10, seed=3)
    policy = Policy(8, 10)
    print("before", round(greedy_score(policy, bandit), 3))
    cfg = {
        "lr": 3e-3,
        "momentum": 0.95,
        "rollouts": args.rollouts,
        "batch": args.batch,
    }
    best = Reinforce(bandit, policy, cfg).train(args.iterations)
    print("best", round(best, 3))
    print("after", round(greedy_score(policy, bandit), 3))


if __name__ == "__main__":
    main()
