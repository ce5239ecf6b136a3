"""JAX: which classes are watched, and what JAX itself says of its memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType
from typing import Any

#: What is imported when all that is asked for is there.
MODULE = "jax"


def know() -> None:
    """A walk knows what JAX's arrays are, and which there are."""
    from .. import _arrays

    _arrays.know_jax(_array_class())
    _arrays.note(_live())


def install() -> None:
    """Births, deaths and calls are seen from here on.

    Raises RuntimeError or AttributeError where this JAX is not as we know it.
    """
    import jax
    from jax import stages

    from .. import _arrays

    functions = type(jax.jit(_nothing))
    _arrays.install_jax(_array_class(), functions, (stages.Compiled,))
    for made in _made_before(functions):
        _arrays.watch_function(made, getattr(made, "_fun", None))
    _arrays.note(_live())
    _listen()
    for name, function in _gradients().items():
        if not isinstance(function, BuiltinFunctionType):
            setattr(_differentiation(), name, _arrays.training(function))


def uninstall() -> None:
    """What of ours is JAX's own to take out."""
    for name, function in _gradients().items():
        if isinstance(function, BuiltinFunctionType):
            setattr(_differentiation(), name, function.__self__)
    monitoring: Any = sys.modules.get("jax._src.monitoring")
    drop: Any = getattr(
        monitoring, "unregister_event_duration_listener", None
    ) or getattr(
        monitoring, "_unregister_event_duration_listener_by_callback", None
    )
    if drop is not None and _was_traced in _listeners(monitoring):
        drop(_was_traced)


def version() -> str:
    """JAX's own."""
    jax: Any = sys.modules["jax"]
    return str(jax.__version__)


# -- what JAX says ------------------------------------------------------------


def own_count() -> dict[str, int]:
    """Bytes of ``jax.live_arrays()`` by device, each buffer once: of those
    that begin alike, as slices of one NumPy array, the largest."""
    buffers: dict[tuple[str, int], int] = {}
    for array in _live():
        for piece in array._arrays:
            (device,) = piece.devices()
            place = f"jax:{device.platform}:{device.id}"
            address = piece.unsafe_buffer_pointer()
            size = piece.on_device_size_in_bytes()
            buffers[place, address] = max(
                size, buffers.get((place, address), 0)
            )
    found: dict[str, int] = {}
    for (place, _), size in buffers.items():
        found[place] = found.get(place, 0) + size
    return found


def allocated() -> dict[str, tuple[int, int | None]]:
    """(bytes in use, their limit) by device, where its allocator tells."""
    import jax

    found = {}
    for device in jax.local_devices():
        stats: Any = device.memory_stats()
        if stats and "bytes_in_use" in stats:
            found[f"jax:{device.platform}:{device.id}"] = (
                int(stats["bytes_in_use"]),
                stats.get("bytes_limit"),
            )
    return found


def escaped() -> tuple[type, int] | None:
    """(class, how many) of tracers that are alive where none is traced."""
    import jax

    core: Any = jax.core
    if not _is_idle():
        return None
    count: dict[type, int] = {}
    for op in gc.get_objects():
        cls = type(op)
        if issubclass(cls, core.Tracer):
            count[cls] = count.get(cls, 0) + 1
    return max(count.items(), key=lambda item: item[1]) if count else None


def _is_idle() -> bool:
    """Whether nothing is being traced on this thread."""
    from jax._src import core

    clean: Any = getattr(core, "trace_state_clean", None)
    return clean is not None and bool(clean())


def _live() -> Iterable[Any]:
    import jax

    return [array for array in jax.live_arrays() if not array.is_deleted()]


def _array_class() -> type:
    from jax._src.array import ArrayImpl

    return ArrayImpl  # type: ignore[no-any-return]


def _made_before(functions: type) -> Iterable[Any]:
    return [op for op in gc.get_objects() if type(op) is functions]


def _nothing() -> None:
    """Compiled by nobody: its wrapper's class is asked for."""


# -- gradients ----------------------------------------------------------------


def _differentiation() -> Any:
    return sys.modules.get("jax._src.interpreters.ad")


def _gradients() -> dict[str, Any]:
    """What JAX runs backwards with, by name; where it has neither, what
    trains is a call like any other."""
    names = ("backward_pass", "backward_pass3")
    return {
        name: getattr(_differentiation(), name)
        for name in names
        if hasattr(_differentiation(), name)
    }


# -- traces -------------------------------------------------------------------


def _listen() -> None:
    from jax import monitoring

    if _was_traced not in _listeners(monitoring):
        monitoring.register_event_duration_secs_listener(_was_traced)


def _listeners(monitoring: Any) -> list[Any]:
    get: Any = getattr(monitoring, "get_event_duration_listeners", None)
    if get is None:
        from jax._src import monitoring as inner

        get = inner.get_event_duration_listeners
    return list(get())


def _was_traced(event: str, duration: float, **_: object) -> None:
    if event.endswith("jaxpr_trace_duration"):
        from .. import _arrays

        _arrays.traced()
