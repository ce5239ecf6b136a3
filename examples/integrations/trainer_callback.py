"""The Hugging Face Trainer with LeakDetectionCallback, on CPU, offline.

    python examples/integrations/trainer_callback.py

compute_loss keeps each step's logits; the log names that line.
"""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer

from impactarbiter.integrations.transformers import (
    LeakDetectionCallback,
    TrainingArguments,
)


class Numbers(torch.utils.data.Dataset):
    """Counting to eight, from anywhere."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.arange(index, index + 8) % 32
        return {"input_ids": ids, "labels": ids}


class KeepsLogits(Trainer):
    """Keeps what it means to look at some day."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    def compute_loss(self, model, inputs, **kwargs):
        outputs = model(**inputs)
        self.seen.append(outputs.logits)
        return outputs.loss


def tiny_gpt2():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=32,
            n_positions=8,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def main(folder):
    args = TrainingArguments(
        output_dir=folder,
        max_steps=20,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = KeepsLogits(
        model=tiny_gpt2(),
        args=args,
        train_dataset=Numbers(),
        callbacks=[LeakDetectionCallback(report=f"{folder}/leaks.json")],
    )
    trainer.train()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
