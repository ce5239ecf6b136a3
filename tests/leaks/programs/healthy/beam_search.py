"""Beam search: hypotheses carry ever longer sequences, then are dropped."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.rnn = nn.GRUCell(16, 16)
        self.head = nn.Linear(16, 30)

    def forward(self, token, state):
        state = self.rnn(self.embed(token), state)
        return self.head(state).log_softmax(-1), state


@torch.no_grad()
def search(model, length, beam=3):
    tokens = torch.zeros(1, 1, dtype=torch.long)
    state, score = torch.zeros(1, 16), torch.zeros(1)
    for _ in range(length):
        log_probs, state = model(tokens[:, -1], state)
        total = (score[:, None] + log_probs).flatten()
        score, best = total.topk(beam)
        rows = best // 30
        tokens = torch.cat([tokens[rows], (best % 30)[:, None]], dim=1)
        state = state[rows]
    return tokens[0]


torch.manual_seed(0)
model = Model().eval()
for _sentence in range(8):
    found = search(model, 20)
print(found.tolist()[:6])

EXPECT = {"at_most": ("cache", "accumulation")}
