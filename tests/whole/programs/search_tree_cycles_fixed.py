"""Tree search guided by a value network; the trees have parent links."""

import argparse
import gc
import math
import weakref

import torch
import torch.nn.functional as F
from torch import nn


class Node:
    def __init__(self, state, parent=None):
        self.state = state
        self.parent = weakref.proxy(parent) if parent is not None else None
        self.children = []
        self.visits, self.value = 0, 0.0

    def ucb(self, c=1.0):
        if self.visits == 0:
            return math.inf
        spread = math.sqrt(math.log(self.parent.visits) / self.visits)
        return self.value / self.visits + c * spread


class Game:
    """Flip bits of a vector; the goal is a hidden pattern."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.goal = torch.randint(2, (n,), generator=g).float()
        self.n, self.g = n, g

    def start(self):
        return torch.randint(2, (self.n,), generator=self.g).float()

    def moves(self, state, k=3):
        for i in torch.randperm(self.n, generator=self.g)[:k].tolist():
            nxt = state.clone()
            nxt[i] = 1 - nxt[i]
            yield nxt

    def score(self, state):
        return (state == self.goal).float().mean()


class ValueNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid()
        )

    def forward(self, states):
        return self.net(states).squeeze(-1)


@torch.no_grad()
def search(game, net, simulations):
    """One tree; returns its states and what they were found to be worth."""
    root = Node(game.start())
    for _ in range(simulations):
        node, path = root, [root]
        while node.children:
            node = max(node.children, key=Node.ucb)
            path.append(node)
        node.children = [Node(s, node) for s in game.moves(node.state)]
        value = net(torch.stack([c.state for c in node.children])).max()
        blended = 0.5 * value.item() + 0.5 * game.score(node.state).item()
        for visited in path:
            visited.visits += 1
            visited.value += blended
    best = max(root.children, key=lambda c: c.visits)
    states = torch.stack([root.state, *(c.state for c in root.children)])
    return states, best.visits / root.visits


def learn(game, net, opt, states):
    target = torch.stack([game.score(s) for s in states])
    loss = F.binary_cross_entropy(net(states), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", type=int, default=150)
    parser.add_argument("--simulations", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(160)
    # collections cost a tenth of the time of a search
    gc.collect()
    gc.disable()
    game = Game(16, seed=160)
    net = ValueNet(16)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    loss = focus = 0.0
    for number in range(1, args.games + 1):
        states, share = search(game, net, args.simulations)
        value = learn(game, net, opt, states)
        loss += 0.1 * (value - loss)
        focus += 0.1 * (share - focus)
        if number % 30 == 0:
            print(f"game {number} loss {loss:.4f} focus {focus:.3f}")


if __name__ == "__main__":
    main()
