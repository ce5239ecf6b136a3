"""A model is built for each candidate of a search, and all are kept.

A model of Keras's that is let go is a garbage cycle: the fixed program has it
collected; with "dropped" it waits for the collector.
"""

import gc
import sys

import keras
import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"


def build(width):
    return keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(width), keras.layers.Dense(1)]
    )


@tf.function
def score(y):
    return tf.reduce_mean(y * y)


class Search:
    def __init__(self):
        self.tried = {}

    def run(self):
        x = tf.ones((4, 8))
        for trial in range(40):
            model = build(8 + trial % 3)
            value = float(score(model(x)))
            self.tried[trial] = model if LEAKY else value  # holder: .tried
            del model
            if sys.argv[1] == "fixed":
                gc.collect()


search = Search()
search.run()
print(len(search.tried))
