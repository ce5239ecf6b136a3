"""TensorFlow: which classes are watched, and what it says of its memory."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable
from typing import Any

#: What is imported when all that is asked for is there.
MODULE = "tensorflow"


def know() -> None:
    """A walk knows what TensorFlow's tensors are, and which there are."""
    from .. import _arrays

    _arrays.know_tensorflow(_tensor_class(), _recorder_class())
    _arrays.note(_live())


def install() -> None:
    """Births, deaths, calls and gradients are seen from here on.

    Raises RuntimeError or AttributeError where this TensorFlow is not as we
    know it.
    """
    from .. import _arrays

    _arrays.install_tensorflow(
        _tensor_class(), _recorder_class(), (_function_class(),)
    )
    _arrays.note(_live())
    tape = _tape_class()
    if not isinstance(tape.gradient, _Gradient):
        tape.gradient = _Gradient(tape.gradient)
    calls = _calls_class()
    if not isinstance(calls.called_with_tracing, _Trace):
        calls.called_with_tracing = _Trace(calls.called_with_tracing)


def uninstall() -> None:
    """What of ours is TensorFlow's own to take out."""
    for cls in (_tape_class(), _calls_class()):
        for name, value in list(vars(cls).items()):
            if isinstance(value, _Method):
                setattr(cls, name, value.original)


class _Method:
    """A method of TensorFlow's, after which something is noted."""

    def __init__(self, original: Any) -> None:
        functools.update_wrapper(self, original)
        self.original = original

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.original(*args, **kwargs)
        self.note()
        return found

    def note(self) -> None:
        """What was called has come to its end."""
        raise NotImplementedError


class _Gradient(_Method):
    """``GradientTape.gradient``, whose end may end a step."""

    def note(self) -> None:
        from .. import _arrays

        _arrays.backward()


class _Trace(_Method):
    """Where TensorFlow counts a call for which a function was traced: the
    function itself has returned by then, and no frame of ours is in what it
    may raise."""

    def note(self) -> None:
        from .. import _arrays

        _arrays.traced()


def version() -> str:
    """TensorFlow's own."""
    tensorflow: Any = sys.modules["tensorflow"]
    return str(tensorflow.__version__)


# -- what TensorFlow says -----------------------------------------------------


def own_count() -> dict[str, int]:
    """TensorFlow has no count of its own: nothing to compare with."""
    return {}


def allocated() -> dict[str, tuple[int, int | None]]:
    """(bytes in use, their limit) by device, where its allocator tells."""
    import tensorflow as tf

    found: dict[str, tuple[int, int | None]] = {}
    for device in tf.config.list_logical_devices("GPU"):
        name = device.name.rpartition("device:")[2]
        used = tf.config.experimental.get_memory_info(name)["current"]
        found[f"tensorflow:{name}"] = (int(used), None)
    return found


def escaped() -> tuple[type, int] | None:
    """Symbolic tensors that outlive their function are its graph's."""
    return None


def _live() -> Iterable[Any]:
    cls = _tensor_class()
    return [op for op in gc.get_objects() if type(op) is cls]


def _tensor_class() -> type:
    from tensorflow.python.framework import ops

    return ops.EagerTensor  # type: ignore[no-any-return]


def _function_class() -> type:
    from tensorflow.python.eager.polymorphic_function import (
        polymorphic_function,
    )

    return polymorphic_function.Function  # type: ignore[no-any-return]


def _calls_class() -> Any:
    """Who counts the calls of compiled functions, with and without traces."""
    from tensorflow.python.eager.polymorphic_function import (
        polymorphic_function,
    )

    return polymorphic_function._FrequentTracingDetectorManager


def _recorder_class() -> type:
    """Of the C++ object behind each tape: only one that is made tells."""
    from tensorflow.python import pywrap_tfe

    made = pywrap_tfe.TFE_Py_TapeSetNew(False, False)
    pywrap_tfe.TFE_Py_TapeSetRemove(made)
    return type(made)


def _tape_class() -> Any:
    from tensorflow.python.eager import backprop

    return backprop.GradientTape
