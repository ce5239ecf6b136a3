"""Torch's own CUDA allocator, reporting to us.

Runs where torch sees a CUDA device: a GPU, or the fake one of fake_cuda.c
(`make check-cuda-build`), on which kernels are not run but everything that
torch allocates, frees and reports is real.  Each program has a process of its
own: how the allocator works is settled by the environment.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap

import pytest
import torch

FAKE = hasattr(ctypes.CDLL(None), "fake_cuda_syncs")

pytestmark = pytest.mark.skipif(
    torch.version.cuda is None or not torch.cuda.is_available(),
    reason="torch sees no CUDA device",
)
fake_only = pytest.mark.skipif(not FAKE, reason="counts a fake device's calls")

SETUP = """
import ctypes, random, sys, threading
import torch
import impactarbiter
from impactarbiter import _core, _cuda
from impactarbiter.core import devices

NAMES = {
    "allocated_bytes": "allocated_bytes.all.current",
    "requested_bytes": "requested_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "inactive_split_bytes": "inactive_split_bytes.all.current",
    "segments": "segment.all.current",
    "allocated_count": "allocation.all.current",
}

def known(index=0):
    (d,) = [d for d in _core.devices() if d["device"] == f"cuda:{index}"]
    return d

def check(index=0):
    torch.cuda.synchronize(index)
    d, stats = known(index), torch.cuda.memory_stats(index)
    if d["mapped_bytes"]:
        stats["segment.all.current"] = d["segments"]
    found = {name: d[name] for name in NAMES}
    assert found == {name: stats[of] for name, of in NAMES.items()}
    assert d["allocated_bytes"] == torch.cuda.memory_allocated(index)
    active = stats["active_bytes.all.current"]
    assert d["pending_bytes"] == active - d["allocated_bytes"]
    assert d["drift"] == 0 and d["followed"]
    assert _core.consistent()

def live(index=0):
    return _core.totals()["devices"].get(f"cuda:{index}", (0, 0))[0]

def frames(tensor):
    _core.refresh()
    data = tensor.untyped_storage().data_ptr()
    (row,) = [r for r in _core.rows() if r["address"] == data]
    return [f[2] for f in _core.stack_frames(int(row["stack"]))]

class Scale(torch.nn.Module):  # no matrices: a fake device has no cuBLAS
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(64, device="cuda"))
    def forward(self, x):
        return (x * self.weight).sin()

class Life:
    def __init__(self, seed, most=3 << 20, index=0):
        self.random, self.alive, self.most = random.Random(seed), [], most
        self.device = torch.device("cuda", index)
        with torch.cuda.device(self.device):
            self.streams = [torch.cuda.Stream() for _ in range(3)]
    def turn(self, times):
        r = self.random
        for _ in range(times):
            what = r.random()
            try:
                if what < 0.55 or not self.alive:
                    size = r.randrange(1, r.choice([4000, 400_000, self.most]))
                    with torch.cuda.stream(r.choice(self.streams)):
                        t = torch.empty(
                            size, dtype=torch.uint8, device=self.device)
                    if r.random() < 0.2:
                        t.record_stream(r.choice(self.streams))
                    self.alive.append(t)
                elif what < 0.98:
                    self.alive.pop(r.randrange(len(self.alive)))
                elif what < 0.985:
                    torch.cuda.empty_cache()
            except torch.cuda.OutOfMemoryError:
                del self.alive[: len(self.alive) // 2]
            if len(self.alive) > 150:
                del self.alive[:100]
"""


def run(program: str, **environment: str) -> str:
    python = [sys.executable, "-P", "-X", "faulthandler", "-c"]
    done = subprocess.run(
        [*python, SETUP + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "conf",
    [
        "",
        "expandable_segments:True",
        "max_split_size_mb:24",
        "roundup_power2_divisions:[1:4,2:8,>:2]",
        "garbage_collection_threshold:0.6",
    ],
)
def test_equals_memory_stats(conf: str) -> None:
    run(
        """
        arbiter = impactarbiter.watch(step="manual")
        life = Life(1, 30 << 20)
        for _ in range(40):
            life.turn(75)
            arbiter.step()
            check()
            assert live() == torch.cuda.memory_allocated()
        life.alive.clear()
        torch.cuda.empty_cache()
        check()
        assert live() == 0
        report = arbiter.stop()
        assert not report.warnings, report.warnings
        """,
        PYTORCH_CUDA_ALLOC_CONF=conf,
    )


def test_memory_from_before_the_watch() -> None:
    run(
        """
        life = Life(2)
        life.turn(500)
        before = torch.cuda.memory_allocated()
        assert before > 0
        with impactarbiter.watch(step="manual") as arbiter:
            check()
            views = [t[:1] for t in life.alive]
            arbiter.step()
            assert live() == 0 and len(_core.rows()) == 0
            del views
            old = life.alive.pop()
            life.turn(500)
            check()
            arbiter.step()
            report = arbiter.report()
        (device,) = [d for d in report.devices if d.device == "cuda:0"]
        assert device.allocated_bytes == torch.cuda.memory_allocated()
        assert device.live_bytes < device.allocated_bytes
        """
    )


def test_watching_again_and_again() -> None:
    """There is no way to detach: one callback serves every watch."""
    run(
        """
        life = Life(3)
        for _ in range(5):
            with impactarbiter.watch(step="manual"):
                assert _cuda.attached()
                life.turn(100)
                check()
            assert not _cuda.attached()
            seen = known()["seen"]
            life.turn(100)
            assert known()["seen"] == seen
        """
    )


def test_a_tensor_counts_once() -> None:
    """The allocator reports the block, the tensor hook sees the tensor."""
    run(
        """
        with impactarbiter.watch(step="manual") as arbiter:
            x = torch.empty(1000, device="cuda")
            views = [x[:5], x.view(10, 100), x.detach()]
            p = torch.nn.Parameter(torch.empty(300, device="cuda"))
            arbiter.step()
            assert live() == torch.cuda.memory_allocated() == 4096 + 1536
            assert _core.totals()["live_count"] == 2
            found = frames(x)
            assert found == ["<module>"], found
        """
    )


def test_many_threads() -> None:
    run(
        """
        with impactarbiter.watch(step="manual") as arbiter:
            lives = [Life(seed) for seed in range(4)]
            threads = [
                threading.Thread(target=life.turn, args=(400,))
                for life in lives
            ]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                arbiter.step()
                _core.devices()
                assert _core.consistent()
            for thread in threads:
                thread.join()
            check()
            assert live() == torch.cuda.memory_allocated()
        """
    )


def test_several_devices() -> None:
    if not FAKE and torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    run(
        """
        with impactarbiter.watch(step="manual") as arbiter:
            lives = [Life(seed, index=seed) for seed in range(2)]
            for _ in range(5):
                for life in lives:
                    life.turn(100)
                arbiter.step()
                for index in range(2):
                    check(index)
                    assert live(index) == torch.cuda.memory_allocated(index)
            names = [d.device for d in arbiter.report().devices]
            assert {"cuda:0", "cuda:1"} <= set(names)
        """,
        **({"FAKE_CUDA_DEVICES": "2"} if FAKE else {}),
    )


# -- sites ----------------------------------------------------------------


BACKWARD = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return made_in_backward(grad)

def made_in_backward(grad):
    return grad * 2

def scaled(w):
    return w * 3

def viewed(w):
    v = w.view(-1)
    v = v[1:]
    return v.exp()

def train(f, size):
    w = torch.empty(size, size, device="cuda", requires_grad=True)
    f(w).sum().backward()
    return w.grad
"""


def test_backward_is_tied_to_the_forward_line() -> None:
    run(
        BACKWARD
        + """
with impactarbiter.watch(step="manual") as arbiter:
    found = frames(train(scaled, 100))
    assert found == ["MulBackward0", "scaled", "train", "<module>"], found
    found = frames(train(viewed, 100))
    assert found[0] == "SliceBackward0", found
    assert found[1] == "viewed", found
    found = frames(train(Twice.apply, 100))
    assert found[0] == "made_in_backward", found
"""
    )


def test_a_node_from_before_the_watch_is_tied_to_backward() -> None:
    run(
        BACKWARD
        + """
def later(loss):
    loss.backward()

w = torch.empty(50, 50, device="cuda", requires_grad=True)
loss = scaled(w).sum()
with impactarbiter.watch(step="manual") as arbiter:
    later(loss)
    found = frames(w.grad)
    assert found[0] == "MulBackward0", found
    assert found[-2:] == ["later", "<module>"], found
"""
    )


def test_forwards_of_threads_are_told_apart() -> None:
    """Each thread counts its own nodes from zero."""
    run(
        BACKWARD
        + """
grads = {}
def work(name, f):
    for _ in range(20):
        grads[name] = train(f, 64)

with impactarbiter.watch(step="manual") as arbiter:
    threads = [
        threading.Thread(target=work, args=item)
        for item in {"scaled": scaled, "viewed": viewed}.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, grad in grads.items():
        found = frames(grad)
        assert found[1] == name, (name, found)
"""
    )


def test_a_leak_is_found_with_its_forecast() -> None:
    run(
        """
        model = Scale()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        history = []

        def step():
            out = model(torch.ones(32, 64, device="cuda"))
            history.append(out)
            out.sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        with impactarbiter.watch() as arbiter:
            for _ in range(25):
                step()
            report = arbiter.report()
        (finding,) = report.findings
        assert finding.verdict == "leak", str(report)
        assert finding.allocated_at.function == "Scale.forward"
        assert "history" in str(finding.path)
        assert finding.tensors[0].device == "cuda:0"
        assert finding.bytes_per_step > 7000
        room = devices.room("cuda:0")
        assert 0 < finding.steps_to_oom <= room / finding.bytes_per_step + 1
        limited = devices.room("cuda:0", torch.cuda.memory_allocated() + 999)
        assert limited == 999
        """
    )


# -- states of the allocator ------------------------------------------------


@fake_only
def test_freed_while_a_stream_uses_it() -> None:
    run(
        """
        busy = ctypes.c_int.in_dll(ctypes.CDLL(None), "fake_cuda_busy")
        with impactarbiter.watch(step="manual") as arbiter:
            side = torch.cuda.Stream()
            x = torch.empty(1 << 20, device="cuda")
            x.record_stream(side)
            busy.value = 1
            del x
            check()
            assert known()["pending_bytes"] == 4 << 20
            assert live() == 0
            (device,) = arbiter.report().devices[-1:]
            assert device.pending_bytes == 4 << 20
            busy.value = 0
            torch.empty(1, device="cuda")
            check()
            assert known()["pending_bytes"] == 0
        """
    )


def test_out_of_memory_is_noticed() -> None:
    run(
        """
        total = torch.cuda.mem_get_info()[1]
        with impactarbiter.watch(step="manual") as arbiter:
            kept = [torch.empty(1 << 20, device="cuda")]
            for _ in range(2):
                try:
                    torch.empty(2 * total, dtype=torch.uint8, device="cuda")
                except torch.cuda.OutOfMemoryError:
                    pass
            check()
            assert known()["ooms"] == 2
        """
    )


def test_graph_capture() -> None:
    """Hooks stay legal: the driver is not even asked for free memory."""
    run(
        """
        asked = None
        if hasattr(ctypes.CDLL(None), "fake_cuda_asked_in_capture"):
            asked = ctypes.c_long.in_dll(
                ctypes.CDLL(None), "fake_cuda_asked_in_capture")
        with impactarbiter.watch(step="manual") as arbiter:
            x = torch.zeros(1000, device="cuda")
            warm = x * 2 + 1
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x * 2 + 1
                arbiter.step()
                arbiter.report()
            graph.replay()
            check()
            assert known()["private_bytes"] > 0
            assert live() == torch.cuda.memory_allocated()
            del y, graph
            torch.cuda.empty_cache()
            check()
            assert known()["private_bytes"] == 0
            assert asked is None or asked.value == 0
        """
    )


def test_a_pool_of_the_users() -> None:
    run(
        """
        with impactarbiter.watch(step="manual") as arbiter:
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                x = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
            y = torch.empty(9, device="cuda")
            check()
            assert known()["private_bytes"] >= 5 << 20
            assert live() == torch.cuda.memory_allocated()
        """
    )


@fake_only
def test_we_neither_launch_nor_synchronize_nor_allocate() -> None:
    program = """
        if WATCHED:
            arbiter = impactarbiter.watch()
        model = Scale()
        optimizer = torch.optim.Adam(model.parameters())
        kept = []
        for _ in range(20):
            out = model(torch.ones(32, 64, device="cuda"))
            kept.append(out)
            out.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        if WATCHED:
            report = arbiter.stop()
            assert len(report.findings) == 1
        library = ctypes.CDLL(None)
        print([ctypes.c_long.in_dll(library, f"fake_cuda_{name}").value
               for name in ("launches", "syncs", "mallocs")])
    """
    plain, watched = (
        run(program.replace("WATCHED", str(on))) for on in (False, True)
    )
    assert plain == watched
    assert "[0, 0, 0]" not in plain


def test_pinned_memory_is_seen() -> None:
    run(
        """
        class Holder:
            pass

        with impactarbiter.watch(step="manual") as arbiter:
            held = Holder()
            held.buffer = torch.empty(1000, pin_memory=True)
            arbiter.step()
            assert _core.totals()["devices"]["cpu"][0] == 4000
            found = impactarbiter.explain(held.buffer)
            assert "held.buffer" in str(found.paths[0]), str(found)
            del held
            arbiter.step()
            assert _core.totals()["devices"]["cpu"][0] == 0
        """
    )


def test_calls_leave_nothing() -> None:
    run(
        """
        torch.cuda.init()
        calls = (_cuda.attach, _cuda.attached, _cuda.allocator, _cuda.rules,
                 _cuda.silence, _cuda.torch_version)
        def round():
            for _ in range(500):
                for call in calls:
                    call()
        round()
        before = sys.getallocatedblocks()
        round()
        assert abs(sys.getallocatedblocks() - before) < 50
        """
    )


# -- allocators that hide what they do ----------------------------------------


HIDDEN = """
with impactarbiter.watch(step="manual") as arbiter:
    x = torch.empty(1000, device="cuda")
    arbiter.step()
    # What the tensor hook sees is there all the same, once.
    assert live() == 4000, _core.totals()
    said = [w for w in arbiter.report().warnings if "not reported" in w]
    assert len(said) == 1 and REASON in said[0], said
"""


def test_the_drivers_allocator() -> None:
    run(
        HIDDEN.replace("REASON", '"cudaMallocAsync"'),
        PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
    )


def test_without_caching() -> None:
    run(
        HIDDEN.replace("REASON", '"NO_CUDA_MEMORY_CACHING"'),
        PYTORCH_NO_CUDA_MEMORY_CACHING="1",
    )


@fake_only
def test_a_pluggable_allocator(tmp_path: os.PathLike[str]) -> None:
    source = os.path.join(tmp_path, "plug.c")
    library = os.path.join(tmp_path, "plug.so")
    with open(source, "w") as file:
        file.write(
            "#include <stddef.h>\n"
            "int cudaMalloc(void **, size_t); int cudaFree(void *);\n"
            "void *get(long n, int d, void *s)"
            "{ void *p = 0; (void)d, (void)s; cudaMalloc(&p, n); return p; }\n"
            "void put(void *p, long n, int d, void *s)"
            "{ (void)n, (void)d, (void)s; cudaFree(p); }\n"
        )
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, "-shared", "-fPIC", source, "-o", library], check=True)
    run(
        f"""
plug = torch.cuda.memory.CUDAPluggableAllocator({library!r}, "get", "put")
torch.cuda.memory.change_current_allocator(plug)
"""
        + HIDDEN.replace("REASON", '"pluggable"')
    )


# -- a process without CUDA ---------------------------------------------------


def test_cuda_stays_uninitialized() -> None:
    run(
        """
        before = list(torch.cuda._queued_calls)
        with impactarbiter.watch() as arbiter:
            x = torch.ones(3)
            arbiter.step()
            report = arbiter.report()
        assert not torch.cuda.is_initialized()
        assert torch.cuda._queued_calls == before
        assert not report.warnings
        assert devices.room("cuda:0") is None
        """
    )
