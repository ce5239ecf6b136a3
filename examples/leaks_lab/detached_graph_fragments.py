"""Leak 8: .detach().requires_grad_(True) starts a new graph each step.

It cuts the tensor off from its graph, frees nothing, and what is computed
from it is a fragment that no backward will ever visit. Fixed: no_grad().
"""

import torch
from torch.nn import functional as F
from trainer import Trainer, run

fragments = []


class Probe(Trainer):
    """Trains, and asks how sure the classifier is of noisy features."""

    def train_step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        features = self.model.features(images)
        loss = self.criterion(self.model.fc(features), labels)
        loss.backward()
        self.optimizer.step()
        self.probe(features)
        return loss.item()


class Leaky(Probe):
    def probe(self, features):
        fragment = features.detach().requires_grad_(True)
        noisy = fragment + 0.1 * torch.randn_like(fragment)
        certainty = F.softmax(self.model.fc(noisy), dim=1).square().sum(1)
        fragments.append(certainty)


class Fixed(Probe):
    @torch.no_grad()
    def probe(self, features):
        noisy = features + 0.1 * torch.randn_like(features)
        certainty = F.softmax(self.model.fc(noisy), dim=1).square().sum(1)
        fragments.append(certainty.mean().item())


if __name__ == "__main__":
    run(Leaky, Fixed)
