"""Leak 3: running_loss += loss, without .item().

The sum is one tensor of four bytes, and behind it stands the graph of every
step so far. Fixed: .item().
"""

from trainer import Trainer, run


class Leaky(Trainer):
    running_loss = 0.0

    def train_step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.running_loss += loss
        return loss.item()

    def finish(self):
        print(f"mean loss {self.running_loss / self.options.steps:.3f}")


class Fixed(Leaky):
    def train_step(self, images, labels):
        loss = Trainer.train_step(self, images, labels)
        self.running_loss += loss
        return loss


if __name__ == "__main__":
    run(Leaky, Fixed)
