"""The Hugging Face Trainer's old bug: training_step() returned the loss
with its graph, and train() added it up over all steps."""

import sys

import torch
from torch import nn

FIX = "fixed" in sys.argv


class Trainer:
    def __init__(self, model, accumulation=2):
        self.model = model
        self.accumulation = accumulation
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.log_history = []

    def training_step(self, inputs):
        logits = self.model(inputs)
        loss = logits.logsumexp(-1).mean() / self.accumulation
        loss.backward()
        return loss.detach() if FIX else loss

    def train(self, max_steps):
        tr_loss = torch.tensor(0.0)
        for step in range(max_steps):
            for _ in range(self.accumulation):
                tr_loss += self.training_step(torch.randn(8, 24))
            self.optimizer.step()
            self.optimizer.zero_grad()
            if step % 20 == 0:
                self.log_history.append({"loss": tr_loss.item() / (step + 1)})
        return tr_loss.item() / max_steps


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 8))
trainer = Trainer(model)
print(f"train_loss {trainer.train(60):.4f}")

EXPECT = {
    "holder": "tr_loss",
    "line": ("tr_loss", "logsumexp"),
    "grown": "tr_loss +=",
    "within": 20,
}
FIXED = None
