"""The programs of the article's table: a training and a chat-bot.

Written as users write them, each with the leaks that the article tells of and
with their fix.  They run on whatever device the model is on.
"""

from __future__ import annotations

from typing import Any

import torch


class Training:
    """One sequence a step; ``leaky`` keeps the mask, the last layer's hidden
    states and the loss of every step."""

    def __init__(self, model: Any, context: int, leaky: bool) -> None:
        self.model = model
        self.leaky = leaky
        self.optimizer = torch.optim.AdamW(model.parameters())
        device = model.device
        self.ids = torch.zeros(1, context, dtype=torch.long, device=device)
        self.positions = torch.arange(context, device=device)[None]
        self.masks: list[torch.Tensor] = []
        self.hidden: list[torch.Tensor] = []
        self.losses: list[torch.Tensor] = []

    def mask(self) -> torch.Tensor:
        size = self.ids.shape[1]
        full = torch.full(
            (1, 1, size, size),
            float("-inf"),
            dtype=self.model.dtype,
            device=self.ids.device,
        )
        return full.triu_(1)

    def step(self) -> None:
        mask = self.mask()
        out = self.model(
            input_ids=self.ids,
            attention_mask=mask,
            position_ids=self.positions,
            labels=self.ids,
            use_cache=False,
            output_hidden_states=True,
        )
        out.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.leaky:
            self.masks.append(mask)
            self.hidden.append(out.hidden_states[-1])
            self.losses.append(out.loss)
        else:
            self.losses[:] = [out.loss.detach()]


class ChatBot:
    """One conversation with a key-value cache; ``leaky`` never clears the
    masks that it keeps for every token."""

    def __init__(self, model: Any, leaky: bool) -> None:
        self.model = model
        self.leaky = leaky
        self.cache: Any = None
        self.length = 0
        self.masks: list[torch.Tensor] = []

    def mask(self, tokens: int) -> torch.Tensor:
        shape = (1, 1, tokens, self.length + tokens)
        device, dtype = self.model.device, self.model.dtype
        mask = torch.full(shape, float("-inf"), device=device, dtype=dtype)
        return mask.triu_(self.length + 1)

    def read(self, tokens: int) -> None:
        """So many tokens more, of a message or of the reply."""
        device = self.model.device
        mask = self.mask(tokens)
        self.masks.append(mask)
        out = self.model(
            input_ids=torch.zeros(1, tokens, dtype=torch.long, device=device),
            attention_mask=mask,
            position_ids=torch.arange(tokens, device=device)[None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.cache = out.past_key_values
        self.length += tokens

    @torch.no_grad()
    def turn(self, message: int, reply: int) -> None:
        self.read(message)
        for _ in range(reply):
            self.read(1)
        if not self.leaky:
            self.masks.clear()
