"""Leak 2: no zero_grad(), and a snapshot of all gradients at each step.

The gradients add up, training diverges, and the snapshots taken to see why
stay on the device. Fixed: zero_grad(set_to_none=True), and one number kept.
"""

from trainer import Trainer, run

gradient_snapshots = []


class Leaky(Trainer):
    def train_step(self, images, labels):
        loss = self.criterion(self.model(images), labels)
        loss.backward()
        gradient_snapshots.append(
            {n: p.grad.clone() for n, p in self.model.named_parameters()}
        )
        self.optimizer.step()
        return loss.item()


class Fixed(Trainer):
    def train_step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(images), labels)
        loss.backward()
        squares = [p.grad.square().sum() for p in self.model.parameters()]
        gradient_snapshots.append(sum(squares).sqrt().item())
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    run(Leaky, Fixed)
