"""What watching costs a TensorFlow program: pairs, with and without.

    build/check-tensorflow/bin/python benchmarks/tensorflow_cost.py [PAIRS]

What is printed, framework_pairs.py says.
"""

from __future__ import annotations

from collections.abc import Callable

import framework_pairs
import tensorflow as tf


@tf.function
def small(x):
    return x * 1.0001


WEIGHTS = [tf.Variable(tf.fill((128, 128), 0.01)) for _ in range(8)]
BATCH = tf.ones((32, 128))


def loss_of(batch):
    h = batch
    for weight in WEIGHTS:
        h = tf.tanh(h @ weight)
    return tf.reduce_mean(h**2)


def train(batch):
    with tf.GradientTape() as tape:
        loss = loss_of(batch)
    for weight, grad in zip(
        WEIGHTS, tape.gradient(loss, WEIGHTS), strict=True
    ):
        weight.assign_sub(0.01 * grad)
    return loss


compiled_train = tf.function(train)


def small_call(count: int) -> None:
    x = tf.ones(8)
    for _ in range(count):
        x = small(x)
    x.numpy()


def compiled_training(count: int) -> None:
    for _ in range(count):
        loss = compiled_train(BATCH)
    loss.numpy()


def eager_training(count: int) -> None:
    for _ in range(count):
        loss = train(BATCH)
    loss.numpy()


def eager(count: int) -> None:
    x = tf.ones((16, 16))
    for _ in range(count):
        x = tf.sin(x) + 1.0
    x.numpy()


#: Name -> (loop, steps of one run).
LOOPS: dict[str, tuple[Callable[[int], None], int]] = {
    "a small call of a tf.function": (small_call, 200),
    "a compiled training step, 8 layers": (compiled_training, 60),
    "an eager training step, 8 layers": (eager_training, 20),
    "two eager operations": (eager, 600),
}


if __name__ == "__main__":
    framework_pairs.main(LOOPS)
