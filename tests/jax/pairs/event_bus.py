"""Workers of a reinforcement learner subscribe anew for each episode."""

import sys

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"


class Bus:
    def __init__(self):
        self.listeners = {}

    def subscribe(self, topic, listener):
        rows = self.listeners.setdefault(topic, [])
        rows.append(listener)  # holder: listeners

    def unsubscribe(self, topic, listener):
        self.listeners[topic].remove(listener)

    def publish(self, topic, value):
        for listener in self.listeners.get(topic, ()):
            listener(value)


@jax.jit
def rollout(policy, key):
    def move(state, noise):
        action = jnp.tanh(state @ policy)
        state = 0.9 * state + 0.1 * action + 0.01 * noise
        return state, (state, -jnp.sum(state**2))

    noise = jax.random.normal(key, (20, 4))
    _, (states, rewards) = jax.lax.scan(move, jnp.ones(4), noise)
    return states, rewards


class Agent:
    def __init__(self, bus):
        self.bus = bus
        self.policy = jnp.zeros((4, 4))
        self.returns = []

    def episode(self, key):
        states, rewards = rollout(self.policy, key)

        def on_update(step):
            if step == 0:
                self.returns.append(float(states[-1].sum()))

        self.bus.subscribe("update", on_update)
        self.policy = self.policy + 0.01 * jnp.mean(rewards)
        self.bus.publish("update", 0 if len(self.returns) < 5 else 1)
        if not LEAKY:
            self.bus.unsubscribe("update", on_update)


def main():
    agent = Agent(Bus())
    key = jax.random.key(2)
    for _ in range(60):
        key, now = jax.random.split(key)
        agent.episode(now)
    print(round(float(agent.policy.sum()), 4))


main()
