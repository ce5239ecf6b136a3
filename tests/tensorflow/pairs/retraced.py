"""A Python number is an argument: each value is traced anew."""

import sys

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"


@tf.function
def step(x, n):
    return x * (1.0 - 0.001 * tf.cast(n, tf.float32))


def main():
    x = tf.ones((8, 8))
    for n in range(40):
        x = step(x, n if LEAKY else tf.constant(n))  # warned: `n`
    print(float(tf.reduce_sum(x)))


main()
