"""What is known of containers, graphs and paths, as tables."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

import impactarbiter
from impactarbiter.judging.masks import obfuscated
from impactarbiter.knowledge.advice import advise
from impactarbiter.knowledge.autograd import CAUSES, cause_of
from impactarbiter.knowledge.native_code import MOST, function_of, telling
from impactarbiter.model.finding import (
    Finding,
    GraphCost,
    Holder,
    Kept,
    NativeCall,
    Site,
    TensorExample,
)
from impactarbiter.model.path import Edge, Path, name_in, pattern_of
from impactarbiter.model.report import Report

PACKAGE = os.path.dirname(impactarbiter.__file__)
SITE = Site("/home/me/train.py", 12, "step", "loss = model(x)")


def edge(text: str, kind: str = "attribute", type_: str = "object") -> Edge:
    return Edge(kind, name_in(text), type_, text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (".history", "history"),
        ("[17]", "17"),
        ("['loss']", "loss"),
        ("['it\\'s [0]']", "it\\'s [0]"),
        (".__dict__['not a name']", "not a name"),
        (".saved[mat1]", "mat1"),
        (".<closure>.store", "store"),
        (".<locals>.x", "x"),
        (".<hook>", "<hook>"),
        (
            "\N{RIGHTWARDS ARROW}AddBackward0",
            "\N{RIGHTWARDS ARROW}AddBackward0",
        ),
        (".<cache>(x=3)", "<cache>(x=3)"),
    ],
)
def test_what_an_edge_is_called(text: str, name: str) -> None:
    assert name_in(text) == name


# -- paths ----------------------------------------------------------------

RUNS = Path(
    "__main__",
    (
        edge(".models"),
        edge("['a']", "key"),
        *[edge(".prev")] * 6,
        edge("[3]", "index"),
    ),
)


def test_the_holder_s_depth_is_found_where_it_is_not_given() -> None:
    for depth in range(len(RUNS.edges) + 1):
        assert RUNS.depth_of(str(RUNS.upto(depth))) == depth
    assert RUNS.depth_of("__main__.other") == 0


def test_siblings_share_their_pattern() -> None:
    other = Path("__main__", (*RUNS.edges[:-1], edge("[4]", "index")))
    assert pattern_of(RUNS) == pattern_of(other)
    assert str(RUNS) != str(other)


# -- advice ---------------------------------------------------------------


def held(*types: str, kinds: tuple[str, ...] = ()) -> Finding:
    """A tensor in `__main__.kept`, below objects of these types."""
    kinds = kinds or ("index",) * len(types)
    below = [
        edge(f"[{number}]", kind, type_)
        for number, (type_, kind) in enumerate(zip(types, kinds, strict=True))
    ]
    return Finding(
        verdict="leak",
        allocated_at=SITE,
        path=Path("__main__", (edge(".kept", "attribute", "list"), *below)),
        holder=Holder("__main__.kept", "list", length=9, depth=1),
    )


@pytest.mark.parametrize("container", ["defaultdict", "OrderedDict", "list"])
def test_a_container_is_nobody_s_own_object(container: str) -> None:
    said = advise(held(container, "Tensor"))
    assert said.startswith("bound `__main__.kept` or clear it"), said


def test_an_object_of_the_user_s_is_named() -> None:
    said = advise(held("defaultdict", "Record", "Tensor"))
    assert said.startswith("drop each Record from `__main__.kept`")


def test_slices_in_objects_without_attributes() -> None:
    """There is no name to tell where a copy is to be stored."""
    found = owned(keeping(PLAIN, 6400, 0, stored=6400))
    assert found.path is not None
    kept, mark, _profile = found.path.edges
    item = edge("[1]", "index", "Tensor")
    path = Path("__main__", (kept, mark, item))
    said = advise(replace(found, path=path))
    assert said.startswith("drop each Mark from `__main__.kept`")


def test_a_traceback_below_the_holder() -> None:
    kinds = ("index", "traceback", "frame object")
    said = advise(held("ValueError", "traceback", "Tensor", kinds=kinds))
    assert said.startswith("keep `str(error)` in `__main__.kept`")


def test_a_traceback_above_the_holder_is_its_own_business() -> None:
    found = held("Tensor")
    assert found.path is not None
    above = edge(".__traceback__", "traceback", "traceback")
    path = Path("__main__", (above, *found.path.edges))
    holder = Holder("__main__.__traceback__.kept", "list", 9, depth=2)
    moved = Finding(
        verdict="leak", allocated_at=SITE, path=path, holder=holder
    )
    assert "traceback keeps" not in advise(moved)


def keeping(
    kept: Kept | None,
    size: float,
    nodes: float,
    kind: str = "list",
    shape: tuple[int, ...] = (4, 4),
    stored: int = 64,
    device: str = "cpu",
    trains: bool = True,
    length: int | None = 9,
) -> Finding:
    """Tensors in `__main__.kept`, and how much grows."""
    return replace(
        held("Tensor"),
        holder=Holder("__main__.kept", kind, length=length, depth=1),
        kept=kept,
        graph=GraphCost(9, 1, 4) if nodes else None,
        bytes_per_step=size,
        graph_bytes_per_step=nodes,
        tensors=(TensorExample(shape, "float32", device, 3, stored),),
        trains=trains,
    )


def longer(finding: Finding) -> Finding:
    """The same where the holder is the tensor itself."""
    assert finding.path is not None
    path = Path("__main__", finding.path.edges[:1])
    return replace(finding, path=path)


def owned(finding: Finding) -> Finding:
    """The same where each is an attribute of an object of the user's."""
    assert finding.path is not None
    mark = edge("[0]", "index", "Mark")
    profile = edge(".profile", "attribute", "Tensor")
    path = Path("__main__", (finding.path.edges[0], mark, profile))
    return replace(finding, path=path)


def of_pandas(finding: Finding) -> Finding:
    """The same where the holder is an array of a data frame's."""
    assert finding.path is not None and finding.holder is not None
    inside = (
        edge("._mgr", "attribute", "BlockManager"),
        edge(".<tuple>", "reference", "tuple"),
        edge("[0]", "index", "NumpyBlock"),
        edge(".<ndarray>", "reference", "ndarray"),
    )
    path = Path("__main__", (finding.path.edges[0], *inside))
    holder = replace(
        finding.holder, expression=path.expression, depth=len(path.edges)
    )
    return replace(finding, path=path, holder=holder)


GRAPHS = Kept(64.0, graphs=True)
PLAIN = Kept(64.0)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            keeping(GRAPHS, 64, 5936),
            "store `.detach()` in `__main__.kept` instead of the tensor: each"
            " one keeps the graph that made it; that stops 98 % of it",
        ),
        (
            keeping(Kept(4.0, True, True), 4, 5996, shape=()),
            "store `.item()` in `__main__.kept` instead of the tensor: each"
            " one keeps the graph that made it; that stops all of it",
        ),
        (
            keeping(GRAPHS, 64, 5936, trains=False),
            "run the forward under `torch.no_grad()`: the program has no"
            " backward, and `__main__.kept` keeps the graph of each step;"
            " that stops 98 % of it",
        ),
        (
            keeping(GRAPHS, 0, 1600, kind="Parameter", length=None),
            "update `__main__.kept` under `torch.no_grad()`: what is written"
            " into a parameter in place leaves it the graph of every step so"
            " far; that stops 96 % of it",
        ),
        (
            keeping(PLAIN, 8, 1600, kind="Parameter", length=None),
            "set the gradient of `__main__.kept` to None in each step, as"
            " zero_grad() of an optimizer or a module does:"
            " backward(create_graph=True) adds to it, and so it keeps the"
            " graph of every step so far",
        ),
        (
            keeping(Kept(8000.0, graphs=True), 8000, 2000),
            "bound `__main__.kept` or clear it once its tensors are used:"
            " `collections.deque(maxlen=...)` keeps the last ones; what must"
            " be kept can be summed up; `.detach()` would stop 20 % of the"
            " growth, the tensors themselves are the rest",
        ),
        (
            keeping(PLAIN, 64, 0, kind="dict"),
            "use keys that come back in `__main__.kept`, or delete what has"
            " been used: each new key stays; what must be kept can be summed"
            " up",
        ),
        (
            keeping(PLAIN, 64, 0, kind="deque", device="cuda:0"),
            "bound `__main__.kept` or clear it once its tensors are used;"
            " what must be kept can go off the device by `.cpu()`",
        ),
        (
            keeping(PLAIN, 6400, 0, stored=6400),
            "store a `.clone()` in `__main__.kept`: a slice keeps the whole"
            " tensor that it was taken from; that stops 99 % of it",
        ),
        (
            keeping(Kept(6400.0, graphs=True), 6400, 3600, stored=6400),
            "store a `.detach().clone()` in `__main__.kept`: a slice keeps the"
            " whole tensor that it was taken from, and the graph that made it;"
            " that stops 99 % of it",
        ),
        (
            owned(keeping(PLAIN, 6400, 0, stored=6400)),
            "store a `.clone()` in `.profile` of each Mark: a slice keeps the"
            " whole tensor that it was taken from; that stops 99 % of it",
        ),
        (
            # Each of 32 rows of one batch, kept by itself.
            keeping(Kept(32 * 6400.0), 6400, 0, stored=6400, kind="deque"),
            "bound `__main__.kept` or clear it once its tensors are used;"
            " what must be kept can be summed up",
        ),
        (
            longer(keeping(PLAIN, 64, 0, kind="Tensor", length=None)),
            "`__main__.kept` gets ever longer: keep its last part only,"
            " or begin anew once it has been used",
        ),
        (
            of_pandas(keeping(PLAIN, 64, 0, kind="ndarray", length=None)),
            "`__main__.kept` gets ever longer: keep its last rows only, or"
            " begin anew once it has been used",
        ),
        (
            # A module whose copy has the one before it.
            keeping(PLAIN, 64, 0, kind="Policy", length=None),
            "keep no more of what was there before than is still needed:"
            " `__main__.kept` leads to ever more, such as by `[0]`",
        ),
        (
            # It gets its keys back elsewhere, for some of what comes.
            replace(
                keeping(PLAIN, 64, 0, kind="dict"),
                may_end_at=Site("/w/offload.py", 30, "Store.unpack"),
            ),
            "see that all that comes to `__main__.kept` gets to"
            " /w/offload.py:30: by its source that takes things out or"
            " empties it, and what never gets there stays",
        ),
    ],
)
def test_advice_fits_what_is_kept(finding: Finding, said: str) -> None:
    assert advise(finding) == said


def test_what_registers_hooks_is_told_of_the_handle() -> None:
    found = held("function", "Tensor")
    hooks = edge("._forward_hooks", "attribute", "OrderedDict")
    assert found.path is not None
    path = Path("__main__", (hooks, *found.path.edges[1:]))
    said = advise(replace(found, path=path))
    assert "call `handle.remove()`" in said


def test_a_memo_is_told_of_its_size() -> None:
    found = keeping(PLAIN, 64, 0, kind="functools.lru_cache")
    assert found.path is not None
    entry = edge(".<cache>(3)", "lru_cache", "Tensor")
    path = Path("__main__", (found.path.edges[0], entry))
    said = advise(replace(found, path=path))
    assert said.startswith("give `__main__.kept` a `maxsize`")


def test_what_a_cycle_has_saved_is_in_nobody_s_reach() -> None:
    found = keeping(PLAIN, 64, 0)
    saved = edge(".<saved>", "iterator", "list")
    assert found.path is not None
    path = Path("__main__", (saved, *found.path.edges[1:]))
    said = advise(replace(found, path=path))
    assert said.startswith("do without `itertools.cycle`: it saves every item")
    assert "deque" not in said


def test_what_c_keeps_is_not_sought_where_it_was_allocated() -> None:
    found = replace(held("dict", "Tensor"), verdict="native")
    said = advise(found)
    assert said.startswith("look for where it is handed to C or C++ code")
    assert "`atexit.register`" in said


LOGGED = Site("/w/search.py", 67, "Trial.__init__", "log = getLogger(name)")
OWN = Site("/w/search.py", 9, "<module>", "manager.loggers[name] = log")


@pytest.mark.parametrize(
    ("grown", "kind", "library", "said"),
    [
        (LOGGED, "Logger", True, "undo what /w/search.py:67 does: `logging."),
        (LOGGED, "Tensor", True, "undo what /w/search.py:67 does: `logging."),
        (None, "Logger", True, "look for the call that adds to `logging."),
        (OWN, "Logger", True, "drop each Logger from `logging."),
        (LOGGED, "Logger", False, "drop each Logger from `logging."),
    ],
)
def test_a_library_s_own_table_is_not_the_program_s_to_empty(
    grown: Site | None, kind: str, library: bool, said: str
) -> None:
    found = Finding(
        verdict="leak",
        allocated_at=SITE,
        path=Path(
            "logging",
            (
                edge(".manager", type_="Manager"),
                edge(".loggers", type_="dict"),
                edge("['a']", "key", kind),
                edge(".handlers"),
                edge("[0]", "index", "Tensor"),
            ),
            library=library,
        ),
        holder=Holder("logging.manager.loggers", "dict", 9, depth=2),
        grown_at=grown,
    )
    made = advise(found)
    assert made.startswith(said)
    ours = "is the library's own" in made
    assert ours == (not said.startswith("drop"))
    if ours:
        assert made.endswith(
            f"; each {kind} there leads to the tensor by `.handlers[0]`"
        )


def test_what_hangs_on_a_library_s_table_is_no_library_s() -> None:
    """A hook's own list, which torch's table of hooks leads to."""
    found = replace(held("Record", "Tensor"), grown_at=None)
    path = Path(
        "torch.hooks",
        (
            edge("[3]", "key", "function"),
            edge(".<closure>.store", "cell", "list"),
            edge("[0]", "index", "Record"),
            edge(".loss", type_="Tensor"),
        ),
        library=True,
    )
    holder = Holder("torch.hooks[3].<closure>.store", "list", 9, depth=2)
    said = advise(replace(found, path=path, holder=holder))
    assert said.startswith("drop each Record from")


OPTIMIZERS = {
    "state": (edge("[<key of type Tensor>]", "key", "dict"), edge("['m']")),
    "state by its keys": (edge(".<key: Parameter>", "key", "Parameter"),),
    "param_groups": (
        edge("[7]", "index", "dict"),
        edge("['params']", "key", "list"),
        edge("[0]", "index", "Parameter"),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_gives_an_optimizer_ever_more_parameters(name: str) -> None:
    found = held("Parameter")
    own = name.split()[0]
    path = Path("__main__.opt", (edge(f".{own}"), *OPTIMIZERS[name]))
    holder = Holder(f"__main__.opt.{own}", "list", 9, depth=1)
    said = advise(replace(found, path=path, holder=holder))
    assert "out of `__main__.opt.param_groups`" in said
    assert "of `__main__.opt.state`" in said


# -- causes ---------------------------------------------------------------

NODE = edge(
    ".grad_fn\N{RIGHTWARDS ARROW}MulBackward0", "grad_fn", "MulBackward0"
)
CYCLES = {
    "checkpoint": (
        edge(".<ctx>", "ctx", "CheckpointFunctionBackward"),
        edge(".out"),
        NODE,
    ),
    "gradient": (edge(".grad", "grad", "Tensor"), NODE),
    "hook": (NODE, edge(".<hook>", "hook", "function")),
    "context": (NODE, edge(".<ctx>", "ctx", "MineBackward"), edge(".out")),
    "view": (edge(".saved[self]._base", "base", "Tensor"), NODE),
    "saved": (NODE, edge(".saved[result]", "saved", "Tensor")),
    "class": (edge(".__mro__", "attribute", "tuple"), edge("[0]", "index")),
}


def test_each_cause_has_its_cycle() -> None:
    assert list(CYCLES) == [cause.name for cause in CAUSES]


@pytest.mark.parametrize("name", CYCLES)
def test_what_closes_a_cycle(name: str) -> None:
    cycle = Path("<Tensor>", CYCLES[name])
    (cause,) = (cause for cause in CAUSES if cause.name == name)
    assert cause_of(cycle) == cause.remedy


def test_a_gradient_that_python_does_not_know() -> None:
    way = edge(".grad.grad_fn\N{RIGHTWARDS ARROW}Add", "grad_fn", "Add")
    assert "a gradient and its own graph" in cause_of(Path("<Tensor>", (way,)))


@pytest.mark.parametrize(
    "edges",
    [
        (edge(".self"),),
        (NODE, edge(".self")),
        (edge(".gradients"), edge(".self")),  # the user's own attribute
    ],
)
def test_no_cause_is_made_up(edges: tuple[Edge, ...]) -> None:
    assert cause_of(Path("<object>", edges)) == ""


# -- masks ----------------------------------------------------------------


def test_a_masked_holder_lies_on_the_masked_path() -> None:
    report = Report(findings=(held("Record", "Tensor"),))
    (masked,) = obfuscated(report).findings
    assert masked.path is not None and masked.holder is not None
    assert masked.holder.expression == str(masked.path.upto(1))
    assert ".kept" not in str(masked) and "Record" not in str(masked)
    assert [e.type for e in masked.below_holder] == ["Type1", "Tensor"]


def call(symbol: str, library: str = "/w/ext.so") -> NativeCall:
    return NativeCall(library, symbol)


TORCH = "/v/site-packages/torch/lib/libtorch_cpu.so"
TORCHS = [
    call("at::detail::empty_cpu(long)", TORCH),
    call("at::_ops::zeros::call(long)", TORCH),
]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("mylib::fill(unsigned long)", "mylib::fill"),
        ("at::Tensor mylib::made<float>(long)", "mylib::made<float>"),
        ("mylib::(anonymous namespace)::one(int)", "mylib::anonymous::one"),
        ("void std::sort<int (*)(int)>(int)", "std::sort<int (*)(int)>"),
        ("plain_c", "plain_c"),
    ],
)
def test_the_name_of_a_function(symbol: str, name: str) -> None:
    assert function_of(symbol) == name


def test_native_calls_that_say_whose_memory_it_is() -> None:
    ours = call("ia_ledger_born", os.path.join(PACKAGE, "_core.so"))
    own = [
        call("at::Tensor mylib::made<float>(long)"),
        call("mylib::fill(at::Tensor const&)"),
    ]
    pybind = [
        call("c10::Storage::Storage(long)"),
        call("pybind11::cpp_function::dispatcher(_object*)"),
    ]
    all_ = [ours, *TORCHS, pybind[0], *own, pybind[1]]
    assert telling(all_) == tuple(own)
    many = [call(f"f{i}()") for i in range(9)]
    assert telling([*TORCHS, *many]) == tuple(many[:MOST])
    # Of a library without names that one is told.
    assert telling([*TORCHS, call("")]) == (call(""),)


def test_of_torch_alone_what_was_called_is_told() -> None:
    between = [call(f"torch::jit::f{i}()", TORCH) for i in range(5)]
    assert telling([*TORCHS, *between]) == tuple(between[-2:])
    assert telling([]) == ()


def test_native_calls_in_a_report() -> None:
    made = (call("fill(long)"), call("make(long)"), call("", "/w/other.so"))
    finding = replace(
        Finding(verdict="native", allocated_at=SITE), made_in=made
    )
    said = (
        "made in     ext.so: fill(long), called by make(long),"
        " called by other.so: a function without a name"
    )
    assert said in " ".join(str(Report(findings=(finding,))).split("\n"))
    masked = str(obfuscated(Report(findings=(finding,))))
    assert "made in" in masked
    for name in ("ext.so", "fill(", "make(", "other.so"):
        assert name not in masked
