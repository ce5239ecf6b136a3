"""Leak 1: a forward hook keeps every activation of layer4.

.detach() cuts the graph off, but the tensor stays where it is. Fixed: the
newest only, on the CPU, and the hook goes when training is done.
"""

from collections import deque

from trainer import Trainer, run

activation_store = []
last_activation = deque(maxlen=1)


def keep_all(module, inputs, output):
    activation_store.append(output.detach())


def keep_last(module, inputs, output):
    last_activation.append(output.detach().cpu())


class Leaky(Trainer):
    def __init__(self, options):
        super().__init__(options)
        self.model.layer4.register_forward_hook(keep_all)


class Fixed(Trainer):
    def __init__(self, options):
        super().__init__(options)
        self.handle = self.model.layer4.register_forward_hook(keep_last)

    def finish(self):
        self.handle.remove()
        active = (last_activation[0] > 0).float().mean().item()
        print(f"active units of layer4: {active:.1%}")


if __name__ == "__main__":
    run(Leaky, Fixed)
