"""Where a program needs the graph of what it keeps, and where it does not."""

import ast
import textwrap
from pathlib import Path

import pytest

from impactarbiter.judging.program.origins import Value
from impactarbiter.judging.program.source_file import Names
from impactarbiter.judging.program.uses import uses_of
from impactarbiter.judging.program.writes import asked_of

HISTORY = Names(variables=frozenset({("module", "history")}))

NEEDED = {
    "by a name for what is given": """
        torch.autograd.grad(outputs=history[-1], inputs=w)
    """,
    "by what a dict spreads": """
        def finish(kept):
            kept[-1].backward()
        finish(**{"kept": history})
    """,
    "in a module that is called": """
        class Meta(nn.Module):
            def forward(self, x):
                return history[-1] * x
        meta = Meta()
        meta(1).backward()
    """,
    "in a module that is called with it": """
        class Meta(nn.Module):
            def forward(self, kept):
                kept[-1].backward()
        meta = Meta()
        meta(history)
    """,
    "by way of __init__": """
        class Meta:
            def __init__(self, kept):
                self.own = kept
            def go(self):
                self.own[-1].backward()
        Meta(history).go()
    """,
    "in a property": """
        class Meta:
            @property
            def total(self):
                return sum(history)
        Meta().total.backward()
    """,
    "in a method of a class": """
        class Meta:
            @classmethod
            def go(cls, kept):
                kept[-1].backward()
        Meta.go(history)
    """,
    "in a lambda": """
        finish = lambda kept: kept[-1].backward()
        finish(history)
    """,
    "as what a lambda gives": """
        total = lambda: sum(history)
        total().backward()
    """,
    "as one of any number": """
        def finish(*kept):
            kept[-1].backward()
        finish(*history)
    """,
    "in what a library calls": """
        def finish(kept):
            kept[-1].backward()
        Thread(target=finish, args=(history,)).start()
    """,
    "by another name for the function": """
        def finish(kept):
            kept[-1].backward()
        ends = {"last": finish}
        ends["last"](history)
    """,
    "by another name for what takes it": """
        from torch.autograd import grad as slope
        slope(history[-1], w)
    """,
    "by a method that is handed on": """
        list(map(torch.Tensor.backward, history))
    """,
    "by a method that is kept": """
        finish = history[-1].backward
        finish()
    """,
    "by a name that is text": """
        getattr(history[-1], "backward")()
    """,
    "in a coroutine": """
        async def total():
            return sum(history)
        async def main():
            kept = await total()
            kept.backward()
    """,
    "in a pattern": """
        match history:
            case [*_, last]:
                last.backward()
    """,
    "from a generator of another": """
        def each():
            yield from history
        for one in each():
            one.backward()
    """,
    "as what a block is about": """
        with contextlib.nullcontext(history) as kept:
            kept[-1].backward()
    """,
    "as a default": """
        def finish(kept=history):
            kept[-1].backward()
        finish()
    """,
    "with an exception": """
        try:
            raise Done(history)
        except Done as done:
            done.args[0][-1].backward()
    """,
    "as an item of an object": """
        class Meta:
            def __getitem__(self, at):
                return history[at]
        Meta()[0].backward()
    """,
    "from an object that is gone through": """
        class Meta:
            def __iter__(self):
                return iter(history)
        for one in Meta():
            one.backward()
    """,
    "in what a function makes": """
        def make():
            def total(times):
                return history[-1] * times
            return total
        make()(3).backward()
    """,
    "by a text that names it": """
        globals()["history"][-1].backward()
    """,
    "in a module that a library calls": """
        class Meta(nn.Module):
            def forward(self, x):
                return history[-1] * x
        meta = Meta()
        meta = torch.compile(meta)
        meta(1).backward()
    """,
    "in a module that another object holds": """
        class Meta(nn.Module):
            def forward(self, x):
                return history[-1] * x
        meta = Meta()
        other = torch.compile(meta)
        other(1).backward()
    """,
    "in what a class has from its base": """
        class Base:
            def __call__(self, kept):
                kept[-1].backward()
        class Meta(Base):
            pass
        meta = Meta()
        meta(history)
    """,
    "as an attribute that a text names": """
        setattr(run, "losses", history)
        sum(run.losses).backward()
    """,
    "as an attribute in a dict of them": """
        vars(run)["losses"] = history
        sum(run.losses).backward()
    """,
    "by way of a variable of the module": """
        def smooth():
            global total
            total = sum(history)
        smooth()
        total.backward()
    """,
    "by what a method gives to a library": """
        class Model(LightningModule):
            def training_step(self, batch):
                return sum(history[-4:])
    """,
    "from another container": """
        other = []
        other.append(history[-1])
        other[0].backward()
    """,
}

#: Where it is asked, by whatever way, whether there is a graph.
NEEDED |= {
    "by a pattern": """
        match history[0]:
            case torch.Tensor(requires_grad=True):
                print("trains")
    """,
    "by a function that calls a method": """
        operator.methodcaller("backward")(history[-1])
    """,
    "by a function that asks, with a name": """
        trains = operator.attrgetter("requires_grad")
        print(*map(trains, history))
    """,
    "by what fails of it": """
        try:
            print(history[-1].numpy())
        except RuntimeError:
            print("trains")
    """,
    "by an array of it that fails": """
        with contextlib.suppress(RuntimeError):
            print(np.array(history))
    """,
    "by one of several that fail": """
        try:
            print(np.array(history))
        except* RuntimeError:
            print("trains")
    """,
    "by what fails of it in a function": """
        def show():
            print(np.array(history))
        def report():
            show()
        try:
            report()
        except (KeyboardInterrupt, RuntimeError):
            print("trains")
    """,
    "by an array of it by another name": """
        from numpy import asarray as array
        with contextlib.suppress(RuntimeError):
            print(array(history))
    """,
    "by an array of a module of NumPy's": """
        import numpy as xp
        with contextlib.suppress(RuntimeError):
            print(xp.linalg.norm(history))
    """,
    "of what was written and read": """
        torch.save(history, "h.pt")
        kept = torch.load("h.pt")
        print(kept[0].requires_grad)
    """,
    "as what may need none": "history[-1].requires_grad_(False)",
    "in a text that is run": "history = []\n"
    "exec('x = history[-1]; x.backward()')",
    "in a text that is run under another name": """
        run.kept = history
        exec("run.kept[-1].backward()")
    """,
    "in a text of parts": "history = []\n"
    "eval('his' + 'tory[-1].backward()')",
    "in a text of any words": """
        history = []
        for line in sys.stdin:
            eval(line)
    """,
    "in a text that a function runs": """
        history = []
        def go(text):
            exec(compile(text, "x", "exec"))
        go(text)
    """,
    "by a name of parts": "history = []\n"
    "globals()['his' + 'tory'][-1].backward()",
    "by any name": """
        history = []
        globals()[name][-1].backward()
    """,
    "in a text that is hashed": "md5(repr(history).encode()).hexdigest()",
    "in a text that is searched": "print('grad_fn' in str(history[0]))",
    "in a text that is measured": "print(len(f'{history}'))",
    "in a text with its type": "seen.add('%s' % history[-1])",
    "in a text of a template": "seen.add('{0!r}'.format(history[-1]))",
    "in texts of all": "seen = set(map(str, history))",
    "in a text that has a name": """
        text = str(history[-1])
        print(text)
        if text in seen:
            stop()
    """,
    "in a text that a function gives": """
        def note():
            return f"{history}"
        seen.add(note())
    """,
    "in a text of any words with its name": """
        history = []
        known = {"history": history}
        eval(text, known)
    """,
    "in a text that a function gets": """
        def note(text):
            seen.add(text)
        note(repr(history[-1]))
    """,
}

NOT_NEEDED = {
    "by a text that is printed": """
        print(repr(history), str(history[-1]).strip(), f"{history!r:>9}")
        print("%s" % history[-1], "{}".format(history[-1]), end="")
        print(*map(str, history), ", ".join(map(str, history)))
    """,
    "by a text that is logged": """
        text = f"loss {history[-1]!r}"
        logger.info(text)
        out.write(str(history[-1]) + "\\n")
        raise ValueError(f"not finite: {history[-1]!s}")
    """,
    "by a text that a function prints": """
        def note(text, end=""):
            print(text)
        note(f"{history}")
    """,
    "by a text that a function gives": """
        def note():
            text = "all: "
            text += f"{history}"
            return text
        print(note())
    """,
    "by the text of a number": """
        seen.add(f"{history[-1]:.3f}")
        seen.add(f"{history[-1]}")
        seen.add("%.3f" % history[-1])
        seen.add("{:.3f}".format(history[-1]))
        seen.add(str(float(history[-1])))
    """,
    "by the text of what goes with it": """
        curves = {"loss": history}
        for name, values in curves.items():
            seen.add(f"{name} {len(values)}")
        for at, value in enumerate(history):
            seen.add(f"{at}")
        for at, value in zip(range(9), history):
            seen.add(f"{at}")
        for name, values in (("loss", history), ("other", [])):
            seen.add(str(name))
    """,
    "by a type": "seen.add(isinstance(history[-1], str))",
    "in what fails and is not caught": "print(np.array(history))",
    "in a function whose failure is not caught": """
        def show():
            print(np.array(history))
            show()
        try:
            show()
        except (KeyboardInterrupt, OSError):
            print("ended")
        finally:
            show()
    """,
    "by a failure that is none of it": """
        try:
            model(x)
        except RuntimeError:
            print(np.array(history))
    """,
    "of what else was read": """
        state = torch.load("model.pt")
        print(state["weight"].requires_grad, float(history[-1]))
    """,
    "in a text that is run before": """
        exec(open("config.py").read())
        config = {k: globals()[k] for k in keys}
        history = []
    """,
    "in a text of a function that is called before": """
        def make(name):
            return eval(name)()
        model = make(args.model)
        history = []
    """,
    "in a text of any words with other names": """
        history = []
        known = {"x": 1}
        eval(text, known)
    """,
    "in a text of other words": """
        history = []
        eval("model.eval()")
        model.eval()
    """,
    "by a library, beside a module": """
        class Model(nn.Module):
            def forward(self, x):
                return x
        model = Model()
        loss = model(x)
        loss.backward()
        mean = torch.stack(history).mean()
    """,
    "by what a class has from its base": """
        class Model(LightningModule):
            def forward(self, x):
                return x
            def training_step(self, batch):
                self.log("mean", sum(history))
                loss = self(batch)
                loss.backward()
    """,
    "by another value of the same lambda": """
        order = sorted(range(8), key=lambda at: -at)
        print(float(history[0]), order)
        loss.backward()
    """,
    "by a property that is printed": """
        class Meter:
            @property
            def mean(self):
                return sum(history) / len(history)
        criterion = nn.MSELoss()
        meter = Meter()
        loss = criterion(model(x), y)
        loss.backward()
        print(float(meter.mean))
    """,
    "by an object that is called, beside a library's": """
        class Smooth:
            def __call__(self, value):
                return sum(history[-10:]) / 10
        criterion = nn.MSELoss()
        smooth = Smooth()
        for x, y in DataLoader(data):
            loss = criterion(model(x), y)
            loss.backward()
            print(smooth(loss))
    """,
    "by items of another object": """
        class Log:
            def __getitem__(self, at):
                return history[at]
            def __iter__(self):
                return iter(history)
        loader = DataLoader(data)
        for batch in loader:
            loss = criterion(model(batch[0]), batch[1])
            loss.backward()
    """,
    "by a value that is called as a function is": """
        def mean_loss(kept):
            return sum(kept) / len(kept)
        def report(mean_loss):
            print(mean_loss)
        def train(criterion):
            loss = criterion(model(x), y)
            loss.backward()
        mean_loss = mean_loss(history)
        print(float(mean_loss))
    """,
    "by an option of its name": """
        kept = getattr(args, "history", None)
        loss.backward()
    """,
    "among constants": """
        print(history[-1] in (None, 1))
    """,
    "by an accelerator that logs it": """
        accelerator = Accelerator()
        accelerator.log({"loss": history[-1]})
        accelerator.backward(loss)
    """,
}


@pytest.mark.parametrize("case", [*NEEDED, *NOT_NEEDED])
def test_where_a_graph_is_needed(case: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent((NEEDED | NOT_NEEDED)[case]))
    assert bool(uses_of(HISTORY, [str(file)]).graph) == (case in NEEDED)


GIVES = """
    class Tape:
        @property
        def newest(self):
            return history[-1]

        def take(self, n):
            taken, history[-n:] = history[-n:], []
            return sum(term for _, term in taken)

        def keep(self):
            self.last = history[-1]

        def count(self):
            return len(history)

        def mean(self):
            return sum(history) / len(history)

    tape = Tape()

    def newest_of(tape):
        return history[-1]
"""


@pytest.mark.parametrize(
    "taken, needed",
    [
        ("tape.take(3)", True),
        ("tape.newest", True),
        ("tape.last", True),
        ("owner.tape.take(3)", True),
        ("tapes[0].newest", True),
        ("tape.count()", False),
        ("tape.mean()", True),
        ("net(x, tape.count()).mean()", False),
        ("bag.take(3)", False),
        ("bag.last", False),
    ],
)
def test_what_another_file_is_given(
    taken: str, needed: bool, tmp_path: Path
) -> None:
    files = [tmp_path / "tape.py", tmp_path / "train.py"]
    files[0].write_text(textwrap.dedent(GIVES))
    given = "tape" if "tape" in taken else "bag"
    files[1].write_text(
        f"from {given}s import {given}\nloss = f(x) + {taken}\n"
        "loss.backward()\n"
    )
    assert bool(uses_of(HISTORY, map(str, files)).graph) == needed


def test_a_function_that_is_imported_by_another_name(tmp_path: Path) -> None:
    files = [tmp_path / "tape.py", tmp_path / "train.py"]
    files[0].write_text(textwrap.dedent(GIVES))
    files[1].write_text(
        "from tape import newest_of as newest\nnewest(1).backward()\n"
    )
    assert uses_of(HISTORY, map(str, files)).graph
    files[1].write_text(
        "try:\n    from tape import newest_of as newest\n"
        "except ImportError:\n    from other import newest\n"
        "newest(1).backward()\n"
    )
    assert uses_of(HISTORY, map(str, files)).graph


RECENT = """
    history = []
    recent = history

    class Tape:
        def __iter__(self):
            return iter(history)

        def __call__(self):
            return history[-1]

        def __getitem__(self, at):
            return history[at]

    tape = Tape()
"""


@pytest.mark.parametrize(
    "use, needed",
    [
        ("from tape import recent\nsum(recent).backward()", True),
        ("from tape import recent as r\nsum(r).backward()", True),
        ("from tape import history as kept\nsum(kept).backward()", True),
        ("from tape import (tape,\n    recent as r)\nr[0].backward()", True),
        ("from tape import *\nsum(recent).backward()", True),
        ("from tape import other, \\\n  recent as r\nr[0].backward()", True),
        ("import tape\nsum(tape.recent).backward()", True),
        ("import runs.tape as t\nsum(t.recent).backward()", True),
        ("import runs.tape\nsum(runs.tape.recent).backward()", True),
        ("from runs import tape as t\nsum(t.recent).backward()", True),
        ("from tape import tape\nsum(tape).backward()", True),
        ("from tape import tape\ntorch.stack(list(tape)).backward()", True),
        ("from tape import tape\na, b = tape\na.backward()", True),
        ("from tape import tape\nmean(*tape).backward()", True),
        ("from tape import tape as t\nt[-1].backward()", True),
        ("from tape import Tape\ntake(Tape()).backward()", True),
        ("from tape import Tape\nsuper(Tape, self).f(x).backward()", False),
        ("class Net:\n    pass\ndef f(net):\n    g(net[0]).backward()", False),
        ("def last(tape):\n    next(iter(tape)).backward()", True),
        ("from bag import recent\nsum(recent).backward()", False),
        ("from bag import kept as recent\nsum(recent).backward()", False),
        ("import tape\nsum(tape.other).backward()", False),
        ("import bag\nsum(bag.recent).backward()", False),
        ("from tape import tape\nloss = model(x)\nloss.backward()", False),
        ("import tape\nfor x in data:\n    model(x).backward()", False),
        ("from tape import tape\nprint(len(tape))\nloss.backward()", False),
    ],
)
def test_what_another_file_imports(
    use: str, needed: bool, tmp_path: Path
) -> None:
    files = [tmp_path / "tape.py", tmp_path / "train.py"]
    files[0].write_text(textwrap.dedent(RECENT))
    files[1].write_text(f"{use}\n")
    assert bool(uses_of(HISTORY, map(str, files)).graph) == needed


ALIASED = """
    from state import losses as history
    history.append(loss)
    backward(history[-1])
"""
UNRELATED = {
    "a module": "from lib import history as h\nh.Dice()(x).backward()",
    "its attribute": "import lib\nlib.history.Dice()(x).backward()",
    "another's name": "from bag import history as b\nb(x).backward()",
    "a setting": "import bag as b\n(model(x) * b.history).backward()",
    "its own": "import data as d\n(model(x) * d.history).backward()",
    "a star": "from tape import *\nmodel(x).backward()",
    "data": "def train(data):\n    for x in data:\n        x.backward()",
}


def test_a_holder_that_goes_by_the_name_that_a_file_gives_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(ALIASED))
    assert uses_of(HISTORY, [str(file)]).graph


@pytest.mark.parametrize("use", UNRELATED)
def test_what_another_file_imports_of_others(
    use: str, tmp_path: Path
) -> None:
    """The file that keeps it is called data."""
    files = [tmp_path / "data.py", tmp_path / "train.py"]
    files[0].write_text(textwrap.dedent(RECENT))
    files[1].write_text(f"from data import other\n{UNRELATED[use]}\n")
    assert not uses_of(HISTORY, map(str, files)).graph


def test_a_function_by_the_name_of_another_file_s_variable(
    tmp_path: Path,
) -> None:
    files = [tmp_path / "train.py", tmp_path / "other.py"]
    files[0].write_text(
        "history = []\ndef finish(kept):\n    kept[-1].backward()\n"
        "table = {'end': finish}\ntable['end'](history)\n"
    )
    files[1].write_text("finish = False\nhistory = 1\n")
    assert uses_of(HISTORY, map(str, files)).graph


@pytest.mark.parametrize(
    "use",
    [
        "def f(self):\n    self.data.recent.backward()",
        "import data\ndef f(data):\n    model(data.recent).backward()",
    ],
)
def test_what_is_called_as_a_module_is_none(use: str, tmp_path: Path) -> None:
    files = [tmp_path / "data.py", tmp_path / "train.py"]
    files[0].write_text(textwrap.dedent(RECENT))
    files[1].write_text(f"print(history)\n{use}\n")
    assert not uses_of(HISTORY, map(str, files)).graph


def test_stars_of_many_files_that_name_nothing(tmp_path: Path) -> None:
    tape = tmp_path / "tape.py"
    tape.write_text(textwrap.dedent(GIVES))
    files = [tmp_path / f"use_{number}.py" for number in range(3)]
    for file in files:
        file.write_text("from tape import *\n" + "# more\n" * 10_000)
    assert not uses_of(HISTORY, map(str, [tape, *files])).unread


def test_words_and_lines_of_50_000_letters(tmp_path: Path) -> None:
    files = [tmp_path / "tape.py", tmp_path / "train.py"]
    files[0].write_text(textwrap.dedent(GIVES))
    files[1].write_text(
        f"data = '{'A' * 50_000}'  # {'a: Tape, ' * 5_000}\n"
        "from tape import tape\ntape.newest.backward()\n"
    )
    assert uses_of(HISTORY, map(str, files)).graph


def test_what_too_many_files_are_given_may_be_needed(tmp_path: Path) -> None:
    tape = tmp_path / "tape.py"
    tape.write_text(textwrap.dedent(GIVES))
    files = [tmp_path / f"use_{number}.py" for number in range(3)]
    for file in files:
        file.write_text("print(tape.take(3))\n" + "# more\n" * 10_000)
    uses = uses_of(HISTORY, map(str, [tape, *files]))
    assert not uses.graph
    assert uses.unread == "in 3 more files, which are too much to be read"


#: As many ways through a program as no computer could go one by one.
TWISTED = {
    "by one variable that is set again and again": (
        "torch.save(history, 'h.pt')\nx = y\n"
        + "x = x[0]\n" * 30
        + "print(x.requires_grad)\n",
        False,
    ),
    "by functions that are each called twice": (
        "def f0():\n    eval(text)\n"
        + "".join(
            f"def f{at + 1}():\n    f{at}()\n    f{at}()\n"
            for at in range(40)
        )
        + "f40()\nhistory = []\n",
        False,
    ),
    "by functions that call one another": (
        "def f(n):\n    eval(text)\n    g(n)\n"
        "def g(n):\n    f(n - 1)\nhistory = []\n",
        True,
    ),
    "by objects that are each made of others": (
        "m0 = Sequential(y)\n"
        + "".join(
            f"m{at + 1} = Sequential(m{at}, m{at})\n" for at in range(40)
        )
        + "m40(history)\n",
        False,
    ),
}


@pytest.mark.parametrize("case", TWISTED)
def test_a_program_of_many_ways_is_read_once(
    case: str, tmp_path: Path
) -> None:
    text, needed = TWISTED[case]
    file = tmp_path / "train.py"
    file.write_text(text)
    assert bool(uses_of(HISTORY, [str(file)]).graph) == needed


#: By its name, or as one of all that has a name.
NAMED = {
    'globals().get("history")[-1].backward()': True,
    'itemgetter("history")(globals())[-1].backward()': True,
    'g = globals()\n    g["history"][-1].backward()': True,
    "for one in globals().values():\n        take(one)": True,
    "g = globals()\n    take(g)": True,
    'builtins.eval("history[-1].backward()")': True,
    'print("{0[0].grad_fn}".format(history))': True,
    'for k in ("history", "b"):\n        take(globals()[k])': True,
    'for k in ("a", "b"):\n        take(globals()[k])': False,
    'take(globals()[f"use_{k}"])': False,
    'take(globals()["other"])': False,
    "globals().update(known)": False,
    'take("history" in globals())': False,
    "print(globals())": False,
    "take(vars(args), args.__dict__)": False,
    'print("history", "{0.grad_fn}".format(loss))': False,
    'log["history"] = log["loss"] = 1': False,
    'parser.add_argument("--history")': False,
    'torch.save({"history": history}, "h.pt")': False,
    'take(log.get("history"), getattr(args, key))': False,
}
NAMED_ATTRIBUTE = {
    'for k in ("losses", "b"):\n        take(vars(run).get(k))': True,
    'run.__dict__.get("losses")[-1].backward()': True,
    'for k in ("losses", "b"):\n        take(getattr(run, k))': True,
    "take(getattr(run, key))": True,
    'run.last = run.losses\n    take(getattr(run, "last"))': True,
    'run.last = run.losses\n    take(getattr(args, "last"))': False,
    "take(vars(run))": True,
    'take(attrgetter("losses")(run))': True,
    'for k in ("a", "b"):\n        take(getattr(run, k))': False,
    'take(getattr(run, f"on_{key}"))': False,
    'take(getattr(models, key), vars(args))': False,
    "run.__dict__.update(state)": False,
    'run.__dict__["other"] = run.__dict__["a"]': False,
    "print(vars(run))": False,
    'take(globals()[key])': False,
}


@pytest.mark.parametrize("use", NAMED)
def test_a_variable_by_its_name(use: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"history = []\nfor x in data:\n    {use}\n")
    assert bool(uses_of(HISTORY, [str(file)]).graph) == NAMED[use]


@pytest.mark.parametrize("use", NAMED_ATTRIBUTE)
def test_an_attribute_by_its_name(use: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"for x in data:\n    run.losses.append(x)\n    {use}\n")
    uses = uses_of(Names(frozenset({"losses"})), [str(file)])
    assert bool(uses.graph) == NAMED_ATTRIBUTE[use]


@pytest.mark.parametrize(
    "wanted, needed",
    [
        ('def table(of, name="losses"):\n    take(getattr(of, name))', True),
        (
            "def table(of, name):\n    take(getattr(of, name))\n"
            'table(model, name="losses")',
            True,
        ),
        ('def table(of, name="rate"):\n    take(getattr(of, name))', False),
        ('def losses(of, name="rate"):\n    take(getattr(of, name))', False),
        ('def table(of, name="a|b"):\n    take(getattr(of, name))', False),
        ("take(getattr(of, 'a|b', None))", False),
        (
            "def get(name):\n    take(getattr(optim, name))\n"
            'known.get("losses")',
            False,
        ),
    ],
)
def test_an_attribute_by_the_name_that_a_function_is_given(
    wanted: str, needed: bool, tmp_path: Path
) -> None:
    """Whose attribute it is nobody knows."""
    files = [tmp_path / "train.py", tmp_path / "tables.py"]
    files[0].write_text("for x in data:\n    run.losses.append(x)\n")
    files[1].write_text(f"{wanted}\n")
    uses = uses_of(Names(frozenset({"losses"})), map(str, files))
    assert bool(uses.graph) == needed


def test_a_class_of_another_file(tmp_path: Path) -> None:
    texts = {
        "train": "Finish(history)\n",
        "ends": "class Finish:\n"
        "    def __init__(self, kept):\n        kept[-1].backward()\n",
    }
    files = [tmp_path / f"{name}.py" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    assert "backward" in uses_of(HISTORY, map(str, files)).graph


def test_an_object_that_another_file_makes(tmp_path: Path) -> None:
    texts = {
        "train": "run.net(history)\n",
        "make": "history = []\nrun.net = Thing(size)\n",
    }
    files = [tmp_path / f"{name}.py" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    assert uses_of(HISTORY, map(str, files)).graph == ""


@pytest.mark.parametrize(
    "use",
    [
        "float(history[-1][0])",
        "len(history[-1])",
        "for one in history[-1]:\n    float(one)",
        "history[-1][0] = 5",
    ],
)
def test_a_tensor_of_one_dimension_has_items(
    use: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"{use}\n")
    uses = uses_of(HISTORY, [str(file)], zero_dim=False)
    assert "history[-1]" in uses.number
    # Without a dimension it has none: what is used like that is a container.
    assert uses_of(HISTORY, [str(file)]).number == ""


@pytest.mark.parametrize(
    ("use", "asked"),
    [
        ("history is None", False),
        ("history[0] is best", True),
        ("best in history", True),
        ("'loss' in history", False),
    ],
)
def test_what_is_the_same_object(
    use: str, asked: bool, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"print({use})\n")
    uses = uses_of(HISTORY, [str(file)])
    assert bool(uses.same) == asked
    assert bool(uses.number) == (use != "history is None")


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("loss = step()", "loss /= 4", True),
        ("loss = step()", "loss.mul_(2)", True),
        ("loss = step()", "dist.all_reduce(loss)", True),
        ("loss = step()", "loss[0] = 1", True),
        ("total += step()\n    loss.add_(total)", "", True),
        ("loss = step()\n    loss /= 4", "", False),
        ("loss = step()", "loss.backward()\n    print(loss)", False),
        ("loss = step()", "scaler.scale(loss).backward()", False),
        ("loss = step()", "loss = loss / 4", False),
        ("loss = step()", "loss.data.add_(1)", True),
        ("loss = step()", "loss.detach().add_(1)", True),
        ("loss = step()", "loss.view(-1)[0] = 1", True),
        ("loss = step()", "loss.numpy()[...] = 1", True),
        ("loss = step()", "raw = loss.data\n    raw.mul_(2)", True),
        ("loss = step(); raw = loss.data", "raw.mul_(2)", True),
        ("loss = step()", "torch.add(loss, 1, out=loss)", True),
        ("loss = step()", "np.copyto(loss.numpy(), 1)", True),
        ("loss = step()", "torch._foreach_mul_([loss], 2)", True),
        ("loss = step()", "run.last = loss\nrun.last.zero_()", True),
        ("loss = step()", "def go(x): x.mul_(2)\n    go(loss)", True),
        ("loss = step()", "def go(x): x.mul_(2)\n    go(other)", False),
        ("loss = step()", "def go(x): x * 2\n    go(loss)", False),
        ("loss = step()", "torch.isnan(loss)", False),
        ("loss = step()", "mean = loss.mean()\n    mean.mul_(2)", False),
        ("loss = step(); loss.data.mul_(2)", "", False),
        ("loss = step()", "torch.distributed.all_reduce(loss)", True),
        ("loss = step()", "F.relu(loss, inplace=True)", True),
        ("loss = step()", "F.relu(loss)", False),
        ("loss = step()", "run.nn.keep(loss)", True),
        ("buffer[0] = x; loss = buffer", "buffer.grad = None", True),
        ("def step():\n        x = y()\n        x.mul_(2)\n"
         "        return x\n    loss = step()", "", False),
    ],
)
def test_what_is_changed_once_it_is_kept(
    before: str, after: str, changed: bool, tmp_path: Path
) -> None:
    text = f"for _ in run:\n    {before}\n    history.append(loss)\n"
    _asked, written = kept(tmp_path, f"{text}    {after}\n")
    assert bool(written) == changed


def kept(
    folder: Path, text: str, plain: frozenset[str] = frozenset()
) -> tuple[str, str]:
    """What is asked of what a program keeps in its history."""
    file = folder / "train.py"
    file.write_text(text)
    values = [
        Value.of(str(file), getattr(node.args[0], "elts", node.args)[-1])
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "history.append"
    ]
    return asked_of(values, HISTORY, [str(file)], plain)


#: What asks for the object that is kept, by any name that it has.
ASKED = {
    "an attribute is set": "loss.step = 1; history.append(loss)",
    "one is set later": "history.append(loss); loss.step = 1",
    "one is set by its name": "setattr(loss, 'w', 1); history.append(loss)",
    "one is set by its method": "loss.__setattr__('w', 1)\n"
    "history.append(loss)",
    "one is set in its dict": "vars(loss)['w'] = 1; history.append(loss)",
    "what is read gets one": "history.append(loss); history[0].step = 1",
    "where it is made": """
        def make():
            loss = model()
            loss.step = 1
            return loss
        history.append(make())
    """,
    "where it is given": """
        def add(loss):
            history.append(loss)
        kept = model()
        kept.step = 1
        add(kept)
    """,
    "in what gets it": """
        def tag(one):
            one.step = 1
        history.append(loss)
        tag(loss)
    """,
    "by another attribute": "run.last = loss; history.append(loss)\n"
    "run.last.step = 1",
    "in a class of its own": """
        class Loss(torch.Tensor):
            def __init__(self, step):
                self.step = step
        history.append(Loss(1))
    """,
    "it is a key": "meta[loss] = 1; history.append(loss)",
    "what is read is a key": "history.append(loss); meta.get(history[0])",
    "it is one of a set": "history.append(loss); print(len({*history}))",
    "a set is made of it": "history.append(loss); print(len(set(history)))",
    "its id is taken": "names[id(loss)] = 1; history.append(loss)",
    "ids are taken": "history.append(loss); print(set(map(id, history)))",
    "it is looked for": "history.append(loss); other.remove(loss)",
    "it is compared": "history.append(loss); best = loss is last",
    "it is referred to": "w = weakref.ref(loss); history.append(loss)",
    "it is kept while it lives": "alive = weakref.WeakSet()\n"
    "alive.add(loss); history.append(loss)",
    "it gets other memory": "history.append(loss); loss.data = other",
    "it is copied": "history.append(loss); copy.deepcopy(history)",
    "an object that has it is copied": """
        run.kept = history
        history.append(loss)
        copy.deepcopy(run)
    """,
    "what has such an object is copied": """
        run.kept = history
        all = [Task(run)]
        history.append(loss)
        copy.deepcopy(all[0])
    """,
    "an object copies itself": """
        class Run:
            def __init__(self):
                self.kept = history
            def go(self):
                history.append(loss)
                copy.deepcopy(self)
    """,
    "a copy of what a function fills fails": """
        def fill(run):
            run.kept = history
        def clone(run):
            try:
                return copy.deepcopy(run)
            except RuntimeError:
                return None
        fill(run)
        history.append(loss)
        clone(run)
    """,
    "a value of a mapping is asked": "history[0] = loss\n"
    "for at, one in history.items():\n    print(id(one))",
    "a view, whatever else has one": """
        class Window:
            def view(self):
                return 1
        history.append(loss)
        flat = loss.view(-1)
        flat.step = 1
    """,
}

NOT_ASKED = {
    "others' attributes": """
        class Meter:
            pass
        meter = Meter()
        meter.last = loss
        meter.step = 1
        history.append(loss)
    """,
    "what is made of it": "history.append(loss)\nmean = loss * 2\nmean.w = 1",
    "numbers beside it": "history.append(loss)\n"
    "for at, one in enumerate(history):\n    names[at] = float(one)",
    "keys": "history.append(loss); scores = {}; scores['loss'] = loss\n"
    "for name, one in scores.items():\n    sums[name] = float(one)",
    "keys beside others": "params = {'w': loss}\n"
    "params = {k: p - g for (k, p), g in zip(params.items(), grads)}\n"
    "history.append(params['w'])",
    "what makes it": "loss = run.step(); run.at = 1; history.append(loss)",
    "keys in order": "by = {}; by[name] = loss; history.append(loss)\n"
    "for one in sorted(by):\n    sums[one] = float(by[one])",
    "what its owner has besides is copied": """
        class Run:
            def __init__(self, model):
                self.kept, self.model = history, model
            def go(self):
                history.append(loss)
                best = copy.deepcopy(self.model)
        Run(model).go()
        best = copy.deepcopy(model.state_dict())
    """,
    "its owner is copied before": """
        run = Run()
        average = copy.deepcopy(run)
        run.kept = history
        history.append(loss)
    """,
    "an index": "table = torch.ones(9); history.append(at); table[at] = 1",
    "a graph": "history.append(loss); loss.grad = None; loss.backward()",
    "a slot": "history.append(loss); setattr(run, 'loss', loss)",
    "the list": "history.append(loss); run.history = history; id(history)",
    "a key of the list": "history.append(loss); print('loss' in scores)",
}


@pytest.mark.parametrize("case", [*ASKED, *NOT_ASKED])
def test_where_the_object_is_asked_for(case: str, tmp_path: Path) -> None:
    text = textwrap.dedent((ASKED | NOT_ASKED)[case]).strip()
    asked, _written = kept(tmp_path, text)
    assert bool(asked) == (case in ASKED)


def test_parts_of_others_may_be_tensors(tmp_path: Path) -> None:
    """The plain parts are those of the holder's items."""
    text = "state = {'step': loss}; history.append((1, loss))\n"
    text += "print(id(state['step']))"
    asked, _written = kept(tmp_path, text, frozenset({"0", "'step'"}))
    assert "id(state['step'])" in asked


@pytest.mark.parametrize(
    "use",
    ["for at, *rest in history: print(id(rest[0]))",
     "at, *rest = history[0]; print(id(rest[0]))"],
)
def test_what_a_star_takes_is_no_part(use: str, tmp_path: Path) -> None:
    text = f"history.append((1, 2, loss))\n{use}"
    asked, _written = kept(tmp_path, text, frozenset({"0", "1"}))
    assert "id(rest[0])" in asked


def test_parts_that_are_no_tensors_are_keys(tmp_path: Path) -> None:
    text = "history.append((at, loss))\nfor at, loss in history: sums[at] = 1"
    assert kept(tmp_path, text)[0]
    assert kept(tmp_path, text, frozenset({"0"}))[0] == ""
