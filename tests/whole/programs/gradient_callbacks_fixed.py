"""A trainer with callbacks; one follows the gradients of each layer."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Callback:
    def on_epoch_begin(self, trainer):
        pass

    def on_backward(self, trainer):
        pass

    def on_step(self, trainer):
        pass


class Clip(Callback):
    def __init__(self, most):
        self.most = most

    def on_backward(self, trainer):
        nn.utils.clip_grad_norm_(trainer.model.parameters(), self.most)


class Warmup(Callback):
    def __init__(self, steps, lr):
        self.steps, self.lr = steps, lr

    def on_step(self, trainer):
        share = min(1.0, (trainer.step + 1) / self.steps)
        for group in trainer.optimizer.param_groups:
            group["lr"] = self.lr * share


class GradientTracker(Callback):
    """Cosine between a layer's gradients of two steps."""

    def on_epoch_begin(self, trainer):
        trainer.state.setdefault("gradients", {})

    def on_backward(self, trainer):
        kept = trainer.state["gradients"]
        for name, parameter in trainer.model.named_parameters():
            if name.endswith("weight"):
                flat = parameter.grad.flatten().clone()
                kept[name] = [*kept.get(name, [])[-1:], flat]

    def on_step(self, trainer):
        for name, rows in trainer.state["gradients"].items():
            if len(rows) > 1:
                cosine = F.cosine_similarity(rows[-1], rows[-2], dim=0)
                trainer.cosines[name] = cosine.item()


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer = model, optimizer
        self.callbacks = callbacks
        self.state, self.cosines, self.step = {}, {}, 0

    def call(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def fit(self, epochs, steps):
        for _ in range(epochs):
            self.call("on_epoch_begin")
            for _ in range(steps):
                x = torch.randn(20, 12)
                y = (x[:, 0] > x[:, 1]).long()
                loss = F.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.call("on_backward")
                self.optimizer.step()
                self.call("on_step")
                self.step += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(91)
    model = nn.Sequential(nn.Linear(12, 32), nn.ELU(), nn.Linear(32, 2))
    trainer = Trainer(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        [Clip(1.0), Warmup(40, 0.1), GradientTracker()],
    )
    trainer.fit(args.epochs, steps=45)
    print({name: round(c, 3) for name, c in trainer.cosines.items()})


if __name__ == "__main__":
    main()
