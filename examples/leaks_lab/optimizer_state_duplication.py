"""Leak 5: a new Adam every fourth step, and the old ones are kept.

Each holds two moments of the size of the model. Fixed: one optimizer, whose
learning rate changes.
"""

import torch
from trainer import Trainer, run

EVERY = 4
old_optimizers = []


class Leaky(Trainer):
    def __init__(self, options):
        super().__init__(options)
        self.seen = 0

    def train_step(self, images, labels):
        if self.seen % EVERY == 0:
            old_optimizers.append(self.optimizer)
            self.optimizer = torch.optim.Adam(
                self.model.parameters(), lr=1e-3 / (1 + self.seen)
            )
        self.seen += 1
        return super().train_step(images, labels)


class Fixed(Trainer):
    def __init__(self, options):
        super().__init__(options)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.seen = 0

    def train_step(self, images, labels):
        if self.seen % EVERY == 0:
            for group in self.optimizer.param_groups:
                group["lr"] = 1e-3 / (1 + self.seen)
        self.seen += 1
        return super().train_step(images, labels)


if __name__ == "__main__":
    run(Leaky, Fixed)
