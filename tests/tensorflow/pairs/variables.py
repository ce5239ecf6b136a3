"""A variable for each episode is kept, not assigned to."""

import sys

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"
states = []


@tf.function
def act(x):
    return tf.tanh(x)


def main():
    state = tf.Variable(tf.zeros((32, 32)))
    for i in range(60):
        value = act(tf.fill((32, 32), 0.01 * i))
        if LEAKY:
            states.append(tf.Variable(value))  # holder: states
        else:
            state.assign(value)
    print(len(states), float(tf.reduce_sum(state)))


main()
