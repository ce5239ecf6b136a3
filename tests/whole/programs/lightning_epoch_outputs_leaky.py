"""A LightningModule that aggregates its steps' outputs at the epoch's end."""

import argparse
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


class WindowClassifier(L.LightningModule):
    def __init__(self, channels=4, width=16, classes=3, lr=5e-3):
        super().__init__()
        self.save_hyperparameters()
        self.conv = nn.Conv1d(channels, width, 5, padding=2)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, classes)
        self.training_step_outputs = []
        self.validation_step_outputs = []
        self.curve = []

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean(-1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.training_step_outputs.append(
            {"loss": loss, "right": (logits.argmax(1) == y).sum()}
        )
        return loss

    def on_train_epoch_end(self):
        outputs = self.training_step_outputs[-self.trainer.num_training_batches :]
        mean = sum(float(o["loss"]) for o in outputs) / len(outputs)
        self.curve = [*self.curve[-4:], mean]

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.validation_step_outputs.append((self(x).argmax(1), y))

    def on_validation_epoch_end(self):
        guess, truth = (torch.cat(t) for t in zip(*self.validation_step_outputs))
        self.log("val_acc", (guess == truth).float().mean())
        self.validation_step_outputs.clear()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
        return [optimizer], [schedule]


class Announcer(L.Callback):
    def on_validation_end(self, trainer, module):
        if trainer.sanity_checking:
            print("sanity check done")
            return
        acc = trainer.callback_metrics["val_acc"].item()
        print(f"epoch {trainer.current_epoch} accuracy {acc:.3f}")


def windows(n, seed, channels=4, length=20):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=g)
    t = torch.arange(length) / length
    freq = (1.0 + y.float())[:, None, None]
    phase = torch.rand(n, channels, 1, generator=g) * 6.28
    wave = torch.sin(6.28 * freq * t + phase)
    return TensorDataset(wave + 0.5 * torch.randn(wave.shape, generator=g), y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    L.seed_everything(190, verbose=False)
    train = DataLoader(windows(400, 190), args.batch_size, shuffle=True)
    val = DataLoader(windows(160, 191), 40)
    module = WindowClassifier()
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=args.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=2,
        callbacks=[Announcer()],
    )
    trainer.fit(module, train, val)
    print("curve", " ".join(f"{loss:.3f}" for loss in module.curve))


if __name__ == "__main__":
    main()
