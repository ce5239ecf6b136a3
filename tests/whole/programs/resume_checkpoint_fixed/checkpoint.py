"""Saves and restores everything that a run needs to go on."""

import os

import torch


class Checkpointer:
    def __init__(self, folder, **parts):
        self.path = os.path.join(folder, "last.pt")
        self.parts = parts

    def save(self, step, history):
        state = {name: part.state_dict() for name, part in self.parts.items()}
        state["step"] = step
        state["history"] = history
        temporary = self.path + ".tmp"
        torch.save(state, temporary)
        os.replace(temporary, self.path)

    def restore(self):
        if not os.path.exists(self.path):
            return 0, None
        state = torch.load(self.path, weights_only=False)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        return state["step"], state["history"]
