"""Whatever is called again and again leaves nothing behind.

All cases run in one process of their own: for each some calls to warm up,
then rounds of as many again, measured by the exact number of objects that the
collector knows, of Python's memory blocks, and of bytes that malloc has given
out.  Noise comes and goes; what leaks grows in every round, by one object,
one block or 16 bytes a call at least.  Half of that is too much.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types

import pytest
import torch

import impactarbiter
from impactarbiter import _core, _torch

CALLS = 60
ROUNDS = 20
#: Those that walk the heap take long.
FEW_CALLS = 2

MEASURE = r"""
import ctypes, gc, json, sys, traceback, warnings

class Malloc(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks"
                " fordblks keepcost".split()]

def mallinfo():
    try:
        call = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0  # not glibc
    call.restype = Malloc
    info = call()
    return info.uordblks + info.hblkhd

def measure():
    gc.collect()
    # The method cache keeps names, thousands of them until it is full.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys._clear_type_cache()
    return len(gc.get_objects()), sys.getallocatedblocks(), mallinfo()

def run(call, calls, rounds):
    assert sys.getallocatedblocks() > 0
    for _ in range(calls):
        call()
    least = [2**62] * 3
    for _ in range(rounds):
        before = measure()
        for _ in range(calls):
            call()
        after = measure()
        least = [min(l, a - b)
                 for l, a, b in zip(least, after, before, strict=True)]
        units = (1, 1, 16)
        if all(2 * n < unit * calls for n, unit in zip(least, units)):
            return
    raise AssertionError(
        "in {} calls at least {} objects, {} blocks, {} bytes of malloc's"
        .format(calls, *least)
    )

def raises(error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error:
        return
    raise AssertionError(f"{call} raised nothing")

def attempt(name, setup, body, calls, rounds):
    space = {"raises": raises}
    try:
        exec(setup, space)
        exec(f"def call():\n    {body}\n", space)
        run(space["call"], calls, rounds)
        return None
    except BaseException:
        return traceback.format_exc()
    finally:
        space.clear()
        left = current()
        if left is not None:
            left.stop()
        _core.recorder_disarm()
        _core.stop()
        _torch.uninstall()
        # A later case may have an object at the address of one of these.
        allowlist._objects.clear()

import torch
from impactarbiter import _core, _torch
from impactarbiter.judging import allowlist
from impactarbiter.watching.arbiter import current

gc.collect()
gc.freeze()  # what was there before takes no time
# Each result at once: what crashes must not take the others along.
for name, *case in json.load(sys.stdin):
    print(json.dumps([name, attempt(name, *case)]), flush=True)
"""

SETUP = """
import warnings
import torch
import impactarbiter
from impactarbiter import UsageError, _core, _torch
"""

WATCHING = """
arbiter = impactarbiter.watch(step="manual")
weight = torch.ones(4, requires_grad=True)
"""

EVENTS = (
    WATCHING
    + """
import numpy
from impactarbiter._core import DEVICE_COLUMNS as EVENT
"""
)

FOLDER = """
import tempfile
folder = tempfile.mkdtemp()
"""

PROFILING = """
from impactarbiter.analysis import analyzer
profiler = impactarbiter.GPUMemoryProfiler("cpu")
"""

#: A run with a leak of its own, which a look has something to say about.
LEAKING = """
arbiter = impactarbiter.watch(step="manual", warmup=1, window=2)
kept = []
def make():
    kept.append((torch.ones(8, requires_grad=True) * 2).sum())
for _ in range(10):
    make()
    arbiter.step()
assert arbiter.report().findings
site = _core.suspects(8)[0]["site"]
stack = int(_core.rows()["stack"][0])
"""

#: The same, with a path to its holder that can be visited.
HELD = (
    LEAKING
    + """
path = _core.diagnose([site], [], True)["holders"][0]["visit"]
assert _core.visit(path)[0] == "intact"
def grow():
    kept.append(torch.ones(2))
"""
)

#: The same, with an object on the way to the holder.
OWNED = LEAKING.replace(
    "kept = []", "class Owner: pass\nowner = Owner()\nowner.kept = []"
).replace("kept.append", "owner.kept.append")

#: function -> (set-up, body of a call).  A dot and a word after the name of
#: a function tells its cases apart.
CASES: dict[str, tuple[str, str]] = {
    # -- the package --
    "watch": ("", "impactarbiter.watch().stop()"),
    "watch.options": (
        "",
        "impactarbiter.watch(every=2, warmup=0, window=3, step='manual',"
        " allow=('a*', list), obfuscate=True, on_finding=print,"
        " memory_limit=10**9).stop()",
    ),
    "watch.twice": (
        WATCHING,
        "raises(RuntimeError, impactarbiter.watch)",
    ),
    "watch.error": ("", "raises(UsageError, impactarbiter.watch, every=0)"),
    "Arbiter.step": (WATCHING, "arbiter.step()"),
    "Arbiter.report": (WATCHING, "arbiter.report()"),
    "Arbiter.report.findings": (LEAKING, "arbiter.report()"),
    "Arbiter.stop": (
        "",
        "arbiter = impactarbiter.watch(); arbiter.stop(); arbiter.stop()",
    ),
    "Arbiter.with": (
        "",
        "with impactarbiter.watch(step='manual') as arbiter:"
        " torch.ones(3); arbiter.step()",
    ),
    "Arbiter.phase": (
        WATCHING,
        "with arbiter.phase('a'), arbiter.phase('b'): torch.ones(3)",
    ),
    "Arbiter.metrics": (LEAKING, "arbiter.metrics()"),
    "Arbiter.subscribe": (
        WATCHING,
        "arbiter.subscribe(print); arbiter.unsubscribe(print)",
    ),
    "allow": (WATCHING, "with impactarbiter.allow('cache'): torch.ones(3)"),
    "allow.error": (
        "",
        "raises(UsageError, impactarbiter.allow('').__enter__)",
    ),
    "allow_object": (
        "import torch.nn",
        "impactarbiter.allow_object(torch.nn.Identity())",
    ),
    "allow_object.same": (
        "held = []",
        "impactarbiter.allow_object(held)",
    ),
    "allow_object.dropped": ("", "impactarbiter.allow_object([])"),
    # -- reports --
    "Report.str": (LEAKING + "report = arbiter.report()\n", "str(report)"),
    "Report.to_dict": (
        LEAKING + "report = arbiter.report()\n",
        "impactarbiter.Report.from_dict(report.to_dict())",
    ),
    "Report.to_json": (
        LEAKING
        + "import os, tempfile\n"
        + "report = arbiter.report()\n"
        + "file = os.path.join(tempfile.mkdtemp(), 'run.json')\n",
        "report.to_json(file); impactarbiter.Report.load(file)",
    ),
    "Report.load.error": (
        "import os",
        "raises(impactarbiter.ReportError, impactarbiter.Report.load,"
        " os.devnull)",
    ),
    # -- what a program does while it is watched --
    "a tensor": (WATCHING, "torch.ones(3); torch.ones(3).sum()"),
    "a view": (WATCHING, "weight.detach()[:2]"),
    "a backward": (WATCHING, "(weight * 2).sum().backward()"),
    "a failing backward": (
        WATCHING,
        "raises(RuntimeError, torch.ones(1).backward)",
    ),
    "an optimizer step": (
        WATCHING + "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "weight.grad = torch.ones(4)\n",
        "optimizer.step()",
    ),
    "an optimizer": (
        WATCHING + "weight.grad = torch.ones(4)\n",
        "torch.optim.SGD([weight], lr=0.1).step()",
    ),
    "a module": (
        WATCHING + "layer = torch.nn.Linear(4, 4)\n",
        "layer(weight)",
    ),
    "memory from elsewhere": (
        WATCHING + "import numpy\n",
        "torch.from_numpy(numpy.ones(4)); arbiter.step()",
    ),
    "a thread": (
        WATCHING + "import threading\n",
        "t = threading.Thread(target=torch.ones, args=(3,));"
        " t.start(); t.join()",
    ),
    "a class of tensors": (
        WATCHING,
        "torch.ones(2).as_subclass(type('T', (torch.Tensor,), {}))",
    ),
    # -- _core --
    "_core.start": ("", "_core.start(manual=True)"),
    "_core.start.callback": (
        "",
        "_core.start(manual=True, callback=lambda step: None); _core.stop()",
    ),
    "_core.start.is_programs": (
        "",
        "_core.start(manual=True, is_programs=lambda e: True); _core.stop()",
    ),
    "_core.start.error": (
        "",
        "raises(ValueError, _core.start, every=0);"
        " raises(TypeError, _core.start, often=1);"
        " raises(TypeError, _core.start, every='1')",
    ),
    "_core.stop": (WATCHING, "_core.stop()"),
    "_core.is_active": (WATCHING, "_core.is_active()"),
    "_core.set_code": (
        WATCHING,
        "_core.set_code(('/lib/a/', '/\\udcff/'), ('/\\udcff.py',), '/o/')",
    ),
    "_core.set_code.error": (
        WATCHING,
        "raises(TypeError, _core.set_code, ('a', 1), (), 'b');"
        " raises(TypeError, _core.set_code, ('a', 'b'), (1,), 'b');"
        " raises(TypeError, _core.set_code, ['a'], (), 'b')",
    ),
    "_core.set_types": (
        WATCHING,
        "_core.set_types(torch.nn.Module, torch.optim.Optimizer);"
        " raises(TypeError, _core.set_types, 1, 2)",
    ),
    "_core.step": (WATCHING, "_core.step()"),
    "_core.optimizer_stepped": (
        WATCHING,
        "_core.optimizer_stepped(object(), (), {}); _core.optimizer_stepped()",
    ),
    "_core.collector_event": (
        WATCHING,
        "_core.collector_event('start', {});"
        " _core.collector_event('stop', {}); _core.collector_event(1)",
    ),
    "_core.set_phase": (
        WATCHING,
        "_core.set_phase(1); _core.set_phase(0);"
        " raises(TypeError, _core.set_phase, 'one')",
    ),
    "_core.set_allowed": (
        WATCHING,
        "_core.set_allowed(1); _core.set_allowed(0);"
        " raises(TypeError, _core.set_allowed, None)",
    ),
    "_core.look_at": (
        WATCHING,
        "_core.look_at(10**9, 1e9);"
        " raises(OverflowError, _core.look_at, -1);"
        " raises(TypeError, _core.look_at, 1, 'soon')",
    ),
    "_core.refresh": (WATCHING, "torch.ones(2); _core.refresh()"),
    "_core.probe_graphs": (WATCHING, "torch.ones(2); _core.probe_graphs()"),
    "_core.totals": (LEAKING, "_core.totals()"),
    "_core.status": (LEAKING, "_core.status()"),
    "_core.history": (LEAKING, "_core.history()"),
    "_core.site_source": (
        LEAKING,
        "_core.site_source(site); _core.site_source(0);"
        " raises(TypeError, _core.site_source, 'one')",
    ),
    "_core.site_older": (
        LEAKING,
        "_core.site_older(site, 5); _core.site_older(0, 5);"
        " raises(TypeError, _core.site_older, 'one', 5)",
    ),
    "_core.site_ages": (
        LEAKING,
        "_core.site_ages(site); _core.site_ages(0);"
        " raises(TypeError, _core.site_ages, 'one')",
    ),
    "_core.stack_frames": (
        LEAKING,
        "_core.stack_frames(stack); _core.stack_frames(0);"
        " raises(TypeError, _core.stack_frames, 'one')",
    ),
    "_core.settle": (LEAKING, "_core.settle()"),
    "_core.suspects": (
        LEAKING,
        "_core.suspects(8); raises(TypeError, _core.suspects, 'one')",
    ),
    "_core.late_suspects": (
        LEAKING,
        "_core.late_suspects(8); _core.late_suspects(0);"
        " raises(TypeError, _core.late_suspects, 'one')",
    ),
    "_core.rises": (LEAKING, "_core.rises()"),
    "_core.site_now": (
        LEAKING,
        "_core.site_now(site); _core.site_now(1 << 20);"
        " raises(TypeError, _core.site_now, 'one')",
    ),
    "_core.plain_pickle": (
        "import pickle; data = pickle.dumps([{'a': (1, 2.5, 1 << 63, b'x')}])",
        "_core.plain_pickle(data)",
    ),
    "_core.plain_pickle.error": (
        "import pickle; data = pickle.dumps([{'a': (1, 2.5, 1 << 70)}, [0]])",
        "raises(ValueError, _core.plain_pickle, data);"
        " raises(ValueError, _core.plain_pickle, data[:20]);"
        " raises(ValueError, _core.plain_pickle, b'\\x80\\x02](N)q\\x05.');"
        " raises(TypeError, _core.plain_pickle, 'text')",
    ),
    "_core.replay": (
        "import numpy as np; rows = np.array([[0, 1, 1, 8]] * 9, np.int64)",
        "_core.replay(rows, 1, 20, 8, 0, 5);"
        " raises(ValueError, _core.replay, rows, 0, 20, 8, 0, 5)",
    ),
    "_core.visit": (
        HELD,
        "_core.visit(path); _core.visit(1 << 20);"
        " raises(TypeError, _core.visit, 'one')",
    ),
    "_core.census": (
        HELD,
        "_core.census(path); _core.census(1 << 20);"
        " raises(TypeError, _core.census, 'one')",
    ),
    "_core.watch_statement": (
        HELD,
        "assert _core.watch_statement(path, False);"
        " assert _core.watch_statement(path, True); grow();"
        " kept.pop(); assert _core.end_statement()[0];"
        " raises(TypeError, _core.watch_statement, 'one', True)",
    ),
    "_core.end_statement": (HELD, "_core.end_statement()"),
    "_core.note_same": (
        "kept = []",
        "_core.note_same(kept); other = []; _core.note_same(other)",
    ),
    "_core.call_theirs": (
        "def add(*args): return [*args]",
        "assert _core.call_theirs(add, 1, 2) == [1, 2];"
        " raises(ZeroDivisionError, _core.call_theirs, divmod, 1, 0);"
        " raises(TypeError, _core.call_theirs);"
        " raises(TypeError, _core.call_theirs, None)",
    ),
    "_core.depth_of_calls": ("", "assert _core.depth_of_calls() > 0"),
    "_core.lend_calls": (
        "",
        "_core.lend_calls(2); _core.lend_calls(-2);"
        " raises(TypeError, _core.lend_calls, 'one')",
    ),
    "_core.still_stands": (
        "kept = []",
        "_core.note_same(kept); assert _core.still_stands(id(kept));"
        " raises(TypeError, _core.still_stands, 'one')",
    ),
    "_core.pause_turns": (
        "",
        "_core.pause_turns(True); _core.pause_turns(False)",
    ),
    "_core.set_ended": (
        "def work(): raise ValueError\n"
        "def ended():\n"
        "    try: work()\n"
        "    except ValueError as error: return error\n",
        "_core.set_ended(ended()); _core.set_ended(ended());"
        " raises(TypeError, _core.set_ended, 'one'); _core.set_ended(None)",
    ),
    "_core.seen_statements": (
        HELD,
        "_core.seen_statements();"
        " assert _core.watch_statement(path, True); grow();"
        " kept.pop(); assert _core.seen_statements()[0];"
        " _core.end_statement()",
    ),
    "_core.keep_paths": (
        LEAKING,
        "path = _core.diagnose([site], [], True)['holders'][0]['visit'];"
        " _core.keep_paths([path]); assert _core.visit(path)[0] == 'intact';"
        " raises(TypeError, _core.keep_paths, path);"
        " raises(TypeError, _core.keep_paths, ['one']);"
        " _core.keep_paths([]); assert _core.visit(path)[0] == 'unknown'",
    ),
    "_core.device_name": (
        "",
        "_core.device_name(0xFF00); _core.device_name(0xE000);"
        " raises(TypeError, _core.device_name, 'cpu')",
    ),
    "_arrays": (
        "from impactarbiter import _arrays",
        "_arrays.register(); _arrays.note([1, 'a']); _arrays.sweep();"
        " _arrays.count(); _arrays.installed(); _arrays.traced();"
        " _arrays.listen(print); _arrays.listen(None); _arrays.forget();"
        " _arrays.watch_function(1, 2); _arrays.uninstall();"
        " _arrays.program_function(print); _arrays.calls(2000);"
        " raises(TypeError, _arrays.calls, ''); raises(OverflowError,"
        " _arrays.calls, -1);"
        " _arrays.program_function(raises); _arrays.training(len)('a');"
        " raises(TypeError, _arrays.training(len));"
        " raises(AttributeError, _arrays.know_jax, int);"
        " raises(AttributeError, _arrays.install_jax, int, int, ());"
        " raises(AttributeError, _arrays.know_tensorflow, int, int);"
        " raises(TypeError, _arrays.install_tensorflow, 1);"
        " raises(TypeError, _arrays.install_jax, 1); raises(TypeError,"
        " _arrays.note, 1)",
    ),
    "_core.is_library": (
        "",
        "_core.is_library('/a/\\udcff.py');"
        " raises(TypeError, _core.is_library, 1)",
    ),
    "_core.native_of_site": (
        "site = impactarbiter._core.suspects(1)",
        "_core.native_of_site(1); raises(TypeError, _core.native_of_site, '')",
    ),
    "_core.native_calls_of_site": (
        "",
        "_core.native_calls_of_site(1);"
        " raises(TypeError, _core.native_calls_of_site, '')",
    ),
    "_core.native_of_object": (
        "held = [torch.ones(3)]\n",
        "_core.native_of_object(held[0]); _core.native_of_object(1)",
    ),
    "_core.instances": (
        "class Mine: pass\nheld = [Mine(), Mine()]\n",
        "_core.instances(Mine, 3); raises(TypeError, _core.instances, 1, 1)",
    ),
    "_core.rows": (LEAKING, "_core.rows()"),
    "_core.consistent": (LEAKING, "_core.consistent()"),
    "_core.diagnose": (LEAKING, "_core.diagnose([site], [])"),
    "_core.diagnose.weigh": (
        LEAKING,
        "_core.diagnose([site], [], False, [], True)",
    ),
    "_core.diagnose.ways": (
        OWNED + "(found,) = _core.diagnose([site], [], False, [], False, True)"
        "['holders']\nassert found['ways'][0][0] > 0\n",
        "_core.diagnose([site], [], False, [], False, True)",
    ),
    "_core.diagnose.error": (
        LEAKING,
        "raises(TypeError, _core.diagnose, ['a'], []);"
        " raises(TypeError, _core.diagnose, [site], ['b']);"
        " raises(TypeError, _core.diagnose, 1, 2)",
    ),
    "_core.device_rules": (
        "",
        "_core.device_rules(1 << 40, (1, 2)); _core.device_rules(1 << 63, ());"
        " raises(TypeError, _core.device_rules, 1, [2]);"
        " raises(TypeError, _core.device_rules, 1, ('a',))",
    ),
    "_core.device_follow": (
        EVENTS + "lines = numpy.zeros(1, EVENT)\n",
        "_core.device_follow(256, lines, 0);"
        " _core.device_follow(256, lines, 5);"
        " raises(ValueError, _core.device_follow, 256, None, 0)",
    ),
    "_core.device_events": (
        EVENTS
        + "nothing = numpy.zeros(0, EVENT)\n"
        + "_core.device_follow(256, nothing, 0)\n"
        + "lines = numpy.array([(4096, 9, 0, 0, 0, 256, 0),"
        + " (4096, 9, 0, 0, 0, 256, 1), (4096, 9, 0, 0, 0, 256, 2)], EVENT)\n",
        "_core.device_events(lines);"
        " raises(ValueError, _core.device_events, ['a'])",
    ),
    "_core.devices": (
        EVENTS + "_core.device_follow(256, numpy.zeros(0, EVENT), 0)\n",
        "_core.devices()",
    ),
    "_core._born": (
        WATCHING,
        "_core._born(64, 10); _core._born(64, 20); _core._died(64);"
        " raises(TypeError, _core._born, 'a', 1)",
    ),
    "_core._died": (WATCHING, "raises(TypeError, _core._died, 'a')"),
    "_core._fail": (
        "warnings.simplefilter('ignore')\n",
        "_core.start(); _core._fail('no'); _core._fail('again')",
    ),
    "_core.interval_open": (
        WATCHING,
        "_core.interval_close(_core.interval_open(0));"
        " raises(TypeError, _core.interval_open, 'cpu')",
    ),
    "_core.interval_close": (
        WATCHING,
        "_core.interval_close(12345);"
        " raises(TypeError, _core.interval_close, '')",
    ),
    "_core.resident_bytes": ("", "_core.resident_bytes()"),
    "_core.process_memory": ("", "_core.process_memory()"),
    "_core._footprint": (
        "",
        "[_core._footprint(one) for one in ([1], {1: 2}, 'a', {3}, 1 << 99)]",
    ),
    "_core.arrays_know": ("", "_core.arrays_know()"),
    "_core.arrays_install": (
        "_core.arrays_uninstall()",
        "_core.arrays_install(); _core.arrays_uninstall();"
        " raises(TypeError, _core.arrays_install, 1, 2)",
    ),
    "_core.arrays_uninstall": ("", "_core.arrays_uninstall()"),
    "_core.arrays_installed": ("", "_core.arrays_installed()"),
    "_core.recorder_arm": (
        FOLDER,
        "_core.recorder_arm(folder, ('a', 'b'), events=9, sites=9, keep=2,"
        " reserve=4096, second_stage=lambda name: None)",
    ),
    "_core.recorder_arm.error": (
        FOLDER,
        "raises(OSError, _core.recorder_arm, folder + '/no', ());"
        " raises(ValueError, _core.recorder_arm, folder, (), events=0);"
        " raises(TypeError, _core.recorder_arm, folder, (1,))",
    ),
    "_core.recorder_disarm": (
        FOLDER,
        "_core.recorder_arm(folder, ()); _core.recorder_disarm();"
        " _core.recorder_disarm()",
    ),
    "_core.recorder_write": (
        FOLDER + WATCHING + "_core.recorder_arm(folder, (), keep=2)\n",
        "_core.recorder_write('test'); "
        "raises(TypeError, _core.recorder_write)",
    ),
    "_core.recorder_status": ("", "_core.recorder_status()"),
    "_core.recorder_events": (
        FOLDER + WATCHING + "_core.recorder_arm(folder, ())\n",
        "torch.ones(3); _core.recorder_events()",
    ),
    # -- analysis --
    "GPUMemoryProfiler": (
        "",
        "impactarbiter.GPUMemoryProfiler('cpu').close()",
    ),
    "GPUMemoryProfiler.profile_function": (
        PROFILING,
        "profiler.profile_function(torch.ones, 3);"
        " profiler.profile_function()(torch.ones)(3);"
        " raises(TypeError, profiler.profile_function, torch.ones);"
        " profiler.clear_results()",
    ),
    "MemoryAnalyzer": (
        PROFILING + "profiler.profile_function(torch.ones, 3)\n",
        "impactarbiter.MemoryAnalyzer(profiler)"
        ".generate_optimization_report()",
    ),
    "MemoryTracker": (
        "import impactarbiter.analysis.tracker\n",
        "tracker = impactarbiter.MemoryTracker('cpu')\n"
        "    with tracker, tracker.phase('a'): torch.ones(3)",
    ),
    "FlightRecorder": (
        FOLDER + WATCHING,
        "recorder = impactarbiter.FlightRecorder(folder, keep=1, interval=0)\n"
        "    with recorder: raises(RuntimeError, torch.empty, 10**15)",
    ),
    # -- _torch --
    "_torch.install": ("", "_torch.install(); _torch.uninstall()"),
    "_torch.uninstall": ("", "_torch.uninstall()"),
    "_torch.installed": (WATCHING, "_torch.installed()"),
    "_torch.register": ("", "_torch.register()"),
    "_torch.rescan": (WATCHING, "_torch.rescan()"),
    "_torch.graph_size": (
        WATCHING + "loss = (weight.exp() * 2).sum()\n",
        "_torch.graph_size(loss); _torch.graph_size(loss, limit=1);"
        " raises(TypeError, _torch.graph_size, 1)",
    ),
    "_torch.walk_failures": ("", "_torch.walk_failures()"),
    "_torch.object_bytes": ("", "_torch.object_bytes()"),
    "_torch.pause_compiler": ("", "_torch.pause_compiler()"),
    "_torch.resume_compiler": ("", "_torch.resume_compiler(None)"),
}
if "explain" in impactarbiter.__all__:
    CASES |= {
        "explain": (
            "held = [torch.ones(3)]\n",
            "impactarbiter.explain(held[0]); impactarbiter.explain(held)",
        ),
        "explain.graph": (
            LEAKING,
            "str(impactarbiter.explain(kept[3], paths=2))",
        ),
        "explain.error": (
            "held = [torch.ones(3)]\n",
            "raises(UsageError, impactarbiter.explain, held, paths=0)",
        ),
        "retained_bytes": (
            LEAKING,
            "impactarbiter.retained_bytes(kept)",
        ),
        "_core.explain": (
            "held = [torch.ones(3)]\n",
            "impactarbiter.explain(held[0])",
        ),
    }
if "snapshot" in impactarbiter.__all__:
    CASES["snapshot"] = (
        WATCHING,
        "a = impactarbiter.snapshot(); kept = torch.ones(3);"
        " len(impactarbiter.snapshot() - a)",
    )


#: Cases with a walk of the heap, or a search of memory, in each call.
SLOW = (
    "watch",
    "Arbiter",
    "explain",
    "retained_bytes",
    "GPUMemoryProfiler",
    "MemoryAnalyzer",
    "MemoryTracker",
    "FlightRecorder",
    "_core.recorder_write",
    "_core.diagnose",
    "_core.explain",
    "_core.instances",
    "_core.keep_paths",
    "_core.native_of",
)


@pytest.fixture(scope="module")
def results() -> dict[str, str | None]:
    cases = [
        (
            name,
            SETUP + setup,
            body,
            FEW_CALLS if name.startswith(SLOW) else CALLS,
            ROUNDS,
        )
        for name, (setup, body) in CASES.items()
    ]
    # The first optimizer imports what all walks after it go through.
    cases.sort(key=lambda case: "optim" in case[1] + case[2])
    done = subprocess.run(
        [sys.executable, "-P", "-X", "faulthandler", "-c", MEASURE],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONMALLOC": "pymalloc",
            "OMP_NUM_THREADS": "1",
        },
        timeout=900,
    )
    print(done.stderr)
    assert done.stdout, "no case was run"
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_calls_leave_nothing(
    name: str, results: dict[str, str | None]
) -> None:
    assert name in results, "the process has ended before"
    assert results[name] is None


def functions(module: types.ModuleType) -> set[str]:
    short = module.__name__.rpartition(".")[2]
    return {
        f"{short}.{name}"
        for name, value in vars(module).items()
        if isinstance(value, types.BuiltinFunctionType)
    }


def test_every_function_has_a_case() -> None:
    public = {
        name
        for name in impactarbiter.__all__
        if isinstance(getattr(impactarbiter, name), types.FunctionType)
    }
    assert public | functions(_core) | functions(_torch) <= set(CASES)


@pytest.mark.parametrize(
    "name", ["impactarbiter._core", "impactarbiter._torch"]
)
def test_every_type_of_ours_is_freed(name: str) -> None:
    """Types are made once; using them leaves their count as it was."""
    module = sys.modules[name]
    with impactarbiter.watch():
        engine = type(torch.autograd.Variable._execution_engine)
    assert engine.__module__ == "impactarbiter._torch"
    before = sys.getrefcount(engine), sys.getrefcount(module)
    for _ in range(5):
        with impactarbiter.watch():
            weight = torch.ones(2, requires_grad=True)
            weight.sum().backward()
    assert (sys.getrefcount(engine), sys.getrefcount(module)) == before
