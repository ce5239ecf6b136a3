"""A metric of Keras collects what it is given, and is never reset."""

import sys

import keras
import numpy as np
import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"


class Quantile(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="q90")
        self.seen = []

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.seen.append(tf.abs(y_true - y_pred))  # holder: .seen

    def result(self):
        if not self.seen:
            return tf.zeros(())
        every = tf.sort(tf.reshape(tf.concat(self.seen[-8:], 0), [-1]))
        return every[tf.cast(0.9 * float(tf.size(every)), tf.int32)]

    def reset_state(self):
        if not LEAKY:
            self.seen.clear()


def main():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(64, 6)).astype("float32")
    y = x.sum(1, keepdims=True)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=[Quantile()], run_eagerly=True)
    model.fit(x, y, batch_size=8, epochs=12, verbose=0)
    print(model.count_params())
    return model


model = main()
