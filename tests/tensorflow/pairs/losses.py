"""Losses of an eager loop are kept as tensors."""

import sys

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"
losses = []


def main():
    w = tf.Variable(tf.ones((16, 4)))
    for i in range(80):
        x = tf.fill((8, 16), 0.01 * i)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        (grad,) = tape.gradient(loss, [w])
        w.assign_sub(0.1 * grad)
        losses.append(loss if LEAKY else float(loss))  # holder: losses
    print(len(losses), float(tf.reduce_sum(w)))


main()
