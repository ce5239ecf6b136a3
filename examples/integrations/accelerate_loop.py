"""A loop with Accelerate, gradient accumulation and two trackers.

    python examples/integrations/accelerate_loop.py

The sum of the losses is taken of tensors: it keeps every step's graph.
"""

import sys
import tempfile

import torch
from accelerate import Accelerator

from impactarbiter.integrations.accelerate import LeakDetectionTracker


def main(folder):
    leaks = LeakDetectionTracker(report=f"{folder}/leaks.json")
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=2,
        log_with=["tensorboard", leaks],
        project_dir=folder,
    )
    accelerator.init_trackers("run")
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.Adam(model.parameters())
    batches = torch.utils.data.DataLoader(torch.randn(192, 16), batch_size=4)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    total = 0
    for step, batch in enumerate(batches):
        with accelerator.accumulate(model):
            loss = model(batch).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        total = total + loss
        if step % 5 == 0:
            accelerator.log(
                {"loss": loss.item(), **leaks.metrics()}, step=step
            )
    accelerator.end_training()
    print(f"mean loss {total.item() / len(batches):.3f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
