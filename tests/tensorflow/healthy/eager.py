"""An eager loop with an optimizer of Keras."""

import keras
import tensorflow as tf


def main():
    w = tf.Variable(tf.ones((16, 4)))
    optimizer = keras.optimizers.Adam(1e-2)
    for i in range(80):
        x = tf.fill((8, 16), 0.01 * (i % 7))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    print(float(loss))


main()
