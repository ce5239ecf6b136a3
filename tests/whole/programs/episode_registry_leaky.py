"""Actor-critic on a grid; episodes register themselves for the statistics."""

import argparse

import torch
from torch import nn
from torch.distributions import Categorical

MOVES = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]])


class Grid:
    def __init__(self, size, seed):
        self.size = size
        self.g = torch.Generator().manual_seed(seed)

    def reset(self):
        self.pos = torch.randint(self.size, (2,), generator=self.g)
        self.goal = torch.randint(self.size, (2,), generator=self.g)
        self.t = 0
        return self.observe()

    def observe(self):
        return torch.cat([self.pos, self.goal]).float() / self.size

    def step(self, action):
        self.pos = (self.pos + MOVES[action]).clamp(0, self.size - 1)
        self.t += 1
        found = bool((self.pos == self.goal).all())
        return self.observe(), 1.0 if found else -0.02, found or self.t >= 15


class Episode:
    """One game from its first observation to its end."""

    all = []

    def __init__(self):
        self.logp, self.values, self.rewards = [], [], []
        self.entropy = 0.0
        Episode.all.append(self)

    def add(self, dist, action, value, reward):
        self.logp.append(dist.log_prob(action))
        self.values.append(value)
        self.rewards.append(reward)
        self.entropy = self.entropy + dist.entropy()

    def returns(self, gamma):
        out, running = [], 0.0
        for reward in reversed(self.rewards):
            running = reward + gamma * running
            out.append(running)
        return torch.tensor(out[::-1])

    def loss(self, gamma):
        returns = self.returns(gamma)
        values = torch.stack(self.values)
        advantage = returns - values.detach()
        policy = -(torch.stack(self.logp) * advantage).mean()
        critic = (values - returns).pow(2).mean()
        return policy + 0.5 * critic - 0.01 * self.entropy / len(self.rewards)

    @classmethod
    def mean_return(cls, n):
        recent = list(cls.all)[-n:]
        return sum(sum(e.rewards) for e in recent) / len(recent)


class Agent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh())
        self.pi = nn.Linear(width, 4)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def play(env, agent):
    episode, obs, done = Episode(), env.reset(), False
    while not done:
        dist, value = agent(obs)
        action = dist.sample()
        obs, reward, done = env.step(action.item())
        episode.add(dist, action, value, reward)
    return episode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=80)
    parser.add_argument("--games-per-update", type=int, default=2)
    parser.add_argument("--gamma", type=float, default=0.95)
    args = parser.parse_args()
    torch.manual_seed(310)
    env, agent = Grid(4, seed=310), Agent(32)
    opt = torch.optim.RMSprop(agent.parameters(), lr=3e-3)
    for update in range(1, args.updates + 1):
        games = [play(env, agent) for _ in range(args.games_per_update)]
        loss = sum(game.loss(args.gamma) for game in games) / len(games)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
        opt.step()
        if update % 20 == 0:
            mean = Episode.mean_return(20)
            print(f"update {update} mean return {mean:+.3f}")


if __name__ == "__main__":
    main()
