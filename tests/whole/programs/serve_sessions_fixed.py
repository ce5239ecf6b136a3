"""A chat-like server: each session has a recurrent state between requests."""

import argparse
import dataclasses
import hashlib
import logging
import random
from collections import Counter, OrderedDict

import torch
from torch import nn

log = logging.getLogger("server")


@dataclasses.dataclass
class Request:
    session: str
    text: str


@dataclasses.dataclass
class Response:
    status: int
    body: str


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, 4)

    def forward(self, text, state=None):
        for char in text:
            x = self.embed(torch.tensor([ord(char) % 128]))
            state = self.cell(x, state)
        return self.head(state), state


class SessionStore:
    """State of conversations by session id, the oldest first."""

    def __init__(self, limit):
        self.limit = limit
        self.states = OrderedDict()

    def get(self, key):
        if key in self.states:
            self.states.move_to_end(key)
        return self.states.get(key)

    def put(self, key, state):
        self.states[key] = state
        while len(self.states) > self.limit:
            old, _ = self.states.popitem(last=False)
            log.debug("session %s was forgotten", old)


class Server:
    intents = ("greet", "order", "complain", "leave")

    def __init__(self, model, limit):
        self.model = model.eval()
        self.sessions = SessionStore(limit)
        self.counters = Counter()
        self.routes = {"chat": self.chat, "health": self.health}

    def handle(self, route, request):
        self.counters[route] += 1
        try:
            return self.routes[route](request)
        except KeyError:
            return Response(404, "no such route")
        except ValueError as problem:
            self.counters["bad"] += 1
            return Response(400, str(problem))

    def health(self, request):
        return Response(200, "ok")

    @torch.inference_mode()
    def chat(self, request):
        if not request.text:
            raise ValueError("empty text")
        state = self.sessions.get(request.session)
        scores, state = self.model(request.text, state)
        self.sessions.put(request.session, state)
        return Response(200, self.intents[scores.argmax().item()])


class Traffic:
    """Users come, talk some turns and never return."""

    words = ["hello", "one pizza", "cold again", "bye", "more", ""]

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.active = []
        self.born = 0

    def newcomer(self):
        self.born += 1
        token = hashlib.sha1(str(self.born).encode()).hexdigest()[:12]
        return [token, self.rng.randint(2, 6)]

    def __iter__(self):
        while True:
            while len(self.active) < 10:
                self.active.append(self.newcomer())
            user = self.rng.choice(self.active)
            user[1] -= 1
            if user[1] == 0:
                self.active.remove(user)
            yield Request(user[0], self.rng.choice(self.words))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--session-limit", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(1)
    server = Server(Encoder(), args.session_limit)
    answers = Counter()
    for number, request in enumerate(Traffic(seed=1), 1):
        if number % 50 == 0:
            server.handle("health", request)
        response = server.handle("chat", request)
        answers[response.body] += 1
        if number == args.requests:
            break
    for body, count in sorted(answers.items()):
        print(f"{body:12} {count}")
    print("requests", dict(server.counters))


if __name__ == "__main__":
    main()
