"""Events of torch's CUDA allocator (C++ extension, CUDA builds of torch only).

Importing it attaches nothing.
"""

def attach() -> None:
    """Have the CUDA allocator's events reported; idempotent.

    Raises RuntimeError while CUDA is not initialized, and where the
    allocator in force reports nothing.
    """

def silence() -> None:
    """Report nothing until the next attach()."""

def attached() -> bool:
    """Are events reported now?"""

def allocator() -> str:
    """ "native", "cudaMallocAsync" or "pluggable"."""

def rules() -> tuple[int, tuple[int, ...]]:
    """(max_split_size, roundup_power2_divisions) as configured."""

def torch_version() -> str:
    """The version of torch that this module was compiled against."""
