"""A KV cache by hand: longer with each token, gone with the conversation."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocabulary=64, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, token, cache):
        query, key, value = self.qkv(self.embed(token)).chunk(3, dim=-1)
        if cache is not None:
            key = torch.cat([cache[0], key], dim=1)
            value = torch.cat([cache[1], value], dim=1)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.head(mixed), (key, value)


@torch.inference_mode()
def generate(model, prompt, tokens):
    cache = None
    for token in prompt:
        logits, cache = model(torch.tensor([[token]]), cache)
    said = []
    for _ in range(tokens):
        token = logits[0, -1].argmax().item()
        said.append(token)
        logits, cache = model(torch.tensor([[token]]), cache)
    return said


def main():
    torch.manual_seed(0)
    model = Decoder().eval()
    for _ in range(5):
        said = generate(model, [1, 2, 3, 4], 40)
    print(said[:5])


main()

EXPECT = {"at_most": ("cache", "accumulation")}
