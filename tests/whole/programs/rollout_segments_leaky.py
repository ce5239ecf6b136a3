"""A2C on a small corridor; rollouts are cut into finished segments."""

import argparse

import torch
from torch import nn
from torch.distributions import Categorical

LENGTH = 9


class Corridor:
    def __init__(self, g):
        self.g = g
        self.reset()

    def reset(self):
        self.at = int(torch.randint(1, LENGTH - 1, (), generator=self.g))
        return self.observe()

    def observe(self):
        seen = torch.zeros(LENGTH)
        seen[self.at] = 1
        return seen

    def step(self, action):
        self.at += 1 if action else -1
        done = self.at in (0, LENGTH - 1)
        reward = float(self.at == LENGTH - 1)
        return (self.reset() if done else self.observe()), reward, done


class RolloutBuffer:
    """Observations, rewards and ends of one rollout of fixed size."""

    def __init__(self, size):
        self.size = size
        self.segments = []
        self.clear()

    def clear(self):
        self.obs = torch.zeros(self.size, LENGTH)
        self.rewards = torch.zeros(self.size)
        self.dones = torch.zeros(self.size)
        self.actions = torch.zeros(self.size, dtype=torch.long)
        self.begin = self.pos = 0

    def add(self, obs, action, reward, done):
        self.obs[self.pos] = obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.dones[self.pos] = float(done)
        self.pos += 1
        if done:
            self.segments.append(self.obs[self.begin : self.pos])
            self.begin = self.pos

    def returns(self, last, gamma):
        out = torch.zeros(self.size)
        for i in reversed(range(self.size)):
            last = self.rewards[i] + gamma * last * (1 - self.dones[i])
            out[i] = last
        return out


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def collect(env, obs, model, buffer):
    with torch.no_grad():
        while buffer.pos < buffer.size:
            action = int(model(obs)[0].sample())
            after, reward, done = env.step(action)
            buffer.add(obs, action, reward, done)
            obs = after
        last = model(obs)[1]
    return obs, last


def update(model, optimizer, buffer, last, gamma=0.97):
    returns = buffer.returns(last, gamma)
    dist, value = model(buffer.obs)
    gain = returns - value
    loss = -(dist.log_prob(buffer.actions) * gain.detach()).mean()
    loss = loss + gain.pow(2).mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--rollout", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(44)
    env = Corridor(torch.Generator().manual_seed(44))
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    buffer = RolloutBuffer(args.rollout)
    obs, total = env.reset(), 0.0
    for number in range(1, args.updates + 1):
        obs, last = collect(env, obs, model, buffer)
        update(model, optimizer, buffer, last)
        total += float(buffer.rewards.sum())
        buffer.clear()
        if number % 40 == 0:
            print(f"update {number}: {total:.0f} goals")
    print(f"{len(buffer.segments)} segments")


if __name__ == "__main__":
    main()
