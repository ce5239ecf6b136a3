"""Hooks into torch and a view of its autograd graph (C++ extension).

Importing it imports torch and installs nothing.
"""

import torch

def install() -> None:
    """Put the allocator, tensor and engine hooks in place; idempotent.

    Raises RuntimeError where torch refuses.
    """

def uninstall() -> None:
    """Restore what is still ours; blocks that live on stay valid."""

def register() -> None: ...
def installed() -> dict[str, bool]:
    """Which of "allocator", "tensor" and "backward" are in place right now.

    False too where somebody else has replaced ours since.
    """

def rescan() -> None:
    """Hook the tensor classes created since install(); 3 us."""

def graph_size(
    tensor: torch.Tensor, limit: int = 1_000_000
) -> tuple[int, int, int, bool]:
    """Count what tensor.grad_fn keeps: no user code is run.

    Returns (nodes, saved_tensors, saved_bytes, reached_limit); bytes are
    those of distinct storages. Raises RuntimeError while another thread
    may be changing the graph.
    """

def pause_compiler() -> object: ...
def resume_compiler(paused: object, /) -> None: ...
def object_bytes() -> int:
    """Bytes of the TensorImpl and the StorageImpl of a tensor, as malloc
    gives them: what a tensor takes in C++ at least, besides its numbers.
    """

def walk_failures() -> int:
    """How often a look at one of torch's objects had to be given up."""
