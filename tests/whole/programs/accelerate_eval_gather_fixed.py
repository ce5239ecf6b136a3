"""Accelerate with gradient accumulation and an evaluation every epoch."""

import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    """Two bags of tokens: do they speak of the same topic?"""

    def __init__(self, n, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        topic = torch.randint(4, (n, 2), generator=g)
        same = torch.rand(n, generator=g) < 0.5
        topic[same, 1] = topic[same, 0]
        noise = torch.randint(vocab, (n, 2, 8), generator=g)
        words = topic[:, :, None] * (vocab // 4)
        words = words + torch.randint(vocab // 4, (n, 2, 8), generator=g)
        keep = torch.rand(n, 2, 8, generator=g) < 0.7
        self.tokens = torch.where(keep, words, noise)
        self.labels = (topic[:, 0] == topic[:, 1]).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"tokens": self.tokens[i], "label": self.labels[i]}


class PairModel(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 2)
        )

    def forward(self, tokens):
        a, b = self.embed(tokens).mean(2).unbind(1)
        return self.mlp(torch.cat([(a - b).abs(), a * b], dim=1))


class Evaluation:
    """Predictions of the whole set, and what follows from them."""

    def __init__(self):
        self.all_preds, self.all_refs = [], []

    def add_batch(self, predictions, references):
        self.all_preds.append(predictions)
        self.all_refs.append(references)

    def compute(self, n):
        preds = torch.cat(self.all_preds)[-n:]
        refs = torch.cat(self.all_refs)[-n:]
        return (preds.argmax(1) == refs).float().mean().item()


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    evaluation = Evaluation()
    for batch in loader:
        logits = model(batch["tokens"])
        logits, refs = accelerator.gather_for_metrics((logits, batch["label"]))
        evaluation.add_batch(logits.softmax(-1), refs)
    model.train()
    return evaluation.compute(len(loader.dataset))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()
    set_seed(200)
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=args.accumulation
    )
    model = PairModel(64, 24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train = DataLoader(Pairs(640, 64, 200), batch_size=20, shuffle=True)
    val = DataLoader(Pairs(480, 64, 201), batch_size=20)
    model, optimizer, train, val = accelerator.prepare(
        model, optimizer, train, val
    )
    for epoch in range(args.epochs):
        total = 0.0
        for batch in train:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(batch["tokens"]), batch["label"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
        score = evaluate(accelerator, model, val)
        if epoch % 3 == 2:
            accelerator.print(
                f"epoch {epoch + 1} loss {total / len(train):.4f} "
                f"accuracy {score:.3f}"
            )


if __name__ == "__main__":
    main()
