"""The ledger has what JAX says that is alive, to the byte."""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import hypothesis.strategies as st
import jax
import jax.dlpack
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from jax.sharding import NamedSharding, PartitionSpec

import impactarbiter
from impactarbiter import _core
from impactarbiter.core import frameworks, heap, ledger, wire

MESH = jax.make_mesh((2,), ("rows",))
ROWS = NamedSharding(MESH, PartitionSpec("rows"))
EVERYWHERE = NamedSharding(MESH, PartitionSpec())
DEVICES = jax.devices()


def theirs() -> dict[str, int]:
    """Bytes that JAX says are alive, each buffer once."""
    found: dict[str, dict[int, int]] = {}
    for array in jax.live_arrays():
        for part in () if array.is_deleted() else array._arrays:
            if part.is_deleted():  # whereas the array is not
                continue
            (device,) = part.devices()
            place = found.setdefault(f"jax:cpu:{device.id}", {})
            place[part.unsafe_buffer_pointer()] = part.nbytes
    sums = {name: sum(sizes.values()) for name, sizes in found.items()}
    return {name: live for name, live in sums.items() if live}


def ours() -> dict[str, int]:
    gc.collect()
    ledger.refresh()
    return {
        name: live
        for name, (live, _) in _core.totals()["devices"].items()
        if live and name.startswith("jax")
    }


@pytest.fixture
def arbiter() -> Iterator[impactarbiter.Arbiter]:
    gc.collect()
    assert not theirs(), "what an earlier test kept"
    with impactarbiter.watch() as arbiter:
        yield arbiter


@partial(jax.jit, donate_argnums=0)
def donated(x):
    return x * 2


@jax.jit
def pair(x):
    return x + 1, {"sum": x.sum(), "same": x}


#: What is done to a list of arrays; n chooses among them.
OPERATIONS = {
    "make": lambda kept, n: kept.append(jnp.full((n % 40 + 1, 4), 1.0)),
    "half": lambda kept, n: kept.append(jnp.ones(n % 50, jnp.bfloat16)),
    "from numpy": lambda kept, n: kept.append(
        jnp.asarray(np.ones((n % 30 + 1, 16), np.float32))
    ),
    "alias": lambda kept, n: kept.append(
        jax.device_put(pick(kept, n), DEVICES[0])
    ),
    "shard": lambda kept, n: kept.append(
        jax.device_put(jnp.ones((2 * (n % 9 + 1), 3)), ROWS)
    ),
    "replicate": lambda kept, n: kept.append(
        jax.device_put(jnp.ones((n % 9 + 1, 3)), EVERYWHERE)
    ),
    "other device": lambda kept, n: kept.append(
        jax.device_put(jnp.ones(n % 7 + 1), DEVICES[1])
    ),
    "part": lambda kept, n: kept.append(
        pick(kept, n).addressable_shards[-1].data
    ),
    "call": lambda kept, n: kept.append(pair(whole(kept, n))),
    "donate": lambda kept, n: kept.append(donated(whole(kept, n))),
    "delete": lambda kept, n: pick(kept, n).delete(),
    "view": lambda kept, n: kept.append(np.asarray(pick(kept, n))),
    "let go": lambda kept, n: kept and kept.pop(n % len(kept)),
    "cycle": lambda kept, n: kept.append(cycle(jnp.ones(n % 20 + 1))),
    "key": lambda kept, n: kept.append(jax.random.key(n)),
    "grad": lambda kept, n: kept.append(
        jax.grad(lambda v: (v * v).sum())(jnp.ones(n % 20 + 1))
    ),
    "type": lambda kept, n: kept.append(
        jnp.zeros(
            (n % 9, 3), (bool, jnp.int8, jnp.uint32, jnp.complex64)[n % 4]
        )
    ),
    "copy": lambda kept, n: kept.append(jnp.copy(whole(kept, n))),
    "slice": lambda kept, n: kept.append(whole(kept, n)[..., :1]),
    "reshape": lambda kept, n: kept.append(whole(kept, n).reshape(-1)),
    "same": lambda kept, n: kept.append(pick(kept, n)),
    "tree": lambda kept, n: kept.append(
        jax.tree.map(lambda a: a + 1, {"a": whole(kept, n), "b": (1.0, None)})
    ),
    "place anew": lambda kept, n: kept.append(
        jax.device_put(
            whole(kept, n), (ROWS, EVERYWHERE, DEVICES[1], DEVICES[0])[n % 4]
        )
    ),
    "from parts": lambda kept, n: kept.append(
        jax.make_array_from_single_device_arrays(
            (2 * (n % 5 + 1), 3),
            ROWS,
            [jax.device_put(np.ones((n % 5 + 1, 3)), d) for d in DEVICES],
        )
    ),
    "callback": lambda kept, n: kept.append(
        jax.make_array_from_callback(
            (2 * (n % 5 + 1), 2),
            ROWS,
            np.ones((2 * (n % 5 + 1), 2)).__getitem__,
        )
    ),
    "dlpack": lambda kept, n: kept.append(
        jax.dlpack.from_dlpack(np.ones((n % 20 + 1, 16), np.float32))
    ),
    "pmap": lambda kept, n: kept.append(mapped(jnp.ones((2, n % 3 + 1)))),
    "shard_map": lambda kept, n: kept.append(
        by_rows(jax.device_put(jnp.ones((2, n % 3 + 1)), ROWS))
    ),
    "scan": lambda kept, n: kept.append(
        jax.lax.scan(lambda c, x: (c + x, c), 0.0, jnp.ones(n % 5 + 1))
    ),
    "vjp": lambda kept, n: kept.append(
        jax.vjp(lambda v: v * v, jnp.ones(n % 20 + 1))[1]
    ),
    "refused": lambda kept, n: kept.append(pair(jnp.ones(n % 3), 1)),
    "let go of all": lambda kept, n: n % 8 or kept.clear(),
}


@jax.pmap
def mapped(x):
    return x * 2, x.sum()


@jax.jit
@partial(
    jax.shard_map,
    mesh=MESH,
    in_specs=PartitionSpec("rows"),
    out_specs=PartitionSpec("rows"),
)
def by_rows(x):
    return x + 1


def whole(kept: list, n: int) -> jax.Array:
    """One all of whose parts are alive.

    jaxlib (0.10.2) ends the process where a compiled function is given an
    array of which a part was deleted: that alone is left out.
    """
    array = pick(kept, n)
    if any(part.is_deleted() for part in array._arrays):
        event("left out: a call with an array of which a part was deleted")
        return jnp.ones(3)
    return array


def pick(kept: list, n: int) -> jax.Array:
    """One that is alive, else a new one."""
    alive = [a for a in kept if isinstance(a, jax.Array) and not is_gone(a)]
    plain = [a for a in alive if a.dtype in (jnp.float32, jnp.bfloat16)]
    return plain[n % len(plain)] if plain else jnp.ones(3)


def is_gone(array: jax.Array) -> bool:
    try:
        return array.is_deleted()
    except AttributeError:
        return False


def cycle(array: jax.Array) -> list:
    ring: list = [array]
    ring.append(ring)
    return ring


@settings(
    max_examples=int(os.environ.get("IMPACTARBITER_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 999)),
        min_size=5,
        max_size=60,
    )
)
def test_random_operations(done: list[tuple[str, int]]) -> None:
    kept: list = []
    gc.collect()
    assert not theirs()
    with impactarbiter.watch(numpy=False):
        for at, (name, n) in enumerate(done):
            with suppress(Exception):  # what JAX refuses: a part of a mesh
                OPERATIONS[name](kept, n)
            if at % 16 == 15:
                assert ours() == theirs()
        assert ours() == theirs()
        kept.clear()
        assert ours() == theirs() == {}


def test_a_part_that_was_deleted_counts_nothing(arbiter) -> None:
    whole = jax.device_put(jnp.ones((4, 25)), EVERYWHERE)
    assert ours() == {"jax:cpu:0": 400, "jax:cpu:1": 400}
    whole.addressable_shards[1].data.delete()
    assert not whole.is_deleted()
    assert ours() == theirs() == {"jax:cpu:0": 400}
    del whole
    assert ours() == {}


def test_slices_of_one_array_of_numpys_count_once(
    arbiter: impactarbiter.Arbiter,
) -> None:
    room = np.ones(4096, np.float32)
    # Where device_put() copies nothing, and NumPy's own does not begin.
    at = 16 + -room.ctypes.data % 64 // 4
    for sizes in ((16, 32, 48), (48, 32, 16), (32, 48, 16)):
        kept = [jax.device_put(room[at : at + size]) for size in sizes]
        assert len({one.unsafe_buffer_pointer() for one in kept}) == 1
        assert ours() == {"jax:cpu:0": 192}
        while kept:
            arbiter.step()
            largest = max(one.nbytes for one in kept)
            assert ours() == {"jax:cpu:0": largest}
            (said,) = arbiter.report().cross_checks
            assert said.endswith(f"has the same {largest} bytes")
            kept.pop()
        assert ours() == {}


def test_what_is_older_is_no_part_of_it() -> None:
    older = jnp.ones(100)
    with impactarbiter.watch() as arbiter:
        newer = jnp.ones(50)
        assert ours() == {"jax:cpu:0": 200}
        report = arbiter.report()
        assert report.older == {"jax": 400}
        assert any("the same 600 bytes" in s for s in report.cross_checks)
    del older, newer


def test_explain_and_retained_bytes() -> None:
    kept = [jnp.ones(100), jax.device_put(jnp.ones((4, 25)), EVERYWHERE)]
    for array, size in zip(kept, (400, 800), strict=True):
        for _ in range(2):
            held = impactarbiter.explain(array)
            assert held.retained_bytes == size
            assert held.noun == "array"
        assert "float32 jax:cpu:0" in held.target
        del array, held
    assert impactarbiter.retained_bytes(kept) == 1200


def test_a_part_is_held_by_its_array() -> None:
    whole = jax.device_put(jnp.ones((4, 25)), ROWS)
    held = impactarbiter.explain(whole.addressable_shards[1].data)
    # The list of parts is jaxlib's own since 0.12, and leads to them.
    name = "_arrays[1]"
    if whole._arrays is not whole._arrays:
        name = "addressable_shards[1].data"
    assert str(held.paths[0]).endswith(f"whole.{name}")


def test_what_a_function_captured_is_held_by_it() -> None:
    captured = jnp.ones(300)
    function = jax.jit(lambda x: x + captured)
    function(jnp.ones(300)).block_until_ready()
    holders = impactarbiter.explain(captured, paths=4)
    assert any("function" in str(path) for path in holders.paths)


def test_hooks_go_out() -> None:
    array, function = type(jnp.ones(1)), type(donated)
    before = array.__flags__, function.__setattr__
    with impactarbiter.watch():
        jax.jit(lambda x: x + 1)(jnp.ones(2))
        assert frameworks.in_place() == {"jax": True}
    assert frameworks.in_place() == {}
    assert (array.__flags__, function.__setattr__) == before
    donated(jnp.ones(2))


def test_an_error_in_a_function_is_the_programs(arbiter) -> None:
    @jax.jit
    def broken(x):
        raise KeyError("mine")

    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            broken(jnp.ones(1))
    assert arbiter.report().steps == 0


def test_a_function_of_a_function_is_one_step(arbiter) -> None:
    inner = jax.jit(lambda x: x * 2)
    outer = jax.jit(lambda x: inner(x) + 1)
    for _ in range(4):
        outer(jnp.ones(2))
        jnp.sin(jnp.ones(2))
    compiled = outer.lower(jnp.ones(2)).compile()
    compiled(jnp.ones(2))
    assert arbiter.report().steps == 5


def run(program: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program), *args],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_threads_hold_in_passing_is_no_leak() -> None:
    said = run("""
        import threading

        import impactarbiter
        import jax
        import jax.numpy as jnp

        step = jax.jit(lambda x: x * 2 + 1)

        def work(n):
            for i in range(300):
                x = step(jnp.ones(16 + n))
                y = step(x + 0)

        arbiter = impactarbiter.watch()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report = arbiter.stop()
        print([f.verdict for f in report.findings if f.verdict == "leak"])
        print(report.cross_checks)
    """)
    assert said.startswith("[]\n")
    assert "the same 0 bytes" in said


def test_a_line_of_arrays_has_their_device(arbiter) -> None:
    step = jax.jit(lambda x: x + 1)
    kept = []
    for i in range(40):
        kept.append(step(jnp.full(8, float(i))))
    (line,) = heap.suspects(wire.AGE_FOR_REPORT)
    assert line.device == "jax:cpu:0"


def test_what_a_comprehension_fills_is_not_held_by_cpp() -> None:
    said = run("""
        import impactarbiter
        import jax
        import jax.numpy as jnp

        step = jax.jit(lambda x: x + 1)

        def many(n):
            return [step(jnp.full(64, float(i))) for i in range(n)]

        arbiter = impactarbiter.watch()
        for _ in range(3):
            many(60)
        report = arbiter.stop()
        print([f.rule for f in (*report.findings, *report.taken_back)])
    """)
    assert "no-python-root" not in said


def test_jax_may_be_imported_later() -> None:
    said = run("""
        import impactarbiter

        arbiter = impactarbiter.watch()
        import jax
        import jax.numpy as jnp

        kept = []
        step = jax.jit(lambda x: x + 1)
        exec(compile(
            "for i in range(60): kept.append(step(jnp.full(8, i)))",
            "<string>", "exec",
        ))
        report = arbiter.stop()
        print(report.findings[0].holder.expression, report.steps)
        print(report.environment["jax"] == jax.__version__)
    """)
    assert said.split() == ["__main__.kept", "60", "True"]


def test_torch_is_not_needed() -> None:
    said = run("""
        import sys

        import impactarbiter
        from impactarbiter.commands import main

        print("torch" in sys.modules)
        for name in impactarbiter.__all__:
            getattr(impactarbiter, name)
        try:
            impactarbiter.GPUMemoryProfiler()
        except impactarbiter.ImpactArbiterError as error:
            print(str(error).count("torch") > 0)
        main(["doctor"])
    """)
    assert said.startswith("False\nTrue\n")
    assert "Traceback" not in said


def test_nothing_is_said_of_arrays_in_masked_reports() -> None:
    said = run("""
        import jax, impactarbiter
        import jax.numpy as jnp

        arbiter = impactarbiter.watch(obfuscate=True)
        secret = jax.jit(lambda n: n + 1, static_argnums=0)
        for n in range(20):
            secret(n)
        print(arbiter.stop())
    """)
    assert "20 traces of a function" in said
    assert "secret" not in said
    assert "<string>" not in said
