"""transformers' Trainer with an evaluation loop that gathers predictions."""

import tempfile

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

set_seed(0)
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2
)
rows = torch.randint(0, 64, (96, 16))
data = [{"input_ids": row, "labels": row} for row in rows]
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            output_dir=folder,
            max_steps=48,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=2,
            eval_strategy="steps",
            eval_steps=12,
            logging_steps=12,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=data,
        eval_dataset=data[:32],
        data_collator=default_data_collator,
        compute_metrics=lambda p: {"mean": float(p.predictions.mean())},
    )
    trainer.train()

EXPECT = {"at_most": ("cache", "accumulation")}
