"""New words come now and then; the embedding is made larger for them."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embed = nn.Embedding(words, 32)
        self.head = nn.Linear(32, 5)

    def forward(self, ids):
        return self.head(self.embed(ids))

    def resize(self, words):
        old = self.embed
        self.embed = nn.Embedding(words, 32)
        with torch.no_grad():
            self.embed.weight[: old.num_embeddings] = old.weight


def main():
    torch.manual_seed(0)
    words = 100
    model = Tagger(words)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(150):
        if step % 15 == 14:
            words += 20
            model.resize(words)
            optimizer = torch.optim.Adam(model.parameters())
        loss = model(torch.randint(words, (16,))).logsumexp(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{words} words, loss {loss.item():.4f}")


main()

EXPECT = None
