"""Leak 7, the one that kills: a look at the predictions without no_grad().

The output is kept, and with it every activation for a backward that never
comes. Fixed: no_grad(), and a number kept.
"""

import torch
from trainer import Trainer, run

val_cache = []


class Leaky(Trainer):
    def train_step(self, images, labels):
        loss = super().train_step(images, labels)
        val_out = self.model(images)
        val_cache.append(val_out)
        val_cache.append(images.clone())
        return loss


class Fixed(Trainer):
    def train_step(self, images, labels):
        loss = super().train_step(images, labels)
        with torch.no_grad():
            val_out = self.model(images)
            val_cache.append(val_out.mean().item())
        return loss


if __name__ == "__main__":
    run(Leaky, Fixed)
