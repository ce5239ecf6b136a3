"""Batches of a data set are kept for a second look at them."""

import sys
from collections import deque

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"


@tf.function
def step(x):
    return tf.reduce_sum(tf.sin(x))


def main(seen):
    data = tf.data.Dataset.range(4000).map(lambda n: tf.cast(n, tf.float32))
    total = 0.0
    for batch in data.batch(50):
        seen.append(batch)  # holder: .seen
        total += float(step(batch))
    print(len(seen), total)


main([] if LEAKY else deque(maxlen=4))
