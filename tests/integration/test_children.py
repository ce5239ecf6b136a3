"""Processes that a watched program starts, by whatever way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warm

from impactarbiter import Report
from impactarbiter.watching import children

LOADER = """\
import sys, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Data(Dataset):
    seen = None
    def __init__(self):
        self.seen = []
    def __len__(self):
        return 160
    def __getitem__(self, i):
        x = torch.full((1000,), float(i))
        if "leak" in sys.argv:
            self.seen.append(x)
        return x * 2

class Stream(IterableDataset, Data):
    def __iter__(self):
        return map(self.__getitem__, range(80))

def main():
    loader = DataLoader(
        Stream() if "stream" in sys.argv else Data(), batch_size=4,
        num_workers=2,
        persistent_workers="keep" in sys.argv,
        multiprocessing_context=sys.argv[1])
    total = 0
    for _ in range(1 + ("keep" in sys.argv)):
        for x in loader:
            total += x.sum()
    print(int(total))

if __name__ == "__main__":
    main()
"""

SPAWNED = """\
import os, sys, torch
import torch.multiprocessing as mp
kept = []

def work(rank):
    layer = torch.nn.Linear(10, 2)
    for _ in range(40):
        layer(torch.ones(3, 10))
        if rank == 1:
            kept.append(torch.zeros(1000))
    if rank == 1 and "raise" in sys.argv:
        raise ValueError

if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method=sys.argv[1])
"""


def run(
    folder: Path, source: str, *args: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source)
    return warm.run(
        ["-m", "impactarbiter", "run", *options, "program.py", *args],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=240,
    )


def files(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in sorted(folder.iterdir())]


@pytest.mark.parametrize(
    "args",
    [
        ("fork", "leak"),
        pytest.param(("spawn", "leak", "keep"), marks=pytest.mark.slow),
        pytest.param(("fork", "leak", "keep"), marks=pytest.mark.slow),
        pytest.param(("fork", "leak", "stream"), marks=pytest.mark.slow),
        pytest.param(("forkserver", "leak"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_the_dataset_of_a_worker_that_grows(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    options = ("--json", "report.json", "--sarif", "report.sarif")
    done = run(
        tmp_path,
        LOADER,
        *args,
        options=("--job", "J", "--fail-on", "info", *options),
    )
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())
    # The first sentence is the answer for all processes.
    assert "ImpactArbiter: no leak" not in said
    assert (
        "INFO: DataLoader worker 0 and 1 leak" in said
        or "WARNING: DataLoader worker 0 and 1 leak" in said
        or "CRITICAL: DataLoader worker 0 and 1 leak" in said
    )
    report = Report.load(tmp_path / "report.json")
    assert report.children is not None and report.children.processes == 2
    (child,) = report.children.findings
    assert child.on == "DataLoader worker 0 and 1" and child.processes == 2
    assert child.worst.holder is not None
    assert child.worst.holder.expression.endswith(".dataset.seen")
    sarif = json.loads((tmp_path / "report.sarif").read_text())
    (result,) = sarif["runs"][0]["results"]
    (place,) = result["locations"]
    assert place["physicalLocation"]["region"]["startLine"] == 13
    assert "ImpactArbiter, children: DataLoader worker 0 and 1 leak" in said
    assert "a batch at program.py:13" in said
    workers = [
        f for f in files(tmp_path / "J") if f["process"]["role"] != "train"
    ]
    assert [w["process"]["worker"] for w in workers] in ([0, 1], [1, 0])
    for worker in workers:
        (found,) = worker["findings"]
        assert found["holder"]["expression"].endswith(".dataset.seen")


IMPORTED_BY_THE_CHILD = """
    import multiprocessing, sys
    kept = []
    def work(name):
        made = __import__(name)
        for _ in range(300):
            kept.append(made.ones(40000) * 2)
    if __name__ == "__main__":
        context = multiprocessing.get_context("fork")
        child = context.Process(target=work, args=(sys.argv[1],))
        child.start()
        child.join()
"""


REMOVES = """\
import atexit, os, shutil, tempfile
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder)
import multiprocessing, time
import torch

def child():
    time.sleep(0.5)
    for _ in range(40):
        torch.nn.Linear(10, 2)(torch.ones(3, 10))
    with open(os.path.join(folder, "result"), "w") as stream:
        stream.write("x")
    print("written", flush=True)

if __name__ == "__main__":
    multiprocessing.get_context("fork").Process(target=child).start()
"""


def test_exit_handlers_run_in_the_order_of_the_program(tmp_path: Path) -> None:
    """Children are waited for before older ones are called."""
    (tmp_path / "program.py").write_text(REMOVES)
    command = [sys.executable, "-m", "impactarbiter", "run", "-q"]
    done = subprocess.run(
        [*command, "--job", "J", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "written\n"), done.stderr
    roles = [file["process"]["role"] for file in files(tmp_path / "J")]
    assert sorted(roles) == ["spawned", "train"]


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_what_a_forked_child_imports_by_itself(
    tmp_path: Path, name: str
) -> None:
    done = run(
        tmp_path,
        textwrap.dedent(IMPORTED_BY_THE_CHILD),
        name,
        options=("--job", "J"),
    )
    assert done.returncode == 0, done.stderr
    (child,) = (
        f for f in files(tmp_path / "J") if f["process"]["role"] == "spawned"
    )
    (found,) = child["findings"]
    assert found["holder"]["expression"] == "__main__.kept"


def test_what_a_thread_imported_at_the_fork_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That thread is none of the child's: it would wait for ever."""
    begun: list[int] = []
    half, none = ModuleType("jax"), ModuleType("tensorflow")
    half.__spec__ = ModuleSpec("jax", None)
    half.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "jax", half)
    monkeypatch.setattr(children, "begin", lambda: begun.append(1))
    children.bootstrapped()
    assert not begun
    monkeypatch.delitem(sys.modules, "jax")
    none.__spec__ = ModuleSpec("tensorflow", None)
    monkeypatch.setitem(sys.modules, "tensorflow", none)
    children.bootstrapped()
    assert begun


ON_THE_WAY = """\
import json, os, signal, time
loader = iter(DataLoader(
    Data(), batch_size=4, num_workers=2, multiprocessing_context="fork"))
for _ in range(30):
    next(loader)
for _ in range(200):
    os.kill(os.getpid(), signal.SIGUSR1)
    with open("r.json") as stream:
        told = json.load(stream)["children"]
    if told and told["processes"] == 2:
        break
    time.sleep(0.1)
print(told["processes"], "children, in the page:",
      "The processes that it started" in open("r.html").read())
"""


def test_a_report_on_the_way_has_them(tmp_path: Path) -> None:
    source = LOADER.partition("def main")[0] + ON_THE_WAY
    options = ("--json", "r.json", "--html", "r.html")
    done = run(tmp_path, source, options=options)
    assert done.stdout == "2 children, in the page: True\n", done.stderr


def test_workers_that_keep_nothing(tmp_path: Path) -> None:
    """And what they compute is what it is without us."""
    options = ("--fail-on", "info", "--json", "report.json")
    watched = run(tmp_path, LOADER, "fork", options=options)
    plain = run(tmp_path, LOADER, "fork", options=("--no-children",))
    assert watched.returncode == 0, watched.stderr
    assert watched.stdout == plain.stdout
    assert "children: no leak in 2 processes" in watched.stderr
    assert "children" not in plain.stderr
    children = Report.load(tmp_path / "report.json").children
    assert children is not None and children.processes == 2
    assert children.severity is None and children.findings == ()


FAILING = LOADER.partition("class Stream")[0] + """
class Failing(Data):
    def __getitem__(self, i):
        if i == 9:
            raise ValueError("the ninth")
        return torch.tensor([i])

# To the end: what an error keeps of the loader lives until the collector runs,
# and the worker is killed then, or after five seconds, without us too.
batches = iter(DataLoader(Failing(), 2, num_workers=1))
while True:
    try:
        next(batches)
    except StopIteration:
        break
    except ValueError as error:
        print(error)
"""


def test_what_fails_in_a_worker_is_told_as_without_us(tmp_path: Path) -> None:
    """Its message has a traceback; and its batches are steps all the same."""
    watched = run(tmp_path, FAILING, options=("--job", "J"))
    plain = run(tmp_path, FAILING, options=("--no-children",))
    assert "the ninth" in plain.stdout
    assert watched.stdout == plain.stdout
    (steps,) = [
        file["steps"]
        for file in files(tmp_path / "J")
        if file["process"]["role"] == "dataloader"
    ]
    assert steps >= 5  # and what was fetched ahead


@pytest.mark.parametrize(
    "method",
    [
        "fork",
        pytest.param("spawn", marks=pytest.mark.slow),
        pytest.param("forkserver", marks=pytest.mark.slow),
    ],
)
def test_what_multiprocessing_starts(tmp_path: Path, method: str) -> None:
    done = run(tmp_path, SPAWNED, method, "raise", options=("--job", "J"))
    assert done.returncode == 1
    assert "children: 1 child process leaks" in " ".join(done.stderr.split())
    by_role = {
        f["process"]["ended"]: f
        for f in files(tmp_path / "J")
        if f["process"]["role"] == "spawned"
    }
    # So does torch.multiprocessing end what has raised.
    (found,) = by_role["exit 1"]["findings"]
    assert found["holder"]["expression"] == "__main__.kept"
    # The other one has ended, or was ended by the parent for this error.
    others = [f for end, f in by_role.items() if end != "exit 1"]
    assert not any(f["findings"] for f in others)


OTHERS = """\
import os, subprocess, sys, torch
code = "import sys; print(sys.path, 'impactarbiter' in sys.modules)"
loaded = "import sys; print(*sys.modules)"
def call(env=None):
    return subprocess.check_output([sys.executable, "-c", code], env=env)
plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
if len(sys.argv) > 1:
    plain["PYTHONPATH"] = sys.argv[1]
assert call() == call(plain), (call(), call(plain))
assert b"False" in call()
def modules(env=None):
    found = subprocess.check_output([sys.executable, "-c", loaded], env=env)
    return set(found.split())
more = modules() - modules(plain)
assert more <= {b"_impactarbiter_children", b"sitecustomize"}, more
assert os.fork() or os._exit(0)
os.wait()
assert sys.argv[1:] == [] or b"the program's own" in call()
"""


def test_a_child_without_torch_does_not_know_of_us(tmp_path: Path) -> None:
    """Not on its path, not among its modules; a sitecustomize is executed."""
    done = run(tmp_path, OTHERS, options=("--job", "J"))
    assert done.returncode == 0, done.stderr
    assert len(files(tmp_path / "J")) == 1
    (tmp_path / "own").mkdir()
    own = tmp_path / "own" / "sitecustomize.py"
    own.write_text('print("the program\'s own", __name__, __file__)')
    (tmp_path / "program.py").write_text(OTHERS)
    done = warm.run(
        ["-m", "impactarbiter", "run", "program.py", str(own.parent)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(own.parent)},
    )
    assert done.returncode == 0, done.stderr


PYTHON = """\
import subprocess, sys
code = '''
import torch
kept = []
layer = torch.nn.Linear(2, 2)
for _ in range(60):
    kept.append(torch.zeros(1000))
    layer(torch.ones(1, 2))
sys = __import__("sys"); sys.exit(4)
'''
assert subprocess.run([sys.executable, "-c", code]).returncode == 4
"""


#: What many a library asks before it imports.
ASKS = PYTHON.replace(
    "code = '''",
    "code = '''\nimport importlib.util; importlib.util.find_spec('torch')",
)


@pytest.mark.parametrize("text", [PYTHON, ASKS], ids=["imports", "asks first"])
def test_another_python(tmp_path: Path, text: str) -> None:
    done = run(tmp_path, text, options=("--job", "J"))
    assert done.returncode == 0, done.stderr
    assert "children: 1 child process" in " ".join(done.stderr.split())
    (child,) = (
        f for f in files(tmp_path / "J") if f["process"]["role"] == "spawned"
    )
    (found,) = child["findings"]
    assert found["holder"]["expression"] == "__main__.kept"


GRANDCHILD = """\
import multiprocessing, torch
kept = []

def work():
    layer = torch.nn.Linear(2, 2)
    for _ in range(40):
        layer(torch.ones(1, 2))
        kept.append(torch.zeros(1000))

def start(what):
    process = multiprocessing.get_context("fork").Process(target=what)
    process.start()
    process.join()

def between():
    start(work)

start(between)
"""


def test_a_child_of_a_child(tmp_path: Path) -> None:
    """Whoever is watched tells of it; what stands between has no step."""
    options = ("--job", "J", "--json", "report.json")
    done = run(tmp_path, GRANDCHILD, options=options)
    assert done.returncode == 0, done.stderr
    children = Report.load(tmp_path / "report.json").children
    assert children is not None and children.processes == 1
    assert [f.role for f in children.findings] == ["spawned"]


STARTS = """\
import os, subprocess, sys, time
args = [sys.executable, __file__]
if sys.argv[1] == "detached" and len(sys.argv) == 2:
    subprocess.Popen([*args, "detached", str(os.getpid())])
    sys.exit()
if len(sys.argv) > 2 and sys.argv[1] == "detached":
    while os.getppid() == int(sys.argv[2]):
        time.sleep(0.01)
import torch
layer = torch.nn.Linear(2, 2)
kept = []
for _ in range(40):
    layer(torch.ones(1, 2))
    kept.append(torch.zeros(1000))
if sys.argv[1:] == ["anew"]:
    os.execv(sys.executable, [*args, "anew", "again"])
print("done", flush=True)
"""


@pytest.mark.parametrize("way", ["anew", "detached"])
def test_what_nobody_reads_is_not_written(tmp_path: Path, way: str) -> None:
    """By a program that has started itself anew, or a child that outlives
    it: output comes to its end when both have gone."""
    (tmp_path / "program.py").write_text(STARTS)
    folder = tmp_path / "tmp"
    folder.mkdir()
    command = ["-m", "impactarbiter", "run", "program.py", way]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        timeout=240,
    )
    assert done.returncode == 0 and "done" in done.stdout, done
    assert list(folder.glob("impactarbiter*")) == []


WATCHED = """\
import os, sys, torch, impactarbiter
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset
kept = []

class Data(Dataset):
    def __init__(self):
        self.seen = []
    def __len__(self):
        return 160
    def __getitem__(self, i):
        self.seen.append(torch.full((1000,), float(i)).numpy())
        return torch.zeros(2)

def work(rank):
    if "own" in sys.argv:
        impactarbiter.watch(every=2)
    layer = torch.nn.Linear(10, 2)
    for _ in range(40):
        layer(torch.ones(3, 10))
        kept.append(torch.zeros(1000))

def main(method):
    before = dict(os.environ)
    with impactarbiter.watch() as arbiter:
        if "loader" in sys.argv:
            list(DataLoader(Data(), batch_size=4, num_workers=2,
                            multiprocessing_context=method))
        else:
            mp.start_processes(work, nprocs=2, start_method=method)
    print(arbiter.report())
    arbiter.report().to_json("report.json")
    assert dict(os.environ) == before

if __name__ == "__main__":
    main(sys.argv[1])
"""


def watched(folder: Path, *args: str, job: str = "J") -> Report:
    """What a program that watches itself says, within a job."""
    (folder / "program.py").write_text(WATCHED)
    environment = {**os.environ, "IMPACTARBITER_JOB": job}
    environment["OMP_NUM_THREADS"] = "1"
    if args[0] == "fork":
        done = warm.run(["program.py", *args], cwd=folder, env=environment)
    else:
        # What is spawned looks for the program where Python was started.
        done = subprocess.run(
            [sys.executable, "-P", "program.py", *args],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    report = Report.load(folder / "report.json")
    if report.children is not None and report.children.severity is not None:
        said = " ".join(done.stdout.split())
        assert report.children.answer in said.partition(" on ")[0]
    return report


@pytest.mark.parametrize(
    "args",
    [
        ("fork",),
        ("fork", "own"),
        pytest.param(("spawn",), marks=pytest.mark.slow),
        pytest.param(("spawn", "own"), marks=pytest.mark.slow),
        pytest.param(("forkserver",), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_program_that_watches_itself(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    """Its children do, too, where it is part of a job: once each."""
    children = watched(tmp_path, *args).children
    assert children is not None and children.processes == 2
    (found,) = children.findings
    assert (found.role, found.processes) == ("spawned", 2)
    assert found.worst.site.line == 21
    ends = {f["process"]["role"]: f for f in files(tmp_path / "J")}
    assert ends.keys() == {"train", "spawned"}
    assert len(files(tmp_path / "J")) == 3
    assert {f["process"]["ended"] for f in ends.values()} == {"finished"}


@pytest.mark.parametrize(
    "method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
)
def test_its_loader_s_workers(tmp_path: Path, method: str) -> None:
    """NumPy's arrays, and as many of them a batch as a batch has."""
    children = watched(tmp_path, method, "loader").children
    assert children is not None and children.processes == 2
    (found,) = children.findings
    assert found.on == "DataLoader worker 0 and 1"
    assert found.worst.holder is not None
    assert found.worst.holder.expression.endswith(".dataset.seen")
    assert 4 * 4000 <= found.bytes_per_step < 4 * 4200


def test_without_a_job_it_watches_itself_alone(tmp_path: Path) -> None:
    assert watched(tmp_path, "fork", job="").children is None
    assert not (tmp_path / "J").exists()
