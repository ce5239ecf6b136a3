"""Leak 6, the silent one: scaled losses kept, and a step per micro-batch.

Each kept loss is four bytes and the nodes of its graph, whose buffers the
backward has freed. Fixed: numbers kept, a step every ACCUM_STEPS.
"""

import torch
from trainer import Trainer, run

ACCUM_STEPS = 4
scaled_losses = []


class Scaled(Trainer):
    def __init__(self, options):
        super().__init__(options)
        self.scaler = torch.amp.GradScaler(self.device.type, init_scale=256.0)
        self.dtype = torch.float16
        if self.device.type == "cpu":
            self.dtype = torch.bfloat16
        self.seen = 0

    def scaled_loss(self, images, labels):
        with torch.autocast(self.device.type, dtype=self.dtype):
            loss = self.criterion(self.model(images), labels) / ACCUM_STEPS
        return self.scaler.scale(loss)

    def update(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)


class Leaky(Scaled):
    def train_step(self, images, labels):
        scaled_loss = self.scaled_loss(images, labels)
        scaled_loss.backward()
        scaled_losses.append(scaled_loss)
        self.update()
        return scaled_loss.item()


class Fixed(Scaled):
    def train_step(self, images, labels):
        scaled_loss = self.scaled_loss(images, labels)
        scaled_loss.backward()
        scaled_losses.append(scaled_loss.item())
        self.seen += 1
        if self.seen % ACCUM_STEPS == 0:
            self.update()
        return scaled_losses[-1]


if __name__ == "__main__":
    run(Leaky, Fixed)
