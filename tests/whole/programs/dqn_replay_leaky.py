"""DQN with a bounded replay buffer and a target network on a corridor."""

import argparse
import random
from collections import deque, namedtuple

import torch
import torch.nn.functional as F
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state done")


class Corridor:
    """Walk right to the goal; one cell in the middle is slippery."""

    length = 12

    def reset(self):
        self.pos, self.t = 0, 0
        return self._obs()

    def _obs(self):
        return F.one_hot(torch.tensor(self.pos), self.length).float()

    def step(self, action):
        self.t += 1
        move = 1 if action == 1 else -1
        if self.pos == self.length // 2 and random.random() < 0.4:
            move = -move
        self.pos = max(0, min(self.length - 1, self.pos + move))
        done = self.pos == self.length - 1 or self.t >= 40
        reward = 1.0 if self.pos == self.length - 1 else -0.01
        return self._obs(), reward, done


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        batch = Transition(*zip(*random.sample(self.memory, n)))
        return (
            torch.stack(batch.state),
            torch.tensor(batch.action),
            torch.tensor(batch.reward),
            torch.stack(batch.next_state),
            torch.tensor(batch.done, dtype=torch.float32),
        )

    def __len__(self):
        return len(self.memory)


class QNet(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_obs, 48), nn.ReLU(), nn.Linear(48, n_actions)
        )

    def forward(self, x):
        return self.layers(x)


class Agent:
    def __init__(self, env, cfg):
        self.env, self.cfg = env, cfg
        self.online = QNet(env.length, 2)
        self.target = QNet(env.length, 2)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.AdamW(self.online.parameters(), lr=cfg["lr"])
        self.replay = ReplayBuffer(cfg["capacity"])
        self.steps = 0
        self.returns = deque(maxlen=20)
        self.td_history = []

    def epsilon(self):
        decay = min(1.0, self.steps / self.cfg["eps_steps"])
        return 1.0 + decay * (0.05 - 1.0)

    def act(self, state):
        if random.random() < self.epsilon():
            return random.randrange(2)
        with torch.no_grad():
            return self.online(state).argmax().item()

    def learn(self):
        s, a, r, s2, done = self.replay.sample(self.cfg["batch"])
        q = self.online(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.online(s2).argmax(1, keepdim=True)
            next_q = self.target(s2).gather(1, best).squeeze(1)
            goal = r + self.cfg["gamma"] * (1 - done) * next_q
        td = (q - goal).abs()
        loss = F.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.online.parameters(), 1.0)
        self.opt.step()
        self.note_error(td)

    def note_error(self, td):
        history = self.td_history
        history += [td.mean()]

    def run_episode(self):
        state, total, done = self.env.reset(), 0.0, False
        while not done:
            action = self.act(state)
            nxt, reward, done = self.env.step(action)
            self.replay.push(state, action, reward, nxt, done)
            state, total = nxt, total + reward
            self.steps += 1
            ready = len(self.replay) >= self.cfg["warmup"]
            if ready and self.steps % self.cfg["train_every"] == 0:
                self.learn()
            if self.steps % self.cfg["sync_every"] == 0:
                self.target.load_state_dict(self.online.state_dict())
        self.returns.append(total)
        return total


def evaluate(agent, episodes=5):
    saved, agent.steps = agent.steps, 10**9
    scores = []
    for _ in range(episodes):
        state, total, done = agent.env.reset(), 0.0, False
        while not done:
            state, reward, done = agent.env.step(agent.act(state))
            total += reward
        scores.append(total)
    agent.steps = saved
    return sum(scores) / len(scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=60)
    args = parser.parse_args()
    random.seed(7)
    torch.manual_seed(7)
    cfg = {
        "capacity": 300,
        "batch": 32,
        "gamma": 0.97,
        "lr": 2e-3,
        "warmup": 200,
        "train_every": 4,
        "sync_every": 100,
        "eps_steps": 800,
    }
    agent = Agent(Corridor(), cfg)
    for episode in range(args.episodes):
        agent.run_episode()
        if episode % 10 == 9:
            mean = sum(agent.returns) / len(agent.returns)
            recent = list(agent.td_history)[-20:]
            error = sum(float(e) for e in recent) / max(1, len(recent))
            print(f"episode {episode + 1} return {mean:.3f} td {error:.4f}")
    print("evaluation", round(evaluate(agent), 3), "steps", agent.steps)


if __name__ == "__main__":
    main()
