"""The ledger has what the collector's own census of tensors has."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import hypothesis.strategies as st
import tensorflow as tf
from hypothesis import given, settings

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import frameworks, ledger

TENSOR = type(tf.constant(0))


def sizes() -> dict[int, int]:
    """Bytes of every tensor that Python has, by its buffer's address."""
    gc.collect()
    found: dict[int, int] = {}
    for op in gc.get_objects():
        if type(op) is not TENSOR:
            continue
        if op.dtype == tf.resource:
            (one,) = op._handle_data.shape_and_type
            count = 1
            for dim in one.shape.dim:
                count *= dim.size
            found[id(op)] = count * tf.as_dtype(one.dtype).size
        elif op.dtype == tf.string:
            found[id(op)] = 24 * int(tf.size(op))
        elif op.ndim == 0:  # NumPy is given a copy
            found[id(op)] = op.dtype.size
        else:
            array = op._numpy_internal()
            found[array.ctypes.data] = array.nbytes
    return found


def ours() -> int:
    gc.collect()
    ledger.refresh()
    devices = _core.totals()["devices"]
    return devices.get("tensorflow:cpu:0", (0, 0))[0]


@tf.function
def pair(x):
    return x + 1.0, {"sum": tf.reduce_sum(x)}


#: What is done to a list of tensors; n chooses among them.
OPERATIONS = {
    "make": lambda kept, n: kept.append(tf.fill((n % 40 + 1, 4), 1.0)),
    "half": lambda kept, n: kept.append(tf.ones(n % 50 + 1, tf.bfloat16)),
    "words": lambda kept, n: kept.append(tf.constant(["a"] * (n % 9 + 1))),
    "reshape": lambda kept, n: kept.append(tf.reshape(pick(kept, n), [-1])),
    "same": lambda kept, n: kept.append(tf.identity(pick(kept, n))),
    "call": lambda kept, n: kept.append(pair(pick(kept, n))),
    "variable": lambda kept, n: kept.append(
        tf.Variable(tf.ones((n % 20 + 1, 3)))
    ),
    "gradient": lambda kept, n: kept.append(gradient(n)),
    "let go": lambda kept, n: kept and kept.pop(n % len(kept)),
    "cycle": lambda kept, n: kept.append(cycle(tf.ones(n % 20 + 1))),
}


def pick(kept: list, n: int):
    floats = [t for t in kept if type(t) is TENSOR and t.dtype == tf.float32]
    return floats[n % len(floats)] if floats else tf.ones(3)


def gradient(n: int):
    x = tf.ones(n % 20 + 1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    return tape.gradient(y, x)


def cycle(tensor) -> list:
    ring = [tensor]
    ring.append(ring)
    return ring


@settings(
    max_examples=int(os.environ.get("IMPACTARBITER_EXAMPLES", "40")),
    deadline=None,
)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 999)),
        min_size=5,
        max_size=40,
    )
)
def test_random_operations(done: list[tuple[str, int]]) -> None:
    pair(tf.ones(3))
    kept: list = []
    before = sizes()
    with impactarbiter.watch(numpy=False):
        for name, n in done:
            OPERATIONS[name](kept, n)
        counted = ours()
        now = sizes()
        assert counted == sum(now.values()) - sum(
            size for at, size in before.items() if at in now
        )


def test_a_variable_is_its_memory() -> None:
    variable = tf.Variable(tf.ones((10, 10)))
    assert impactarbiter.retained_bytes(variable) == 400
    with impactarbiter.watch():
        assert impactarbiter.retained_bytes(variable) == 400
        assert ours() == 0
        other = tf.Variable(tf.zeros((5, 5)))
        assert ours() == 100
        del other
        assert ours() == 0


def test_tensors_of_one_buffer_count_once() -> None:
    with impactarbiter.watch():
        tensor = tf.ones((10, 10))
        again = tf.reshape(tensor, (100,))
        assert ours() == 400
        held = impactarbiter.explain(again)
        assert "[100] float32 tensorflow:cpu:0" in held.target
        assert held.noun == "tensor"
        del tensor
        assert ours() == 400
        del again, held
        assert ours() == 0


def test_hooks_go_out() -> None:
    gradient_before = tf.GradientTape.gradient
    with impactarbiter.watch():
        assert frameworks.in_place() == {"tensorflow": True}
        assert tf.GradientTape.gradient.__doc__ == gradient_before.__doc__
        gradient(3)
    assert tf.GradientTape.gradient is gradient_before
    assert frameworks.in_place() == {}
    pair(tf.ones(2))


def test_a_function_that_takes_gradients_makes_steps() -> None:
    @tf.function
    def evaluate(x):
        return tf.reduce_sum(x * x)

    @tf.function
    def train(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * x)
        return tape.gradient(y, x)

    with impactarbiter.watch() as arbiter:
        evaluate(tf.ones(3))
        assert arbiter.report().step_kind == "compiled call"
        for _ in range(4):
            train(tf.ones(3))
            evaluate(tf.ones(3))
        assert arbiter.report().step_kind == "backward"
        assert arbiter.report().steps == 4  # and none within
        gradient(3)
        assert arbiter.report().steps == 5
    with impactarbiter.watch() as arbiter:
        train(tf.ones(3))
        assert arbiter.report().step_kind == "backward"  # known to train


def test_tensorflow_may_be_imported_later() -> None:
    program = """
        import impactarbiter

        arbiter = impactarbiter.watch()
        import tensorflow as tf

        kept = []
        step = tf.function(lambda x: x + 1.0)
        exec(compile(
            "for i in range(60): kept.append(step(tf.fill([8], 0.5)))",
            "<string>", "exec",
        ))
        report = arbiter.stop()
        print(report.findings[0].holder.expression, report.steps)
        print(report.environment["tensorflow"] == tf.__version__)
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["__main__.kept", "60", "True"], done.stderr
