"""Every operator that torch tests itself with, watched.

Forward and backward give the same bits with our hooks as without, the walk of
each result's graph fails nowhere, and the bytes it counts are those that
``_saved_*`` lists from Python.  Each operator is a test of its own; a sample
of them is not marked slow.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

import impactarbiter
from impactarbiter import _core, _torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    common = pytest.importorskip(
        "torch.testing._internal.common_methods_invocations"
    )
from torch.utils import _pytree as pytree

#: Every so manieth operator is in the quick tests, with so many samples.
QUICK_STRIDE = 23
QUICK_SAMPLES = 6


def operators() -> list[Any]:
    on_cpu = [op for op in common.op_db if op.supported_dtypes("cpu")]
    return [
        pytest.param(
            op,
            QUICK_SAMPLES if number % QUICK_STRIDE == 0 else None,
            id=f"{op.name}{'.' if op.variant_test_name else ''}"
            f"{op.variant_test_name}",
            marks=() if number % QUICK_STRIDE == 0 else pytest.mark.slow,
        )
        for number, op in enumerate(on_cpu)
    ]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Samples warn of what is deprecated; some set a default of torch's."""
    before = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_default_dtype(before[0])
    torch.set_num_threads(before[1])


def samples_of(op: Any, most: int | None) -> list[Any]:
    dtypes = op.supported_dtypes("cpu")
    dtype = torch.float32
    if dtype not in dtypes:
        dtype = min(dtypes, key=str)
    grad = op.supports_autograd and op.supports_dtype(dtype, "cpu")
    grad = grad and (dtype.is_floating_point or dtype.is_complex)
    torch.manual_seed(0)
    return list(op.sample_inputs("cpu", dtype, requires_grad=grad))[:most]


def tensors_of(tree: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def copied(tree: Any) -> Any:
    """The same inputs, with no history and no gradient."""
    return pytree.tree_map(
        lambda leaf: (
            leaf.detach().clone().requires_grad_(leaf.requires_grad)
            if isinstance(leaf, torch.Tensor)
            else leaf
        ),
        tree,
    )


def bits(tensor: torch.Tensor | None) -> Any:
    if tensor is None:
        return None
    plain = tensor.detach()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg().reshape(-1)
    flat = plain.new_empty(plain.numel()).copy_(plain)
    return (
        tuple(tensor.shape),
        tensor.dtype,
        flat.view(torch.uint8).numpy().tobytes(),
    )


def forward(op: Any, sample: Any) -> tuple[list[Any], list[torch.Tensor]]:
    """Results and differentiable inputs; random numbers are always equal."""
    given = copied((sample.input, sample.args, sample.kwargs))
    torch.manual_seed(7)
    result = op(given[0], *given[1], **given[2])
    return tensors_of(result), [t for t in tensors_of(given) if t.is_leaf]


def backward(
    results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[Any]:
    roots = [t for t in results if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    if not roots or not leaves:
        return []
    grads = torch.autograd.grad(
        roots,
        leaves,
        [torch.ones_like(t) for t in roots],
        allow_unused=True,
        retain_graph=True,
    )
    return [bits(g) for g in grads]


#: Results of these are whatever lay in memory; the last bits of lstsq depend
#: on where LAPACK's work arrays happen to lie.
UNDEFINED = frozenset(
    [
        "linalg.lstsq",
        *("empty", "empty_like", "empty_permuted", "empty_strided"),
        *("new_empty", "new_empty_strided"),
    ]
)


def outcome(op: Any, sample: Any) -> tuple[Any, list[torch.Tensor]]:
    """All bits that come out, or the error, and the results themselves."""
    try:
        results, inputs = forward(op, sample)
        grads = backward(results, inputs)
    except Exception as error:  # what it raises must be the same, too
        return (type(error), str(error)), []
    if op.name in UNDEFINED:
        return [tuple(t.shape) for t in results], results
    return [[bits(t) for t in results], grads], results


# -- what Python lists --------------------------------------------------------


def saved_by(node: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for name in dir(node):
        if name.startswith("_saved_"):
            found += tensors_of(getattr(node, name))
    # A Function written in Python.
    found += tensors_of(list(getattr(node, "saved_tensors", ())))
    return found


def listed_from_python(tensor: torch.Tensor) -> tuple[int, int, bool]:
    """Nodes, bytes of the distinct storages that they saved, and whether
    that is all: what a CopySlices copies is not shown to Python."""
    waiting: list[Any] = [tensor.grad_fn]
    nodes: set[Any] = set()
    storages: dict[int, int] = {}
    while waiting:
        node = waiting.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        waiting += [following for following, _ in node.next_functions]
        for saved in saved_by(node):
            waiting.append(saved.grad_fn)
            try:
                storage = saved.untyped_storage()
            except NotImplementedError:
                continue  # sparse: it has none
            storages[storage._cdata] = storage.nbytes()
    shown = all(not node.name().endswith("CopySlices") for node in nodes)
    return len(nodes), sum(storages.values()), shown


# -- the test -----------------------------------------------------------------


@pytest.mark.parametrize(("op", "most"), operators())
def test_operator(op: Any, most: int | None) -> None:
    samples = samples_of(op, most)
    plain = [outcome(op, sample)[0] for sample in samples]
    failures = _torch.walk_failures()
    last = None
    with impactarbiter.watch(step="manual") as arbiter:
        for sample, expected in zip(samples, plain, strict=True):
            seen, results = outcome(op, sample)
            assert seen == expected
            for result in results:
                if result.grad_fn is None:
                    continue
                nodes, _, saved, full = _torch.graph_size(result)
                assert not full
                listed = listed_from_python(result)
                assert nodes >= listed[0] and saved >= listed[1]
                assert (nodes, saved) == listed[:2] or not listed[2]
            if results:
                last = results[-1]
            del results
            arbiter.step()
        if samples:
            impactarbiter.explain(last)  # one walk of the whole heap
        assert _core.consistent()
        assert arbiter.report().warnings == ()
    assert _torch.walk_failures() == failures
