"""The four models of the article's table, by their public dimensions.

Nothing is downloaded: transformers' own configuration and model classes make
them, on the meta device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Said:
    """What the article says of a model; memory in GB, time in ms."""

    before: float
    after: float
    share: float  # per cent that the fix takes off the peak
    detection: float


@dataclass(frozen=True)
class Model:
    """``family`` is transformers' name before ``Config`` and
    ``ForCausalLM``; ``context`` is in tokens."""

    name: str
    family: str
    context: int
    said: Said | None = None
    dimensions: dict[str, Any] = field(default_factory=dict)

    def make(self, dtype: torch.dtype = torch.bfloat16) -> Any:
        import transformers

        config = getattr(transformers, f"{self.family}Config")
        network = getattr(transformers, f"{self.family}ForCausalLM")
        with torch.device("meta"):
            return network(config(**self.dimensions)).to(dtype)


MODELS = (
    Model(
        "LLaMA-3-70B",
        "Llama",
        32768,
        Said(48.2, 31.3, 35.0, 12.4),
        {
            "hidden_size": 8192,
            "intermediate_size": 28672,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "max_position_embeddings": 32768,
        },
    ),
    Model(
        "Mistral-7B",
        "Mistral",
        131072,
        Said(16.7, 12.1, 27.5, 8.9),
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
            "max_position_embeddings": 131072,
            "sliding_window": None,
        },
    ),
    Model(
        "Falcon-180B",
        "Falcon",
        8192,
        Said(142.0, 108.5, 23.6, 45.2),
        {
            "hidden_size": 14848,
            "num_hidden_layers": 80,
            "num_attention_heads": 232,
            "num_kv_heads": 8,
            "vocab_size": 65024,
            "new_decoder_architecture": True,
            "parallel_attn": True,
            "bias": False,
            "max_position_embeddings": 8192,
        },
    ),
    Model(
        "Gemma-2-27B",
        "Gemma2",
        16384,
        Said(22.1, 16.8, 24.0, 15.1),
        {
            "hidden_size": 4608,
            "intermediate_size": 36864,
            "num_hidden_layers": 46,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "query_pre_attn_scalar": 144,
            "vocab_size": 256000,
            "max_position_embeddings": 16384,
        },
    ),
)
