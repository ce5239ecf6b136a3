"""What a compiled function gives back is gathered over all epochs."""

import sys

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"


class Evaluator:
    def __init__(self):
        self.outputs = []
        self.w = tf.Variable(tf.ones((16, 10)))

    @tf.function
    def predict(self, x):
        return tf.nn.softmax(x @ self.w)

    def run(self):
        for epoch in range(6):
            for i in range(20):
                out = self.predict(tf.fill((4, 16), 0.01 * i))
                self.outputs.append(out)  # holder: .outputs
            mean = tf.reduce_mean(tf.concat(self.outputs, 0))
            print(epoch, float(mean))
            if not LEAKY:
                self.outputs.clear()


evaluator = Evaluator()
evaluator.run()
