"""A raw loop that reports to MLflow, W&B, TensorBoard and Prometheus.

    python examples/integrations/trackers.py mlflow wandb tensorboard

Runs without any server: MLflow writes to a SQLite file, W&B offline,
TensorBoard to event files, all in the folder where it is started.
"""

import sys

import torch

import impactarbiter


def reporters(names):
    """(log_metrics(arbiter, step), log_report(report)) for each name."""
    found = []
    if "mlflow" in names:
        import mlflow

        from impactarbiter.integrations import mlflow as tracker

        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        mlflow.set_experiment("leaks")
        found.append((tracker.log_metrics, tracker.log_report))
    if "wandb" in names:
        import wandb

        from impactarbiter.integrations import wandb as tracker

        wandb.init(project="leaks", mode="offline")
        found.append((tracker.log_metrics, tracker.log_report))
    if "tensorboard" in names:
        from torch.utils.tensorboard import SummaryWriter

        from impactarbiter.integrations import tensorboard as tracker

        writer = SummaryWriter("events")
        found.append(
            (
                lambda arbiter, step: tracker.log_metrics(
                    writer, arbiter, step
                ),
                lambda report: tracker.log_report(writer, report),
            )
        )
    return found


def main(names):
    trackers = reporters(names)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    with impactarbiter.watch() as arbiter:
        for step in range(30):
            output = model(torch.randn(16, 64))
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()
            history.append(output)
            if step % 10 == 9:
                for log_metrics, _ in trackers:
                    log_metrics(arbiter, step)
    for _, log_report in trackers:
        log_report(arbiter.report())
    print(arbiter.report())


if __name__ == "__main__":
    main(sys.argv[1:])
