"""The Hugging Face Trainer: a callback, and TrainingArguments that ask for it.

Importing this module makes transformers' own classes know our options::

    from impactarbiter.integrations.transformers import TrainingArguments

    args = TrainingArguments("out", detect_memory_leaks=True)
    Trainer(model, args, train_dataset=data).train()

``report_to="impactarbiter"`` or ``callbacks=[LeakDetectionCallback()]`` do
the same.
"""

from .huggingface.callback import LeakDetectionCallback, TrainingArguments

__all__ = ["LeakDetectionCallback", "TrainingArguments"]
