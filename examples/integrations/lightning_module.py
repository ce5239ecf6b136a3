"""A LightningModule that keeps its outputs, and the callback that says so.

    python examples/integrations/lightning_module.py

Without the callback, `impactarbiter run` on this file finds it as well.
"""

import sys
import tempfile

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from impactarbiter.integrations.lightning import LeakDetectionCallback


class Regression(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.outputs = []

    def training_step(self, batch, batch_idx):
        output = self.layer(batch)
        self.outputs.append(output)
        return (output - batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", (self.layer(batch) - batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main(folder):
    data = torch.utils.data.DataLoader(torch.randn(80, 16), batch_size=4)
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=1,
        callbacks=[LeakDetectionCallback(report=f"{folder}/leaks.json")],
        logger=CSVLogger(folder, name="", version=""),
        log_every_n_steps=5,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Regression()
    trainer.fit(model, data, data)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
