"""Random search over hyperparameters; each trial trains a small network."""

import argparse
import itertools
import random
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

SPACE = {
    "lr": lambda r: 10 ** r.uniform(-3, -1.5),
    "width": lambda r: r.choice([16, 24, 32]),
    "activation": lambda r: r.choice(["relu", "tanh", "gelu"]),
    "optimizer": lambda r: r.choice(["sgd", "adam"]),
}
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


@dataclass
class Trial:
    number: int
    params: dict
    score: float = float("nan")
    user_attrs: dict = field(default_factory=dict)


class Study:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.trials = []
        self.counter = itertools.count()

    def ask(self):
        params = {name: draw(self.rng) for name, draw in SPACE.items()}
        return Trial(next(self.counter), params)

    def tell(self, trial, score):
        trial.score = score
        trial.user_attrs.clear()
        self.trials = [*self.trials, trial][-5:]

    def optimize(self, objective, n_trials, callbacks=()):
        for _ in range(n_trials):
            trial = self.ask()
            self.tell(trial, objective(trial))
            for callback in callbacks:
                callback(self, trial)


class BestSoFar:
    def __init__(self):
        self.score, self.params = float("-inf"), None

    def __call__(self, study, trial):
        if trial.score > self.score:
            self.score, self.params = trial.score, trial.params
        if trial.number % 10 == 9:
            print(f"trial {trial.number} best {self.score:.3f}")


def make_data(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(260, 6, generator=g)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
    return (x[:160], y[:160]), (x[160:], y[160:])


def build(params):
    width = params["width"]
    act = ACTIVATIONS[params["activation"]]
    model = nn.Sequential(
        nn.Linear(6, width), act(), nn.Linear(width, width), act(),
        nn.Linear(width, 2),
    )
    if params["optimizer"] == "sgd":
        opt = torch.optim.SGD(model.parameters(), params["lr"] * 3, 0.9)
    else:
        opt = torch.optim.Adam(model.parameters(), params["lr"])
    return model, opt


def make_objective(train, val, steps):
    def objective(trial):
        torch.manual_seed(trial.number)
        model, opt = build(trial.params)
        for _ in range(steps):
            idx = torch.randint(len(train[0]), (32,))
            loss = F.cross_entropy(model(train[0][idx]), train[1][idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            guess = model(val[0]).argmax(1)
        trial.user_attrs["model"] = model
        return (guess == val[1]).float().mean().item()

    return objective


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(340)
    train, val = make_data(340)
    study, best = Study(seed=340), BestSoFar()
    study.optimize(
        make_objective(train, val, args.steps), args.trials, [best]
    )
    print(f"best {best.score:.3f} with {best.params['optimizer']}")


if __name__ == "__main__":
    main()
