"""PPO with GAE on a small continuous-control task (vectorised)."""

import argparse
import logging
import time

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

log = logging.getLogger("ppo")


class VectorPendulum:
    """Eight pendulums that are stepped together; reward for being upright."""

    def __init__(self, n_envs, seed):
        self.n_envs = n_envs
        self.rng = np.random.default_rng(seed)
        self.angle = np.zeros(n_envs)
        self.speed = np.zeros(n_envs)
        self.t = 0

    def observe(self):
        obs = np.stack(
            [np.cos(self.angle), np.sin(self.angle), self.speed / 8], axis=1
        )
        return torch.as_tensor(obs, dtype=torch.float32)

    def reset(self):
        self.angle = self.rng.uniform(-np.pi, np.pi, self.n_envs)
        self.speed = self.rng.uniform(-1, 1, self.n_envs)
        self.t = 0
        return self.observe()

    def step(self, action):
        torque = np.clip(action.numpy()[:, 0], -2, 2)
        reward = -(self.angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2)
        self.speed = np.clip(
            self.speed + 0.05 * (15 * np.sin(self.angle) + 3 * torque), -8, 8
        )
        self.angle = (self.angle + 0.05 * self.speed + np.pi) % (
            2 * np.pi
        ) - np.pi
        self.t += 1
        done = self.t >= 64
        obs = self.reset() if done else self.observe()
        return obs, torch.as_tensor(reward, dtype=torch.float32), done


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh())
        self.mean = nn.Linear(width, act_dim)
        self.value = nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def forward(self, obs):
        h = self.body(obs)
        dist = Normal(self.mean(h), self.log_std.exp())
        return dist, self.value(h).squeeze(-1)


class RolloutBuffer:
    def __init__(self):
        self.clear()

    def clear(self):
        self.obs, self.actions, self.logp = [], [], []
        self.rewards, self.values, self.dones = [], [], []

    def add(self, obs, action, logp, reward, value, done):
        self.obs.append(obs)
        self.actions.append(action)
        self.logp.append(logp)
        self.rewards.append(reward)
        self.values.append(value)
        self.dones.append(done)

    def advantages(self, last_value, gamma=0.97, lam=0.9):
        adv, out = torch.zeros_like(last_value), []
        for t in reversed(range(len(self.rewards))):
            mask = 0.0 if self.dones[t] else 1.0
            delta = self.rewards[t] + gamma * last_value * mask
            adv = delta - self.values[t] + gamma * lam * mask * adv
            last_value = self.values[t]
            out.append(adv)
        return torch.stack(out[::-1])


class PPO:
    def __init__(self, cfg):
        self.cfg = cfg
        self.env = VectorPendulum(cfg["n_envs"], cfg["seed"])
        self.net = ActorCritic(3, 1)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.buffer = RolloutBuffer()
        self.global_step = 0
        self.trace = {}
        self.obs = self.env.reset()

    @torch.no_grad()
    def rollout(self):
        self.buffer.clear()
        for _ in range(self.cfg["horizon"]):
            dist, value = self.net(self.obs)
            action = dist.sample()
            logp = dist.log_prob(action).sum(-1)
            obs, reward, done = self.env.step(action)
            self.buffer.add(self.obs, action, logp, reward, value, done)
            self.trace = {"value": value.mean().item(), "at": self.global_step}
            self.obs = obs
            self.global_step += 1
        return self.buffer.advantages(self.net(self.obs)[1])

    def update(self, adv):
        buf = self.buffer
        obs, actions = torch.cat(buf.obs), torch.cat(buf.actions)
        old_logp = torch.cat(buf.logp)
        returns = (adv + torch.stack(buf.values)).flatten()
        adv = adv.flatten()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        losses = []
        for _ in range(self.cfg["epochs"]):
            for idx in torch.randperm(len(obs)).split(self.cfg["minibatch"]):
                dist, value = self.net(obs[idx])
                logp = dist.log_prob(actions[idx]).sum(-1)
                ratio = (logp - old_logp[idx]).exp()
                clipped = ratio.clamp(0.8, 1.2)
                pg = -torch.min(ratio * adv[idx], clipped * adv[idx]).mean()
                vf = (value - returns[idx]).pow(2).mean()
                loss = pg + 0.5 * vf - 0.01 * dist.entropy().mean()
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()
                losses.append(loss.item())
        return float(np.mean(losses))

    def learn(self, iterations):
        for it in range(iterations):
            begun = time.perf_counter()
            adv = self.rollout()
            loss = self.update(adv)
            reward = torch.stack(self.buffer.rewards).mean().item()
            log.info("iteration %d took %.2f s", it, time.perf_counter() - begun)
            if it % 5 == 4:
                print(f"iter {it + 1:3d} reward {reward:7.3f} loss {loss:8.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    agent = PPO(
        {
            "n_envs": 8,
            "horizon": 64,
            "epochs": 2,
            "minibatch": 128,
            "lr": 3e-4,
            "seed": args.seed,
        }
    )
    agent.learn(args.iterations)
    print("environment steps:", agent.global_step * agent.env.n_envs)


if __name__ == "__main__":
    main()
