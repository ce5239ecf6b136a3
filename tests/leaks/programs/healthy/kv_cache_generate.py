"""Several conversations with transformers' own generate and KV cache."""

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

torch.manual_seed(0)
config = MistralConfig(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    sliding_window=None,
)
model = MistralForCausalLM(config).eval()
for _conversation in range(4):
    cache = DynamicCache()
    ids = torch.randint(3, 128, (1, 8))
    for _turn in range(3):
        ids = model.generate(
            ids,
            past_key_values=cache,
            max_new_tokens=10,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )
        ids = torch.cat([ids, torch.randint(3, 128, (1, 5))], dim=1)
print(ids.shape[1], "tokens")

EXPECT = {"at_most": ("cache", "accumulation")}
