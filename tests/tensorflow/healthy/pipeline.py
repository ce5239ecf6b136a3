"""A pipeline of data that shuffles and prefetches."""

import numpy as np
import tensorflow as tf

w = tf.Variable(tf.ones((8, 2)))


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ w))
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def main():
    rows = np.random.default_rng(0).normal(size=(600, 8)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(100).batch(10)
    for _ in range(3):
        for batch in data.prefetch(2):
            loss = step(batch)
    print(float(loss))


main()
