"""Fine-tunes a tiny GPT-2 with the Trainer; a callback writes samples."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging


class CountingDataset(Dataset):
    """Sequences that count upwards from a random start."""

    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        starts = torch.randint(vocab, (n, 1), generator=g)
        step = torch.randint(1, 4, (n, 1), generator=g)
        self.rows = (starts + step * torch.arange(length)) % vocab

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class SampleCallback(TrainerCallback):
    """Greedy continuations at every few steps, with their scores."""

    def __init__(self, prompts, every, tokens):
        self.prompts, self.every, self.tokens = prompts, every, tokens
        self.samples = []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % self.every:
            return
        model.eval()
        out = self.generate(model)
        self.samples = [{"ids": out["ids"]}]
        model.train()

    @torch.no_grad()
    def generate(self, model):
        ids, past, scores = self.prompts, None, []
        step_input = ids
        for _ in range(self.tokens):
            out = model(step_input, past_key_values=past, use_cache=True)
            past = out.past_key_values
            scores.append(out.logits[:, -1])
            step_input = out.logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, step_input], dim=1)
        return {"ids": ids.tolist(), "scores": torch.stack(scores), "kv": past}


class CurveCallback(TrainerCallback):
    def __init__(self):
        self.first = self.last = None

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.last = logs["loss"]
            self.first = self.first or self.last


def make_trainer(args, folder, callbacks):
    config = GPT2Config(
        vocab_size=args.vocab,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=args.steps,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=5e-3,
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=180,
    )
    return Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=CountingDataset(512, 16, args.vocab, seed=180),
        eval_dataset=CountingDataset(64, 16, args.vocab, seed=181),
        callbacks=callbacks,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--vocab", type=int, default=20)
    args = parser.parse_args()
    logging.set_verbosity_error()
    set_seed(180)
    sampler = SampleCallback(torch.tensor([[1, 2, 3], [2, 4, 6]]), 4, 8)
    curve = CurveCallback()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(args, folder, [sampler, curve])
        trainer.remove_callback(PrinterCallback)
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        after = trainer.evaluate()["eval_loss"]
    print(f"evaluation {before:.3f} -> {after:.3f}")
    print(f"training loss fell: {float(curve.last) < float(curve.first)}")
    for row in sampler.samples[-1]["ids"]:
        print(row)


if __name__ == "__main__":
    main()
