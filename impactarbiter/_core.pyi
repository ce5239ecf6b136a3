"""Ledger, criterion and heap walk, in C."""

from collections.abc import Callable, Sequence
from mmap import mmap
from typing import Any, Literal, TypedDict

import numpy as np

#: (file, line, function, is_library)
_Frame = tuple[str, int, str, bool]
#: (kind, text, type, is_python)
_Edge = tuple[str, str, str, bool]
_RootKind = Literal[
    "module",
    "module state",
    "frame",
    "thread",
    "interpreter",
    "outside",
    "native",
    "cycle",
    "caller",
]
#: (root kind, root name, is_user, edges)
_Path = tuple[_RootKind, str, bool, list[_Edge]]

_Counts = tuple[int, int, int, int, int]
#: Points of the run, a structured array; lines that hold most, with the first
#: point and the column of each; so many columns of bytes, a row for each
#: point; autograd nodes.
_History = tuple[
    np.ndarray[Any, Any],
    list[tuple[int, int, int]],
    np.ndarray[Any, Any],
    list[tuple[_Counts, int, int]],
]

class _Totals(TypedDict):
    live_bytes: int
    peak_bytes: int
    allowed_bytes: int
    live_count: int
    generation: int
    births: int
    deaths: int
    lost: int
    stacks_lost: int
    graphs_lost: int
    tensors: int
    ledger_bytes: int
    hook_seconds: float
    devices: dict[str, tuple[int, int]]

class _Status(TypedDict):
    ticks: int
    position: int
    counts: _Counts
    strongest_until: int
    strongest_counts: _Counts
    trained: bool
    kind: int
    clock: int
    boundary_seconds: float
    callback_seconds: float
    tick_seconds: float
    elapsed_seconds: float
    freed_from: int | None
    collects: bool
    rises: bool
    silent: bool
    failure: str | None

class _Retained(TypedDict):
    bytes: int
    on: list[tuple[str, int]]
    storages: int
    nodes: int
    node_bytes: int
    saved: int
    saved_bytes: int
    items: int
    freed_items: int
    biggest: list[tuple[str, int, int]]

class _Tensor(TypedDict):
    shape: tuple[int, ...] | None
    dtype: str | None
    device: str
    bytes: int
    requires_grad: int

class _Suspect(TypedDict):
    site: int
    kinds: int
    since: int
    life: int
    live_count: int
    survivors: int
    live_bytes: int
    cycle_bytes: int
    graph_nodes: int
    phase: int
    device: str

class _Group(TypedDict):
    site: int
    count: int
    objects: int
    generations: int
    first: int
    last: int
    depth: int
    bytes: int

class _HolderObject(TypedDict):
    type: str
    length: int
    bound: int | None
    within: int
    lone_keys: int
    owners: list[int]

class _Holder(TypedDict):
    site: int
    stack: int
    generation: int
    purpose: str
    path: _Path
    ways: list[tuple[int, int] | None]
    holder_depth: int
    object: _HolderObject
    groups: list[_Group]
    cost: _Retained
    example: _Tensor
    cycle: list[_Edge] | None
    forever: int
    visit: int
    branches: int
    others: tuple[int, int, int]
    sort: tuple[int, int, int, int, bool]
    shared: int
    with_alike: int
    together: int
    older: int
    doubles: int
    turn: int
    near: int
    needed: tuple[int, list[tuple[str, str, int]]] | None

class _Tally(TypedDict):
    types: dict[str, tuple[int, int, tuple[int, int, _Path | None]]]
    bytes: int
    malloc: int
    own: int
    own_malloc: int
    nodes: int
    arrays: int

class _Walk(TypedDict):
    holders: list[_Holder]
    purposes: dict[str, int]
    older: dict[str, int]
    tally: _Tally | None
    unheld: list[tuple[int, int, str, int, int, int, int, int]]
    left_out: int
    graph: bool
    near: bool
    in_libraries: bool
    seconds: float

class _Explained(TypedDict):
    elsewhere: tuple[int, int, _Path] | None
    needed: tuple[int, list[tuple[str, str, int]]] | None
    type: str
    verdict: Literal["held", "cycle", "native", "free"]
    paths: list[_Path]
    ways: list[list[tuple[int, int] | None]]
    cycle: list[_Edge] | None
    forever: int
    cost: _Retained
    tensor: _Tensor
    referrers: int
    refcount: int
    still: int

class _Device(TypedDict):
    device: str
    code: int
    seen: int
    followed: bool
    streams: dict[int, tuple[int, int, int]]
    allocated_bytes: int
    peak_allocated_bytes: int
    requested_bytes: int
    pending_bytes: int
    reserved_bytes: int
    peak_reserved_bytes: int
    mapped_bytes: int
    private_bytes: int
    inactive_split_bytes: int
    largest_free_bytes: int
    allocated_count: int
    pending_count: int
    segments: int
    ooms: int
    drift: int

class _Recorder(TypedDict):
    armed: bool
    written: int
    waiting: int
    error: str | None

EVENT_COLUMNS: list[tuple[str, str]]
SITE_COLUMNS: list[tuple[str, str]]
DEVICE_COLUMNS: list[tuple[str, str]]
EVENT_KINDS: tuple[str, ...]
DEVICE_ACTIONS: tuple[str, ...]
DEVICE_TYPES: tuple[str, ...]
GROWS_COUNT: int
GROWS_BYTES: int
GROWS_GRAPH: int
GROWS_ANEW: int
GROWS_STEADILY: int
AGE_FOR_REPORT: int
PROBES_PER_DOUBLING: int
AGE_TO_TELL: int
USUAL_WINDOW: int
MOST_BUNDLES: int
MOST_PATHS: int
LONGEST_ROOT: int
BUNDLE_SCHEMA: str

def start(
    *,
    every: int = 1,
    warmup: int = 3,
    window: int = 5,
    manual: bool = False,
    callback: Callable[[int], object] | None = None,
    is_programs: Callable[[BaseException], bool] | None = None,
) -> None: ...
def stop() -> None: ...
def is_active() -> bool: ...
def set_code(
    libraries: tuple[str, ...], user_files: tuple[str, ...], own: str
) -> None: ...
def set_types(module: type, optimizer: type) -> None: ...
def set_ended(error: BaseException | None, /) -> None: ...
def is_library(file: str, /) -> bool: ...
def arrays_know() -> None: ...
def arrays_install(in_place: bool = True) -> bool: ...
def arrays_uninstall() -> None: ...
def arrays_installed() -> bool: ...
def step() -> None: ...
def pause_turns(on: bool, /) -> None: ...
def optimizer_stepped(
    optimizer: object, args: object = ..., kwargs: object = ..., /
) -> None: ...
def collector_event(phase: str, info: dict[str, int], /) -> None: ...
def set_phase(number: int, /) -> None: ...
def set_allowed(label: int, /) -> int: ...
def note_same(obj: object, /) -> None: ...
def still_stands(address: int, /) -> bool: ...
def call_theirs(
    callable: Callable[..., object], /, *args: object
) -> object: ...
def depth_of_calls() -> int: ...
def lend_calls(n: int, /) -> None: ...
def look_at(tick: int, within: float = 0.0, /) -> None: ...
def settle() -> None: ...
def device_name(code: int, /) -> str: ...
def refresh() -> None: ...
def probe_graphs() -> None: ...
def totals() -> _Totals: ...
def status() -> _Status: ...
def history() -> _History: ...
def site_source(site: int, /) -> _Frame | None: ...
def stack_frames(stack: int, /) -> list[_Frame]: ...
def suspects(age: int, /) -> list[_Suspect]: ...
def late_suspects(age: int, /) -> list[_Suspect]: ...
def rises() -> list[tuple[int, str, int, int, tuple[float, ...]]]: ...
def site_older(site: int, tick: int, /) -> int: ...
def site_ages(site: int, /) -> tuple[int, int, tuple[int, ...]]: ...
def site_now(site: int, /) -> tuple[int, int, int, int, int, int]: ...
def rows() -> np.ndarray[Any, Any]: ...
def consistent() -> bool: ...
def interval_open(device: int, /) -> int: ...
def interval_close(
    handle: int, /
) -> tuple[int, int, int, int, int, int, int, int] | None: ...
def resident_bytes() -> int: ...
def process_memory() -> tuple[int, int, int, int | None, int | None]: ...
def recorder_arm(
    folder: str,
    names: tuple[str, ...],
    *,
    events: int = 10000,
    sites: int = 4096,
    keep: int = 5,
    interval: float = 0,
    reserve: int = 0,
    sources: bool = True,
    second_stage: Callable[[str], object] | None = None,
) -> None: ...
def recorder_disarm() -> None: ...
def recorder_write(
    reason: str, device: int = 0, asked: int = 0, /
) -> str | None: ...
def recorder_status() -> _Recorder: ...
def recorder_events() -> bytes: ...
def diagnose(
    sites: Sequence[int],
    any_age: Sequence[int],
    remember: bool = False,
    anew: Sequence[int] = (),
    weigh: bool = False,
    ways: bool = False,
    near: bool = False,
    alone: Sequence[int] = (),
    /,
) -> _Walk: ...
def visit(
    path: int, /
) -> tuple[str, int, int, int, int, bool | None, int, int]: ...
def keep_paths(paths: list[int], /) -> None: ...
def census(path: int, /) -> dict[Any, int] | None: ...
def watch_statement(path: int, by_graph: bool, /) -> bool: ...
def end_statement() -> tuple[
    list[tuple[str, int, str, int, int, int]], bool
]: ...
def seen_statements() -> tuple[
    list[tuple[str, int, str, int, int, int]], bool
]: ...
def device_rules(max_split: int, divisions: tuple[int, ...], /) -> None: ...
def device_follow(
    device: int, snapshot: np.ndarray[Any, Any], seen: int, /
) -> bool: ...
def device_events(events: np.ndarray[Any, Any], /) -> None: ...
def devices() -> list[_Device]: ...
def explain(
    objects: tuple[object, ...], paths: int, ways: bool, /
) -> list[_Explained]: ...
def native_of_site(
    site: int, /
) -> list[tuple[object, str | None, int, int]]: ...
def native_calls_of_site(site: int, /) -> list[tuple[str, str | None]]: ...
def native_of_object(
    obj: object, /
) -> list[tuple[object, str | None, int, int]]: ...
def instances(type: type, most: int, /) -> tuple[int, list[_Path]]: ...
def plain_pickle(data: bytes | mmap, /) -> Any: ...
def replay(
    events: np.ndarray[Any, Any],
    sites: int,
    end: int,
    age: int,
    warmup: int,
    window: int,
) -> list[tuple[int, int, int, int, int, int]]: ...
def _born(key: int, size: int, device: int = 0, /) -> None: ...
def _died(key: int, /) -> None: ...
def _fail(what: str, /) -> None: ...
def _footprint(object: object, /) -> tuple[int, int, int]: ...
