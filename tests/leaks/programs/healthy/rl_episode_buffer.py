"""PPO-like: a rollout buffer of varying length is used and cleared; each
rollout is followed by several optimizer steps."""

import random

import torch
from torch import nn
from torch.distributions import Categorical


def main(rollouts=12):
    random.seed(0)
    torch.manual_seed(0)
    policy = nn.Linear(6, 3)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    states, actions, log_probs = [], [], []
    for _ in range(rollouts):
        for _ in range(random.randint(10, 30)):
            state = torch.randn(6)
            with torch.no_grad():
                choice = Categorical(logits=policy(state))
                action = choice.sample()
            states.append(state)
            actions.append(action)
            log_probs.append(choice.log_prob(action))
        old = torch.stack(log_probs)
        for _ in range(6):
            now = Categorical(logits=policy(torch.stack(states)))
            new = now.log_prob(torch.stack(actions))
            loss = -(new - old).exp().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        states.clear()
        actions.clear()
        log_probs.clear()
    print(f"loss {loss.item():.4f}")


main()

EXPECT = {"at_most": "accumulation"}
