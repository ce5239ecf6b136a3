"""A chat-bot whose generate loop keeps every attention mask it ever made.

    python examples/chatbot.py --variant leaky --conversations 3

The model has Mistral's architecture, small and untrained. Each conversation
has a KV cache of its own, used as it should be. The leak is the list to which
each token's attention mask is appended; --variant fixed clears that list
when an answer is complete.
"""

import argparse

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

FIRST_LETTER = 3
QUESTIONS = (
    "How long is your memory?",
    "And what do you do with it?",
    "Will you ever let it go?",
)


class ChatBot:
    def __init__(self, variant):
        self.leaky = variant == "leaky"
        config = MistralConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=4096,
            pad_token_id=0,
        )
        self.model = MistralForCausalLM(config).eval()
        self.attention_masks = []
        self.start()

    def start(self):
        """A new conversation."""
        self.cache = DynamicCache()
        self.length = 0

    @torch.inference_mode()
    def answer(self, question, max_new_tokens):
        ids = [FIRST_LETTER + ord(letter) % 250 for letter in question]
        answer = []
        for _ in range(max_new_tokens):
            token = self.next_token(ids)
            answer.append(token)
            ids = [token]
        if not self.leaky:
            self.attention_masks.clear()
        return answer

    def next_token(self, ids):
        self.length += len(ids)
        mask = torch.ones(1, self.length, dtype=torch.long)
        self.attention_masks.append(mask)
        output = self.model(
            torch.tensor([ids]),
            attention_mask=mask,
            past_key_values=self.cache,
            use_cache=True,
        )
        return output.logits[0, -1].argmax().item()


def main():
    parser = argparse.ArgumentParser(description="a chat-bot that leaks")
    parser.add_argument(
        "--variant", choices=("leaky", "fixed"), default="leaky"
    )
    parser.add_argument("--conversations", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=24)
    args = parser.parse_args()

    torch.manual_seed(0)
    bot = ChatBot(args.variant)
    for number in range(1, args.conversations + 1):
        bot.start()
        for question in QUESTIONS:
            said = bot.answer(question, args.max_new_tokens)
        print(
            f"conversation {number}: {bot.length} tokens, the last answer"
            f" begins with {said[:4]}; {len(bot.attention_masks)} masks kept"
        )


if __name__ == "__main__":
    main()
