"""A chat service: one reply a request, a cache of each user's last turns."""

import argparse
import random
from collections import OrderedDict, defaultdict

import torch
from torch import nn


class Replier(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, state=None):
        out, state = self.cell(self.embed(ids), state)
        return self.head(out[:, -1]), state


class Service:
    def __init__(self, model, most_states):
        self.model = model.eval()
        self.states = OrderedDict()
        self.most_states = most_states
        self.turns = defaultdict(list)
        self.served = 0

    @torch.inference_mode()
    def handle(self, request):
        user, ids = request
        state = self.states.pop(user, None)
        logits, state = self.model(ids, state)
        self.states[user] = state
        if len(self.states) > self.most_states:
            self.states.popitem(last=False)
        self.remember(user, logits)
        self.served += 1
        return int(logits.argmax())

    def remember(self, user, logits):
        turns = self.turns[user]
        turns[:] = [logits.softmax(-1)]

    def certainty(self, user):
        turns = self.turns[user]
        return float(turns[-1].max()) if turns else 0.0


def requests(n, users, vocab, seed):
    rng = random.Random(seed)
    for _ in range(n):
        length = rng.randrange(3, 9)
        ids = torch.tensor([[rng.randrange(vocab) for _ in range(length)]])
        yield f"user-{rng.randrange(users)}", ids


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=900)
    parser.add_argument("--users", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(30)
    service = Service(Replier(128, 24), most_states=5)
    checksum = 0
    for request in requests(args.requests, args.users, 128, seed=30):
        checksum = (checksum * 31 + service.handle(request)) % 99_991
    print(f"served {service.served} checksum {checksum}")
    print(f"certainty {service.certainty('user-0') > 0}")


if __name__ == "__main__":
    main()
