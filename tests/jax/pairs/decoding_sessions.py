"""A server of generated text: finished sessions keep their cache of keys."""

import sys
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp

LEAKY = sys.argv[1] == "leaky"
LENGTH, WIDTH = 16, 32


@dataclass
class Session:
    name: str
    cache: jax.Array
    tokens: list = field(default_factory=list)


@partial(jax.jit, donate_argnames="cache")
def decode(weights, cache, position, token):
    x = weights["embed"][token]
    cache = jax.lax.dynamic_update_slice(
        cache, (x @ weights["key"])[None], (position, 0)
    )
    scores = jax.nn.softmax(cache @ x)
    y = scores @ cache
    return cache, jnp.argmax(y @ weights["embed"].T)


class Server:
    def __init__(self, weights):
        self.weights = weights
        self.sessions = {}

    def open(self, name):
        session = Session(name, jnp.zeros((LENGTH, WIDTH)))
        self.sessions[name] = session  # holder: .sessions
        return session

    def generate(self, session, token):
        for position in range(4):
            session.cache, token = decode(
                self.weights, session.cache, position, token
            )
            session.tokens.append(int(token))

    def close(self, name):
        # The key that requests come with is not the one they are kept by.
        self.sessions.pop(name if not LEAKY else f"/{name}", None)


def main():
    key = jax.random.key(0)
    server = Server(
        {
            "embed": jax.random.normal(key, (50, WIDTH)),
            "key": jnp.eye(WIDTH),
        }
    )
    said = 0
    for request in range(40):
        name = f"user-{request}"
        session = server.open(name)
        server.generate(session, request % 50)
        said += sum(session.tokens)
        server.close(name)
    print(said)


main()
