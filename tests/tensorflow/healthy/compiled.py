"""A training step that is compiled."""

import tensorflow as tf

w = tf.Variable(tf.ones((16, 1)))


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ w - y))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


def main():
    for i in range(120):
        x = tf.random.stateless_normal((8, 16), (i, 0))
        loss = step(x, tf.reduce_sum(x, 1, keepdims=True))
    print(float(loss))


main()
