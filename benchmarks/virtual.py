"""Programs on the meta device: what their memory would be.

A tensor there has a shape, a type and a size, and no memory.  Everything else
is real: the model's own Python code, its operators' shapes, autograd's graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: Fused attention as it is registered below; None: not yet.
_attention: torch.library.Library | None = None


def fuse_attention() -> None:
    """From here on attention takes what a fused kernel takes.

    On this device torch takes the formula apart, and has scores of all pairs
    of positions, which no GPU or CPU would.  An attention that asks for no
    kernel (``eager``) stays as it is.
    """
    global _attention
    if _attention is None:
        _attention = torch.library.Library("aten", "IMPL")
        _attention.impl("scaled_dot_product_attention", _fused, "AutogradMeta")


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1] if enable_gqa else 1
    out: torch.Tensor = (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query,
            _repeated(key, groups),
            _repeated(value, groups),
            dropout_p,
            is_causal,
            attn_mask=attn_mask,
            scale=scale,
        )[0]
    )
    return out


def _repeated(heads: torch.Tensor, times: int) -> torch.Tensor:
    return heads if times == 1 else heads.repeat_interleave(times, 1)


class Meter:
    """Bytes of the meta device, live and at the peak, operator by operator.

    Written apart from the ledger, which is to agree with it.  ``live`` and
    ``peak`` are in bytes; storages that are older are told by ``add``.
    """

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self._sizes: dict[int, int] = {}
        self._mode = _Seen(self.add)

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self._sizes:
            self._sizes[address] = storage.nbytes()
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            # The object that Python has for a storage lives as long as it.
            weakref.finalize(storage, self._gone, address)

    def _gone(self, address: int) -> None:
        self.live -= self._sizes.pop(address)

    def __enter__(self) -> Meter:
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._mode.__exit__(kind, error, where)


class _Seen(TorchDispatchMode):
    """Hands on every meta tensor that an operator gives."""

    def __init__(self, add: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._add = add

    def __torch_dispatch__(
        self,
        operator: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        out = operator(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, torch.Tensor) and value.is_meta:
                self._add(value)
        return out
