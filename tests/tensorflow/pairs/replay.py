"""Q-learning: old target networks stay in the list of those to be averaged."""

import collections
import random
import sys

import tensorflow as tf

LEAKY = sys.argv[1] == "leaky"


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.random.stateless_normal((4, 8), (1, 2)) * 0.3)
        self.v = tf.Variable(tf.random.stateless_normal((8, 2), (3, 4)) * 0.3)

    def __call__(self, x):
        return tf.nn.relu(x @ self.w) @ self.v


class Learner:
    def __init__(self):
        self.online, self.target = Net(), Net()
        self.retired = []
        self.replay = collections.deque(maxlen=64)

    @tf.function
    def update(self, states, rewards):
        with tf.GradientTape() as tape:
            future = tf.reduce_max(self.target(states), axis=1)
            chosen = tf.reduce_max(self.online(states), axis=1)
            loss = tf.reduce_mean((rewards + 0.9 * future - chosen) ** 2)
        variables = [self.online.w, self.online.v]
        for variable, grad in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.01 * grad)
        return loss

    def sync(self):
        old = [tf.identity(v.value() * 1.0) for v in self.target.variables]
        self.retired.append(old)  # holder: .retired
        if not LEAKY:
            del self.retired[:-2]
        for mine, theirs in zip(self.target.variables, self.online.variables):
            mine.assign(theirs)


def main():
    random.seed(0)
    learner = Learner()
    for step in range(160):
        state = tf.fill((4,), random.random())
        learner.replay.append((state, float(step % 3)))
        batch = random.choices(learner.replay, k=8)
        states = tf.stack([s for s, _ in batch])
        rewards = tf.constant([r for _, r in batch])
        learner.update(states, rewards)
        if step % 2 == 1:
            learner.sync()
    print(len(learner.replay), learner.update.experimental_get_tracing_count())


main()
