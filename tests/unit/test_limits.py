"""What the source says of how long a container may get."""

from __future__ import annotations

import ast
import linecache
import textwrap
from pathlib import Path

import pytest

from impactarbiter.judging.program import source_file, unparsed
from impactarbiter.judging.program.collector import collects
from impactarbiter.judging.program.limits import (
    End,
    ends,
    is_set_elsewhere,
    limit,
    taken_out,
    taken_out_elsewhere,
)
from impactarbiter.judging.program.source_file import Names
from impactarbiter.judging.program.uses import goes_through
from impactarbiter.judging.verdicts.verdict import registries_above
from impactarbiter.model import path as paths

#: The statement with ``# here`` grows something.
LIMITED = {
    "put back once it was cut": """
        def add(self, name, value):
            column = self.columns.setdefault(name, [])
            column = column + [value]
            if len(column) > self.limit:
                column = column[-self.limit // 2 :]
            self.columns[name] = column  # here
        """,
    "a ring": """
        def push(self, item):
            if len(self.items) < self.most:
                self.items.append(item)  # here
            else:
                self.items[self.at] = item
        """,
    "the other way round": """
        def push(items, item, most):
            if most > len(items):
                items.append(item)  # here
        """,
    "an else": """
        def push(items, item):
            if len(items) >= 8:
                items.pop(0)
            else:
                items += [item]  # here
        """,
    "dropped afterwards": """
        def push(self, key, value):
            self.made[key] = value  # here
            while len(self.made) > self.most:
                self.made.popitem(last=False)
        """,
    "flushed": """
        def push(self, row):
            self.rows.append(row)  # here
            if self.last or len(self.rows) == 64:
                write(self.rows)
                self.rows = []
        """,
    "a room that is left": """
        def push(self, item):
            room = self.most - len(self.items)
            if room <= 0:
                return
            self.items.append(item)  # here
        """,
    "a tensor that is made longer": """
        def push(self, row):
            if self.rows.shape[0] < self.most:
                self.rows = torch.cat([self.rows, row])  # here
        """,
    "cut": """
        def push(self, rows):
            self.rows.extend(rows)  # here
            del self.rows[: -self.most]
        """,
    "the last ones": """
        def push(self, row):
            self.rows.append(row)  # here
            self.rows = self.rows[-50:]
        """,
    "returned before": """
        def push(kept, row):
            if len(kept) >= 10:
                return
            kept.append(row)  # here
        """,
    "a heap": """
        def push(best, item):
            heapq.heappush(best, item)  # here
            if len(best) > 3:
                heapq.heappop(best)
        """,
    "no function": """
        for row in rows:
            if len(kept) < 5:
                kept.append(
                    row)  # here
        """,
}
FREE = {
    "put back as it is": """
        def add(self, name, value):
            column = self.columns.setdefault(name, [])
            column = column + [value]
            if len(column) % self.limit == 0:
                column = column[:]
            self.columns[name] = column  # here
        """,
    "no test": """
        def push(items, item):
            items.append(item)  # here
        """,
    "a test of another": """
        def push(items, others, item):
            if len(others) < 8:
                items.append(item)  # here
        """,
    "a test that drops nothing": """
        def push(items, item):
            items.append(item)  # here
            if len(items) > 100:
                print("many")
        """,
    "a lower limit": """
        def push(items, item):
            if len(items) > 0:
                items.append(item)  # here
        """,
    "a test of a remainder": """
        def push(items, item):
            if len(items) % 10 < 5:
                items.append(item)  # here
        """,
    "another function's": """
        def trim(items):
            while len(items) > 5:
                items.pop()
        def push(items, item):
            items.append(item)  # here
        """,
    "only where another thing holds": """
        def push(items, item):
            items.append(item)  # here
            if FIXED and len(items) > 5:
                items.pop()
        """,
    "inside of another test": """
        def push(items, item):
            items.append(item)  # here
            if FIXED:
                if len(items) > 5:
                    items.pop()
        """,
    "or else": """
        def push(items, item):
            if len(items) < 5 or not FIXED:
                items.append(item)  # here
        """,
    "left after it": """
        def push(items, item):
            items.append(item)  # here
            if len(items) > 5:
                return
        """,
    "no Python": "def push(:  # here",
}


#: Another statement, marked ``# there``, empties what this one grows.
EMPTIED = {
    "in the other branch of a test that changes": """
        EVERY = 10
        def main():
            rows = []
            for step, batch in enumerate(batches):
                if step % EVERY:
                    rows.append(batch)  # here
                else:
                    rows = [batch]  # there
        """,
    "in the other branch of what is set again": """
        KEEP = False
        def main():
            global KEEP
            for step, batch in enumerate(batches):
                if KEEP:
                    self.rows.append(batch)  # here
                else:
                    self.rows = [batch]  # there
                KEEP = step % 10 != 0
        """,
    "by a loop, what has a default": """
        class Trace:
            def note(self, name, call):
                self.book.setdefault(name, []).append(call)  # here

            def flush(self):
                for calls in self.book.values():
                    calls.clear()  # there
        """,
    "as a loop goes through all of them": """
        class Spread:
            def add(self, outputs):
                for key, buf in self.store.items():
                    buf += [outputs[key]]  # here

            def end(self):
                for buf in self.store.values():
                    buf.clear()  # there
        """,
    "by a loop, what is grown by its key": """
        class Spread:
            def add(self, key, output):
                self.store[key].append(output)  # here

            def end(self):
                for key, rows in list(self.store.items()):
                    print(key, rows)
                    del rows[:]  # there
        """,
    "what had a key, as it is handed on": """
        class Bus:
            def publish(self, topic, event):
                if topic in self._inbox:
                    self._inbox[topic].append(event)  # here

            def drain(self, topic):
                events, self._inbox[topic] = self._inbox[topic], []  # there
                return events
        """,
    "what had a key, once it is used": """
        class Log:
            def store(self, **values):
                for key, value in values.items():
                    if not (key in self.rows):
                        self.rows[key] = []
                    self.rows[key].append(value)  # here

            def write(self, key):
                print(mean(self.rows[key]))
                self.rows[key] = []  # there
        """,
    "all keys": """
        class Log:
            def store(self, name, value):
                self.rows[name].append(value)  # here

            def clear(self):
                for name in self.rows.keys():
                    self.rows[name] = []  # there
        """,
    "a metric that is told to begin anew": """
        def evaluate(batches):
            auc, error = AUROC(), MeanError()
            for x, y in batches:
                auc.update(x, y)  # here
            for metric in (auc, error):
                metric.reset()  # there
        """,
    "a tensor that is set anew": """
        class Scores:
            def __init__(self):
                self.all = torch.empty(0)

            def add(self, scores):
                self.all = torch.cat([self.all, scores])  # here

            def start(self):
                self.all = torch.empty(0)  # there
        """,
    "a key's list is another": """
        class History:
            def begin(self, trainer):
                trainer.history["loss"] = []  # there
            def step(self, trainer, loss):
                trainer.history["loss"].append(loss)  # here
        """,
    "another function's": """
        def trim(items):
            while len(items) > 5:
                items.pop()  # there
        def push(items, item):
            items.append(item)  # here
        """,
    "only where another thing holds": """
        def push(items, item):
            items.append(item)  # here
            if FIXED and len(items) > 5:
                items.pop()  # there
        """,
    "inside of another test": """
        def push(items, item):
            items.append(item)  # here
            if FIXED:
                while len(items) > 5:
                    items.pop()  # there
        """,
    "an epoch's end": """
        class Metrics:
            def __init__(self):
                self.rows, self.ends = [], 0
            def on_batch(self, row):
                self.rows.append(row)  # here
            def on_epoch(self):
                self.rows, self.ends = [], self.ends + 1  # there
        """,
    "the dict that a list lies in": """
        def on_batch(self, key, row):
            self.rows[key].append(row)  # here
        def on_epoch(self):
            self.rows.clear()  # there
        """,
    "one key of it": """
        def open(self, key):
            self.sessions[key] = Session()  # here
        def close(self, key):
            del self.sessions[key]  # there
        """,
    "a swap": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def take(self):
            rows, self.rows = self.rows, []  # there
            return rows
        """,
    "a slice": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def on_epoch(self):
            self.rows[:] = self.rows[-9:]  # there
        """,
    "those that a condition lets through": """
        def on_batch(self, key, row):
            self.rows[key] = row  # here
        def expire(self):
            self.rows = {k: r for k, r in self.rows.items() if r}  # there
        """,
    "setattr": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def on_epoch(self):
            setattr(self, "rows", [])  # there
        """,
    "a copy with another": """
        def step(state, row):
            state.rows.append(row)  # here
        def on_epoch(state):
            return dataclasses.replace(state, rows=[])  # there
        """,
    "its __init__": """
        class Metrics:
            def __init__(self):
                self.rows = []
            def on_batch(self, row):
                self.rows.append(row)  # here
            def on_epoch(self):
                self.__init__()  # there
        """,
    "a queue that another takes from": """
        class Worker:
            def __init__(self, name, made, seen=None):
                self.made, self.seen = made, seen
            def run(self, row):
                self.seen.put(row)  # here
        def main():
            rows = Queue()
            worker = Worker("one", Queue(), seen=rows)
            while not rows.empty():
                write(rows.get(True))  # there
        """,
    "a list that another empties": """
        class Worker:
            def __init__(self, rows):
                self.kept = rows
            def run(self, row):
                self.kept.append(row)  # here
        def main():
            rows = []
            Worker(rows).run(1)
            rows.clear()  # there
        """,
    "what it is handed to": """
        def drain(queue):
            while queue:
                write(queue.popleft())
        class Worker:
            def on_batch(self, row):
                self.rows.append(row)  # here
            def on_epoch(self):
                drain(self.rows)  # there
        """,
    "a method that it is handed to": """
        class Worker:
            def drain(self, queue, most):
                del queue[:-most]
            def on_batch(self, row):
                self.rows.append(row)  # here
            def on_epoch(self):
                self.drain(self.rows, 9)  # there
        """,
    "a heap's least": """
        def push(self, row):
            heapq.heappush(self.rows, row)  # here
        def least(self):
            return heapq.heappop(self.rows)  # there
        """,
    "another name of it": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def on_epoch(self):
            rows = self.rows
            write(rows)
            rows.clear()  # there
        """,
    "the loop's own": """
        rows = []
        for batch in batches:
            rows.append(batch)  # here
            if batch.last:
                write(rows)
                rows = []  # there
        """,
    "one of several gone through": """
        def on_batch(self, row, name):
            self.rows.append(row)  # here
            self.names.append(name)
        def on_epoch(self):
            for part in (self.rows, self.names):
                part.clear()  # there
        """,
    "a variable of several gone through": """
        def main():
            rows, names = [], []
            for batch in batches:
                rows.append(batch)  # here
                if batch.last:
                    for part in [names, rows]:
                        del part[:]  # there
        """,
    "a script's loop": """
        for epoch in range(9):
            for batch in batches:
                metrics.rows.append(batch)  # here
            metrics.rows = []  # there
        """,
}
NEVER_EMPTIED = {
    "in the other branch of a test that comes out the same": """
        KEEP = "keep" in sys.argv
        def main():
            rows = []
            for step, batch in enumerate(batches):
                if not KEEP:
                    rows = [batch]
                elif batch is not None:
                    rows.append(batch)  # here
        """,
    "in the other branch of what the command line gave": """
        args = parser.parse_args()
        def main(self):
            for step, batch in enumerate(batches):
                if args.keep and args.most > 1:
                    self.rows.append(batch)  # here
                else:
                    self.rows = [batch]
        """,
    "by a loop over another's": """
        class Spread:
            def add(self, outputs):
                for key, buf in self.store.items():
                    buf += [outputs[key]]  # here

            def end(self):
                for buf in self.other.values():
                    buf.clear()
        """,
    "the other branch": """
        def store(self, key, value):
            if key in self.rows:
                self.rows[key].append(value)  # here
            else:
                self.rows[key] = [value]
        """,
    "where there was none": """
        def store(self, key, value):
            try:
                self.rows[key].append(value)  # here
            except KeyError:
                self.rows[key] = [value]
        """,
    "where a key has nothing": """
        def store(self, key, value):
            if self.rows[key] is None:
                self.rows[key] = []
            self.rows[key].append(value)  # here
        """,
    "all keys, at first": """
        class Log:
            def __init__(self, names):
                self.rows = dict.fromkeys(names)
                for name in self.rows:
                    self.rows[name] = []

            def store(self, name, value):
                self.rows[name].append(value)  # here
        """,
    "a key that is made where there is none": """
        class Log:
            def store(self, **values):
                for key, value in values.items():
                    if not (key in self.rows):
                        self.rows[key] = []
                    self.rows[key].append(value)  # here
        """,
    "another's key": """
        class Log:
            def store(self, key, value):
                self.rows[key].append(value)  # here

            def begin(self, key, other):
                print(self.rows[other])
                self.rows[key] = []
        """,
    "a queue of another name": """
        class Worker:
            def __init__(self, made, seen):
                self.made, self.seen = made, seen
            def run(self, row):
                self.seen.put(row)  # here
        def main():
            made, seen = Queue(), Queue()
            Worker(made, seen).run(1)
            made.get()
        """,
    "a key of a cache": """
        def push(cache, key, row):
            cache.put(key, row)  # here
            return cache.get(key)
        """,
    "another key's list is": """
        class History:
            def begin(self, trainer):
                trainer.history["time"] = []
            def step(self, trainer, loss):
                trainer.history["loss"].append(loss)  # here
        """,
    "a key's first list": """
        class History:
            def step(self, trainer, loss):
                if "loss" not in trainer.history:
                    trainer.history["loss"] = []
                trainer.history["loss"].append(loss)  # here
        """,
    "a key's list before the loop": """
        def main():
            history = {}
            history["loss"] = []
            for step in range(10):
                history["loss"].append(step)  # here
        """,
    "another class's __init__": """
        class Metrics:
            def __init__(self):
                self.rows = []
            def on_batch(self, row):
                self.rows.append(row)  # here
        class Journal:
            def close(self):
                self.__init__()
        """,
    "made where there was none": """
        def on_batch(self, row):
            if not hasattr(self, "rows"):
                self.rows = []
            self.rows.append(row)  # here
        """,
    "made where it was None": """
        def on_batch(self, row):
            if self.rows is None:
                self.rows = []
            self.rows.append(row)  # here
        """,
    "a tuple that keeps it": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def on_epoch(self):
            self.others, self.rows = [], sorted(self.rows)
        """,
    "all of it": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def on_epoch(self):
            self.rows[:] = sorted(self.rows[:])
        """,
    "a longer one": """
        def on_batch(self, row):
            self.rows[len(self.rows) :] = [row]  # here
        """,
    "another function's variable": """
        def main():
            rows = []
            for batch in batches:
                rows.append(batch)  # here
        def other():
            rows = []
            rows[:] = []
            rows.clear()
        """,
    "set before the loop": """
        rows = []
        for batch in batches:
            rows.append(batch)  # here
        """,
    "a name for what another has": """
        def step(self):
            for p in self.params:
                state = self.state[p]
                if not state:
                    state["dx"] = []
                state["dx"].append(p)  # here
        """,
    "a name for an attribute": """
        for batch in batches:
            rows = log.rows
            rows.append(batch)  # here
        """,
    "a name for what another has under a key, or gets": """
        for key, batch in batches:
            rows = made.setdefault(key, [])
            rows.append(batch)  # here
        """,
    "handed to one that takes nothing": """
        def write(rows, most):
            most.clear()
        def on_batch(self, row, others):
            self.rows.append(row)  # here
            write(self.rows, others)
        """,
    "setattr of another": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def on_epoch(self):
            setattr(self, "others", [])
        """,
    "a super's __init__": """
        class Metrics:
            def __init__(self):
                super().__init__()
                self.rows = []
            def on_batch(self, row):
                self.rows.append(row)  # here
        """,
    "set for the first time": """
        class Metrics:
            def __init__(self):
                self.rows = []
            def on_batch(self, row):
                self.rows.append(row)  # here
        """,
    "more of the same": """
        def on_batch(self, row):
            self.rows = self.rows + [row]  # here
        def on_epoch(self):
            self.rows = sorted(self.rows)
        """,
    "others gone through": """
        def on_batch(self, row, name):
            self.rows.append(row)  # here
        def on_epoch(self):
            for part in (self.others, self.names):
                part.clear()
        """,
    "another of its name": """
        def on_batch(self, row):
            self.rows.append(row)  # here
        def other(rows):
            rows.clear()
        """,
}
#: A key is asked for, at ``# there``, before it is set.
KEYED = {
    "not in": """
        def of(self, key):
            if key not in self.made:  # there
                self.made[key] = make(key)  # here
            return self.made[key]
        """,
    "got": """
        def of(self, key):
            found = self.made.get(key)  # there
            if found is None:
                found = self.made[key] = make(key)  # here
            return found
        """,
    "missing": """
        class Made(dict):
            def __missing__(self, key):  # there
                self[key] = make(key)  # here
                return self[key]
        """,
    "missed": """
        def of(made, key):
            try:  # there
                return made[key]
            except KeyError:
                made[key] = make(key)  # here
        """,
}
KEYED_BESIDE = {
    "not in another that gets it too": """
        def of(self, word):
            if word not in self.ids:  # there
                self.ids[word] = len(self.ids)
                self.vectors[word] = make(word)  # here
        """,
    "in another that gets it too, and then away": """
        def of(self, word):
            if word in self.seen:  # there
                return
            self.seen.add(word)
            self.vectors[word] = make(word)  # here
        """,
}
FILLED_IN = {
    "a default": """
        def of(self, key, row):
            self.rows.setdefault(key, []).append(row)  # here
        """,
    "a default dict's": """
        def of(self, key, row):
            self.rows[key].append(row)  # here
        """,
    "what was only read": """
        def of(self, key):
            mine = self.rows[key]  # here
            mine.append(1)
        """,
}
NOT_KEYED = {
    "missing, and no name for the dict": """
        class Made(dict):
            def __missing__(*given):
                self[given[1]] = make(given)  # here
        """,
    "never asked": """
        def of(self, key):
            self.made[key] = make(key)  # here
        """,
    "asked of another": """
        def of(self, key):
            if key not in self.others:
                self.made[key] = make(key)  # here
        """,
    "a list": """
        def of(self, key):
            if key not in self.made:
                self.made.append(key)  # here
        """,
}


def written(tmp_path: Path, source: str) -> tuple[str, int, int]:
    """The file, and its lines that say ``# here`` and ``# there``: or both."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(source))
    lines = linecache.getlines(str(file))
    (here,) = [n for n, line in enumerate(lines, 1) if "# here" in line]
    there = [n for n, line in enumerate(lines, 1) if "# there" in line]
    return str(file), here, there[0] if there else here


def says(
    tmp_path: Path,
    source: str,
    attribute: str | None = None,
    owners: tuple[str, ...] = (),
    dictionary: str | None = None,
) -> tuple[End | None, int]:
    """What ends it, and the line that is expected to."""
    file, here, there = written(tmp_path, source)
    return ends(file, here, attribute, owners, dictionary), there


@pytest.mark.parametrize("name", LIMITED)
def test_its_length_is_limited(tmp_path: Path, name: str) -> None:
    end, _line = says(tmp_path, LIMITED[name])
    assert end is not None and end.kind == "length"


@pytest.mark.parametrize("name", FREE)
def test_nothing_limits_its_length(tmp_path: Path, name: str) -> None:
    end, _line = says(tmp_path, FREE[name])
    assert end is None or end.kind != "length"


def test_a_short_value_says_nothing_of_how_many_keys_come(
    tmp_path: Path,
) -> None:
    source = """
        def add(self, name, row):
            row = row + row
            if len(row) > self.most:
                row = row[: self.most]
            self.rows[name] = row  # here
        """
    assert says(tmp_path, source, "rows", dictionary="rows")[0] is None
    end, _line = says(tmp_path, source)
    assert end is not None and end.kind == "length"


@pytest.mark.parametrize(
    "source", [*NEVER_EMPTIED.values(), *NOT_KEYED.values()]
)
def test_nothing_ends_it(tmp_path: Path, source: str) -> None:
    assert says(tmp_path, source)[0] is None


@pytest.mark.parametrize("name", EMPTIED)
def test_it_is_emptied_elsewhere(tmp_path: Path, name: str) -> None:
    end, line = says(tmp_path, EMPTIED[name])
    assert end is not None and (end.kind, end.site.line) == ("emptied", line)


@pytest.mark.parametrize("source", [*KEYED.values(), *KEYED_BESIDE.values()])
def test_it_is_asked_for_a_key(tmp_path: Path, source: str) -> None:
    end, line = says(tmp_path, source)
    assert end is not None and (end.kind, end.site.line) == ("keys", line)


@pytest.mark.parametrize("name", FILLED_IN)
def test_a_key_that_is_missing_is_added(tmp_path: Path, name: str) -> None:
    assert says(tmp_path, FILLED_IN[name])[0] is None  # a list of it grows
    end, line = says(tmp_path, FILLED_IN[name], dictionary="rows")
    assert end is not None and (end.kind, end.site.line) == ("keys", line)


def test_what_is_set_is_not_asked_for(tmp_path: Path) -> None:
    source = """
        def of(self, key):
            self.rows[key + 1] = self.rows[key] * 2  # here
        """
    assert says(tmp_path, source, dictionary="rows")[0] is None


def test_what_is_grown_by_another_name_is_emptied_by_its_own(tmp_path):
    source = """
        def keep(sink, module, args, out):
            sink.append(out)  # here
        class Probe:
            def read(self):
                self.maps.clear()  # there
    """
    assert says(tmp_path, source)[0] is None
    assert says(tmp_path, source, "0")[0] is None
    end, line = says(tmp_path, source, "maps")
    assert end is not None and (end.kind, end.site.line) == ("emptied", line)


def test_what_a_call_makes_grow_is_emptied_by_its_own_name(tmp_path):
    source = """
        class Handler(logging.handlers.MemoryHandler):
            def flush(self):
                self.buffer.clear()  # there
        def train(steps):
            for step in range(steps):
                log.debug("loss %s", loss)  # here
    """
    assert says(tmp_path, source)[0] is None
    assert says(tmp_path, source, "target")[0] is None
    end, line = says(tmp_path, source, "buffer")
    assert end is not None and (end.kind, end.site.line) == ("emptied", line)


@pytest.mark.parametrize(
    ("function", "ends_it"),
    [
        ("self.seen.close()\n    self.seen = Seen()  # there", True),
        ("self.seen = Seen()", False),  # nothing was there before
        (
            "self.seen = Seen(1)  # there\n"
            "def __init__(self):\n    self.seen = Seen(0)",
            True,
        ),
        (
            "self.seen = Seen(1)\ndef __init__(self):\n    self.seen = None",
            False,
        ),
        ("self.seen.close()\n    self.seen = self.seen.next()", False),
        ("self.seen.close()\n    self.seen = seen", False),  # whose?
        (
            "self.seen.close()\n"
            "    if self.seen is None:\n"
            "        self.seen = Seen()",
            False,
        ),
    ],
)
def test_its_owner_is_replaced(
    tmp_path: Path, function: str, ends_it: bool
) -> None:
    source = f"""
def push(self, row):
    self.rows.append(row)  # here
def other(self, seen):
    {function}
"""
    assert says(tmp_path, source, "rows")[0] is None
    end, line = says(tmp_path, source, "rows", ("seen", "round"))
    assert (end is not None) == ends_it
    assert end is None or (end.kind, end.site.line) == ("emptied", line)


@pytest.mark.parametrize(
    ("function", "ends_it"),
    [
        ("del self.sessions[name]  # there", True),
        ("return self.sessions.pop(name).text()  # there", True),
        ("for name in idle(self.sessions):\n"
         "        del self.sessions[name]  # there", True),
        ("self.sessions = {}  # there", True),
        ("self.sessions[name] = Session()", False),
        ("del self.others[name]", False),
        ("self.sessions[name].rows.sort()", False),
    ],
)  # fmt: skip
def test_an_item_that_leads_to_it_is_taken_out(
    tmp_path: Path, function: str, ends_it: bool
) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "def push(self, row):\n"
        "    self.last = torch.cat(\n"
        "        [self.last, row],\n"
        "    )\n"
        "def close(self, name):\n"
        f"    {function}\n"
    )
    assert taken_out(str(file), 3, ("unknown",)) is None
    end = taken_out(str(file), 3, ("unknown", "sessions"))
    assert (end is not None) == ends_it
    if end is not None:
        (there,) = [
            n
            for n, line in enumerate(linecache.getlines(str(file)), 1)
            if "# there" in line
        ]
        assert (end.kind, end.site.line) == ("emptied", there)


def test_an_item_is_taken_out_in_another_file(tmp_path: Path) -> None:
    server, other = tmp_path / "server.py", tmp_path / "other.py"
    server.write_text("def close(self, name):\n    del self.sessions[name]\n")
    other.write_text("sessions = 'no'\n")
    files = (str(tmp_path / "gone.py"), str(other), str(server))
    end = taken_out_elsewhere(files, ("sessions",))
    assert end is not None and end.site is not None
    assert (end.kind, end.site.file, end.site.line) == (
        "emptied",
        str(server),
        2,
    )
    assert taken_out_elsewhere(files[:2], ("sessions",)) is None


@pytest.mark.parametrize(
    ("way", "registries"),
    [
        ([".server", ".sessions", "['a']", ".rows"], ("sessions",)),
        ([".pools", "[0]", ".sessions", "['a']"], ("sessions", "pools")),
        ([".sessions", "['a']", "<type>", ".book"], ()),  # of its class
        ([".sessions", ".rows"], ()),
    ],
)
def test_what_an_item_leads_to_by_what_is_its_own(
    way: list[str], registries: tuple[str, ...]
) -> None:
    kinds = {".": "attribute", "[": "key", "<": "reference"}
    edges = [
        paths.Edge(kinds[text[0]], text.strip("."), "object", text)
        for text in way
    ]
    last = paths.Edge("index", "0", "Tensor", "[0]")
    path = paths.Path("main()", (*edges, last))
    assert registries_above(path, len(way)) == registries


def test_a_file_that_is_not_there() -> None:
    assert ends("/no/such/file.py", 1) is None
    assert taken_out("/no/such/file.py", 1, ("sessions",)) is None


def test_a_look_parses_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keeps no tree when it is over."""
    parsed: list[int] = []
    parse = source_file.tree_of

    def counted(text: str) -> ast.Module:
        parsed.append(len(text))
        return parse(text)

    monkeypatch.setattr(source_file, "tree_of", counted)
    here = "def f(one, two):\n    one.append(two)\n"
    files = []
    for number in range(3):
        (tmp_path / f"part{number}.py").write_text(here + "# more" * 20_000)
        files.append(str(tmp_path / f"part{number}.py"))
    (tmp_path / "large.py").write_text(here + "x = [1, 2, 3]\n" * 20_000)
    large = str(tmp_path / "large.py")

    with source_file.each_parsed_once():
        for file in files[:2]:
            assert limit(file, 2) is ends(file, 2) is None
            assert taken_out(file, 2, ("one",)) is None
        assert len(parsed) == 2
        assert limit(large, 2) is ends(large, 2) is None
        assert len(parsed) == 2
        # Of trees there are no more than of one file of that size.
        assert ends(files[2], 2) is None
        assert [*source_file._trees[0]] == files[2:]
    assert not source_file._trees
    for file in (*files[:2], large):
        assert limit(file, 2) is ends(file, 2) is None
    assert len(parsed) == 3
    assert source_file.source_of(large) is None
    assert not unparsed.mentions(large, ("one",))
    assert unparsed.is_unread(large, ("one",))
    assert not unparsed.is_unread(files[0], ("one",))


#: What a script does with `run.rows`, and whether it goes through all of it.
GOES_THROUGH = {
    "torch.stack(run.rows)": (0, True),
    "for row in run.rows: print(row)": (0, True),
    "def f(): return run.rows": (0, True),
    "last = run.rows[-5:]": (0, True),
    "found = max(run.rows, key=len)": (0, True),
    "for name, row in run.rows.items(): print(row)": (0, True),
    "run.rows.append(1)": (0, False),
    "print(len(run.rows), run.rows[0], run.rows.get(3))": (0, False),
    "if run.rows and key in run.rows: print(1)": (0, False),
    "run.rows = []": (0, False),
    "rows = []\nprint(rows)": (0, False),
    "print(run.rows['a'])": (1, True),
    "run.rows['a'].append(len(run.rows['b']))": (1, False),
    "print(run.rows['a'][0])": (1, False),
    "print(run.rows)": (1, True),
}


@pytest.mark.parametrize("code", GOES_THROUGH)
def test_what_goes_through_all_of_it(tmp_path: Path, code: str) -> None:
    depth, expected = GOES_THROUGH[code]
    path = tmp_path / "script.py"
    path.write_text(code)
    names = Names(attributes=frozenset({"rows"}))
    assert goes_through(names, [str(path)], depth) is expected


BRANCH = "in the other branch of a test that"


@pytest.mark.parametrize(
    ("source", "elsewhere"),
    [
        (NEVER_EMPTIED[f"{BRANCH} comes out the same"], True),
        (EMPTIED[f"{BRANCH} changes"], False),
        ("for x in y:\n    rows = [x]\n    rows.append(x)  # here", False),
        ("rows = []\nfor x in y:\n    rows.append(x)  # here", False),
    ],
)
def test_a_variable_that_its_loop_sets_in_another_branch(
    tmp_path: Path, source: str, elsewhere: bool
) -> None:
    file, here, _there = written(tmp_path, source)
    assert is_set_elsewhere(file, here) == elsewhere


@pytest.mark.parametrize(
    ("source", "generation"),
    [
        ("import gc\nfor x in y:\n    gc.collect()", 2),
        ("from gc import collect\nwhile x:\n    collect(2)", 2),
        ("for x in y:\n    gc.collect(generation=1)", 1),
        ("for x in y:\n    gc.collect(0)\n    gc.collect(z)", 2),
        ("def f():\n    gc.collect()\nfor x in y:\n    f()", 2),
        (
            "def f():\n    gc.collect(1)\ndef g():\n    f()\n"
            "def h(x):\n    for y in x:\n        g()",
            1,
        ),
        ("def f():\n    gc.collect()\n    f()\nf()", None),
        ("import gc\ngc.collect()\nfor x in y:\n    pass", None),
        ("for x in y:\n    rows.collect()", None),
    ],
)
def test_a_file_that_has_the_collector_run(
    tmp_path: Path, source: str, generation: int | None
) -> None:
    file = tmp_path / "program.py"
    file.write_text(source)
    assert collects(str(file)) == generation
