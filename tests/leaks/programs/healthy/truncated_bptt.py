"""The hidden state is carried over all steps, detached each time."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    rnn, head = nn.LSTM(8, 24), nn.Linear(24, 8)
    parameters = [*rnn.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters)
    hidden = None
    for _ in range(70):
        chunk = torch.randn(6, 4, 8)
        output, hidden = rnn(chunk, hidden)
        hidden = tuple(part.detach() for part in hidden)
        loss = (head(output) - chunk).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()

EXPECT = None
