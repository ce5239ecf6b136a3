"""REINFORCE; the lists of the finished episode are not emptied."""

import sys

import torch
from torch import nn
from torch.distributions import Categorical

FIX = "fixed" in sys.argv


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Linear(4, 2)
        self.saved_log_probs = []
        self.rewards = []

    def act(self, state):
        choice = Categorical(logits=self.layers(state))
        action = choice.sample()
        self.saved_log_probs.append(choice.log_prob(action))
        return action.item()


def finish_episode(policy, optimizer, start):
    log_probs = policy.saved_log_probs[start:]
    loss = -torch.stack(log_probs).sum() * sum(policy.rewards[start:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if FIX:
        policy.saved_log_probs.clear()
        policy.rewards.clear()


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
for _episode in range(40):
    first = len(policy.rewards)
    for _ in range(12):
        action = policy.act(torch.randn(4))
        policy.rewards.append(1.0 if action else -0.5)
    finish_episode(policy, optimizer, first)
print(f"{len(policy.rewards)} rewards")

EXPECT = {
    "holder": "policy.saved_log_probs",
    "line": "choice.log_prob(action)",
    "grown": "self.saved_log_probs.append",
    "within": 15,
}
FIXED = {"at_most": "accumulation"}
