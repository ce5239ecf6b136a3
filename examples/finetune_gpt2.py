"""Train a small GPT-2 on the topics of Python's own help, on CPU, offline.

    python examples/finetune_gpt2.py --max_steps 60 --n_layer 4

Takes every option of transformers.TrainingArguments. The trainer keeps each
step's loss to print the loss curve at the end; that is where it leaks.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pydoc_data.topics import topics

import torch
from tokenizers import ByteLevelBPETokenizer
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

END_OF_TEXT = "<|endoftext|>"


@dataclass
class ScriptArguments:
    n_layer: int = field(default=4, metadata={"help": "GPT-2 blocks"})
    n_head: int = field(default=4, metadata={"help": "attention heads"})
    n_embd: int = field(default=128, metadata={"help": "model width"})
    block_size: int = field(default=128, metadata={"help": "tokens a sample"})
    vocab_size: int = field(default=1024, metadata={"help": "BPE vocabulary"})


class TextBlocks(Dataset):
    """Blocks of block_size token ids, cut from the concatenated texts."""

    def __init__(self, texts, tokenizer, block_size):
        ids = tokenizer(END_OF_TEXT.join(texts))["input_ids"]
        usable = len(ids) - len(ids) % block_size
        self.blocks = torch.tensor(ids[:usable]).view(-1, block_size)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        block = self.blocks[index]
        return {"input_ids": block, "labels": block}


class LossCurveTrainer(Trainer):
    """A Trainer that keeps the loss of every single step for plotting."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_history = []

    def compute_loss(
        self, model, inputs, return_outputs=False, num_items_in_batch=None
    ):
        outputs = model(**inputs)
        self.loss_history.append(outputs.loss)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


def build_tokenizer(texts, vocab_size):
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(
        texts,
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        show_progress=False,
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe._tokenizer, eos_token=END_OF_TEXT
    )


def build_model(args, tokenizer):
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=args.block_size,
        n_embd=args.n_embd,
        n_layer=args.n_layer,
        n_head=args.n_head,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        use_cache=False,
    )
    return GPT2LMHeadModel(config)


def print_loss_curve(losses, width=50):
    values = torch.stack(losses).detach()
    low, high = values.min(), values.max()
    step = 0
    for chunk in values.chunk(10):
        mean = chunk.mean()
        bar = "#" * round(width * float((mean - low) / (high - low)))
        print(f"{step:6d}  {mean:6.3f}  {bar}")
        step += len(chunk)


def parse_args():
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    parser.set_defaults(
        output_dir=os.path.join(tempfile.gettempdir(), "finetune_gpt2"),
        max_steps=60,
        per_device_train_batch_size=8,
        learning_rate=2e-3,
        logging_steps=10,
        disable_tqdm=True,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    return parser.parse_args_into_dataclasses()


def main():
    script_args, training_args = parse_args()
    set_seed(training_args.seed)

    texts = list(topics.values())
    tokenizer = build_tokenizer(texts, script_args.vocab_size)
    dataset = TextBlocks(texts, tokenizer, script_args.block_size)
    model = build_model(script_args, tokenizer)
    print(f"{len(dataset)} blocks, {model.num_parameters():,} parameters")

    trainer = LossCurveTrainer(
        model=model,
        args=training_args,
        train_dataset=dataset,
        data_collator=default_data_collator,
    )
    trainer.train()
    print_loss_curve(trainer.loss_history)


if __name__ == "__main__":
    main()
