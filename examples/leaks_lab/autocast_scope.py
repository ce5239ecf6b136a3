"""Leak 4: autocast around the features only, and all of them captured.

The narrow scope is why somebody looks at the features at its border; the
list without a bound is what leaks. Fixed: autocast around the whole forward,
nothing captured.
"""

import torch
from trainer import Trainer, run

captured = []


def autocast(device):
    dtype = torch.bfloat16 if device.type == "cpu" else torch.float16
    return torch.autocast(device.type, dtype=dtype)


class Leaky(Trainer):
    def train_step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.device):
            features = self.model.features(images)
        captured.append(features)
        captured.append(features.float())
        loss = self.criterion(self.model.fc(captured[-1]), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Fixed(Trainer):
    def train_step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.device):
            loss = self.criterion(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    run(Leaky, Fixed)
