"""TRL's SFTTrainer, an unmodified script: nothing here knows of us.

    impactarbiter run examples/integrations/sft_trainer.py \
        --output_dir /tmp/sft --detect_memory_leaks

Model, tokenizer and texts are made in place, so that it runs offline.
"""

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)
from trl import SFTConfig, SFTTrainer, TrlParser

TEXT = "the cat sat on a mat and ate all of it again"
WORDS = TEXT.split()


def build_tokenizer():
    vocabulary = {word: i for i, word in enumerate(["<end>", "<pad>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<end>", pad_token="<pad>"
    )


def build_model(tokenizer):
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=32,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


class ReplayTrainer(SFTTrainer):
    """Keeps batches for a replay that never comes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.replay = []

    def compute_loss(self, model, inputs, *args, **kwargs):
        embedded = model.get_input_embeddings()(inputs["input_ids"])
        self.replay.append(embedded)
        return super().compute_loss(model, inputs, *args, **kwargs)


def main():
    parser = TrlParser((SFTConfig,))
    parser.set_defaults(
        max_steps=20,
        per_device_train_batch_size=4,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
    )
    (args,) = parser.parse_args_and_config()
    tokenizer = build_tokenizer()
    texts = [" ".join(WORDS[i % 5 :]) for i in range(32)]
    trainer = ReplayTrainer(
        model=build_model(tokenizer),
        args=args,
        train_dataset=Dataset.from_dict({"text": texts}),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
