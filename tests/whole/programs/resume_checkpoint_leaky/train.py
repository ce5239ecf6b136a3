"""Training that is interrupted now and then, and goes on where it was."""

import argparse
import logging
import tempfile

import torch
from checkpoint import Checkpointer
from model import Denoiser, Signals
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("resume")


class Preempted(Exception):
    """The machine is taken away."""


class Run:
    """One life of the job: from a restore to a preemption or the end."""

    def __init__(self, args, folder):
        self.args = args
        self.data = Signals(args.dim, seed=6)
        self.model = Denoiser(args.dim, args.width)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 100, 0.7)
        self.ckpt = Checkpointer(
            folder,
            model=self.model,
            optimizer=self.opt,
            scheduler=self.sched,
            data=self.data,
        )
        self.step, history = self.ckpt.restore()
        self.history = history or {"loss": [], "residual": []}

    def train_step(self):
        noisy, clean = self.data.sample(self.args.batch)
        out = self.model(noisy)
        loss = nn.functional.mse_loss(out, clean)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        self.step += 1
        if self.step % 3 == 0:
            residual = (out - clean).detach().mean(0)
            self.history["residual"].append(residual)
        self.history["loss"].append(loss.item())
        return loss

    def go(self, until, preempt_at):
        while self.step < until:
            self.train_step()
            if self.step % self.args.save_every == 0:
                self.ckpt.save(self.step, self.history)
            if self.step == preempt_at:
                raise Preempted(f"at step {self.step}")


def evaluate(model, data, batches=10):
    model.eval()
    with torch.no_grad():
        losses = []
        for _ in range(batches):
            noisy, clean = data.sample(64)
            losses.append((model(noisy) - clean).pow(2).mean().item())
    model.train()
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=330)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    preemptions = [70, 151]
    with tempfile.TemporaryDirectory() as folder:
        while True:
            run = Run(args, folder)
            print(f"starts at step {run.step}")
            try:
                run.go(args.steps, preemptions[0] if preemptions else None)
                break
            except Preempted as reason:
                log.info("preempted %s", reason)
                preemptions.pop(0)
        recent = list(run.history["loss"])[-50:]
        bias = torch.stack(list(run.history["residual"])[-4:]).mean()
        print(f"train {sum(recent) / len(recent):.4f} bias {bias:+.4f}")
        print(f"test {evaluate(run.model, Signals(args.dim, seed=7)):.4f}")


if __name__ == "__main__":
    main()
