"""Averages what clients send, with a server-side momentum."""

import torch


class UpdateLedger:
    """Which client sent what, for the audit of the round."""

    def __init__(self):
        self.received = {}

    def file(self, client, delta):
        entries = self.received.setdefault(client, [])
        entries.insert(0, delta)

    def norm_of_last(self, client):
        delta = self.received[client][0]
        return torch.stack([d.norm() for d in delta.values()]).norm().item()


class Server:
    def __init__(self, model, momentum):
        self.model, self.momentum = model, momentum
        self.ledger = UpdateLedger()
        self.velocity = {
            k: torch.zeros_like(v) for k, v in model.state_dict().items()
        }

    def weights(self):
        return {k: v.clone() for k, v in self.model.state_dict().items()}

    def merge(self, deltas):
        state = self.weights()
        for key, velocity in self.velocity.items():
            mean = torch.stack([d[key] for d in deltas]).mean(0)
            velocity.mul_(self.momentum).add_(mean)
            state[key] += velocity
        self.model.load_state_dict(state)
