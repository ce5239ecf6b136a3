"""TensorFlow: which classes are watched, and what it says of its memory."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .retraces import Traced

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


def uninstall() -> None:
    """What of ours is TensorFlow's own to take out."""
    tape = _tape_class()
    ours = vars(tape).get("gradient")
    if isinstance(ours, _Gradient):
        tape.gradient = ours.original


class _Gradient:
    """``GradientTape.gradient``, whose end may end a step."""

    def __init__(self, original: Any) -> None:
        functools.update_wrapper(self, original)
        self.original = original

    def __get__(self, tape: Any, cls: type | None = None) -> Any:
        return self if tape is None else functools.partial(self, tape)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .. import _arrays

        found = self.original(*args, **kwargs)
        _arrays.backward()
        return found


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


def retraced() -> Iterator[Traced]:
    """Functions by how often they were traced, and for what of late."""
    cls = _function_class()
    known: dict[tuple[str, int, str], Traced] = {}
    for op in gc.get_objects():
        if type(op) is not cls:
            continue
        function: Any = op
        code = getattr(function.python_function, "__code__", None)
        if code is None or "tensorflow" in function.python_function.__module__:
            continue
        key = (code.co_filename, code.co_firstlineno, code.co_name)
        one = known.setdefault(key, Traced(*key))
        one.traces += function.experimental_get_tracing_count()
        one.objects += 1
        for made in function._list_all_concrete_functions()[-16:]:
            one.signatures.append(_signature(made))
    return iter(known.values())


def _signature(made: Any) -> dict[str, tuple[str, str]]:
    found = {}
    for name, parameter in made.function_type.parameters.items():
        kind = parameter.type_constraint
        plain = type(kind).__name__ == "Literal"
        words = "Python value of" if plain else "shape of"
        found[str(name)] = (words, str(getattr(kind, "value", kind))[:60])
    return found


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


def _recorder_class() -> type:
    """Of the C++ object behind each tape: only one that is made tells."""
    from tensorflow.python import pywrap_tfe

    made = pywrap_tfe.TFE_Py_TapeSetNew(False, False)
    pywrap_tfe.TFE_Py_TapeSetRemove(made)
    return type(made)


def _tape_class() -> Any:
    from tensorflow.python.eager import backprop

    return backprop.GradientTape
