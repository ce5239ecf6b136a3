"""Persistent tapes are kept with all that they have recorded."""

import sys

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"
tapes = []


def main():
    w = tf.Variable(tf.ones((16, 16)))
    for i in range(50):
        x = tf.fill((4, 16), 0.01 * i)
        with tf.GradientTape(persistent=True) as tape:
            h = tf.tanh(x @ w)
            loss = tf.reduce_mean(h * h)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        if LEAKY:
            tapes.append(tape)  # holder: tapes
    print(float(tf.reduce_sum(w)))


main()
