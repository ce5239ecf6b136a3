"""Keras fits a model, with validation."""

import keras
import numpy as np


def main():
    model = keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    x = np.random.default_rng(0).normal(size=(400, 16)).astype("float32")
    y = x.sum(1, keepdims=True)
    done = model.fit(
        x, y, batch_size=8, epochs=3, verbose=0, validation_split=0.2
    )
    print(len(done.history["loss"]))


main()
