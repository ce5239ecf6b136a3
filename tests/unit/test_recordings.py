"""torch's memory snapshots: read as plain data, asked by the criterion.

The samples are built as torch/csrc/cuda/Module.cpp writes them: frames are
dicts that entries share, a block is let go by two entries, and what is alive
at the end stands in the segments, too.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import pickle
import random
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impactarbiter import _core
from impactarbiter.base.errors import ReportError
from impactarbiter.commands import main
from impactarbiter.core.traces import read_plain
from impactarbiter.judging.recording import report_of
from impactarbiter.model.report import Report
from impactarbiter.reports.read_recording import read_recordings

MIB = 1 << 20
TORCH = "/env/lib/python3.11/site-packages/torch"
Frame = dict[str, Any]


def frame(file: str, line: int, name: str) -> Frame:
    return {"filename": file, "line": line, "name": name}


CPP = frame("??", 0, "torch::autograd::THPVariable_mul(_object*)")
MAIN = frame("/home/me/train.py", 60, "main")
FORWARD = [frame("/home/me/model.py", 12, "forward"), MAIN]
KEPT = [
    frame(f"{TORCH}/functional.py", 20, "stack"),
    frame("/home/me/train.py", 38, "remember"),
    MAIN,
]
ADAM = [
    frame(f"{TORCH}/optim/adam.py", 300, "_multi_tensor_adam"),
    frame(f"{TORCH}/optim/optimizer.py", 490, "wrapper"),
    frame("/home/me/train.py", 44, "main"),
]
BACKWARD = [
    frame(f"{TORCH}/autograd/__init__.py", 100, "_make_grads"),
    frame(f"{TORCH}/autograd/__init__.py", 350, "backward"),
    frame("/home/me/train.py", 43, "main"),
]


class Device:
    """The caching allocator's books, of one device."""

    def __init__(self, record: bool = True) -> None:
        self.trace: list[dict[str, Any]] = []
        self.alive: dict[int, tuple[int, list[Frame]]] = {}
        self.record = record
        self._addresses = itertools.count(0x7F0000000000, 0x200000)
        self._clock = itertools.count(1_700_000_000_000_000, 1000)

    def _note(self, action: str, frames: list[Frame], **more: int) -> None:
        if self.record:
            self.trace.append(
                {
                    "action": action,
                    "stream": 0,
                    "time_us": next(self._clock),
                    "compile_context": "N/A",
                    "user_metadata": "",
                    "frames": [CPP, *frames, CPP],
                    **more,
                }
            )

    def alloc(self, frames: list[Frame], size: int) -> int:
        address = next(self._addresses)
        self.alive[address] = size, frames
        self._note("alloc", frames, addr=address, size=size)
        return address

    def free(self, address: int, frames: list[Frame] = FORWARD) -> None:
        size, _frames = self.alive.pop(address)
        for action in ("free_requested", "free_completed"):
            self._note(action, frames, addr=address, size=size)

    def temporary(self, frames: list[Frame], size: int = 512) -> None:
        self.free(self.alloc(frames, size), frames)

    def segments(self, device: int = 0) -> list[dict[str, Any]]:
        return [
            {
                "device": device,
                "address": address,
                "total_size": 4 * MIB,
                "allocated_size": size,
                "active_size": size,
                "requested_size": size,
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {
                        "address": address,
                        "size": size + 512,
                        "requested_size": size,
                        "state": "active_allocated",
                        "frames": [CPP, *frames],
                    },
                    {
                        "address": address + size + 512,
                        "size": 4 * MIB - size - 512,
                        "requested_size": 0,
                        "state": "inactive",
                        "frames": [],
                    },
                ],
            }
            for address, (size, frames) in self.alive.items()
        ]


def snapshot(*devices: Device) -> dict[str, Any]:
    return {
        "segments": [
            segment
            for number, device in enumerate(devices)
            for segment in device.segments(number)
        ],
        "device_traces": [device.trace for device in devices],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [],
    }


def training(
    device: Device,
    steps: int,
    *,
    keeps: int = 0,
    optimizer: bool = True,
    backward: bool = True,
) -> Device:
    """``keeps``: bytes of each step that stay."""
    for _step in range(steps):
        held = [device.alloc(FORWARD, 3 * MIB // 2) for _layer in range(3)]
        if keeps:
            device.alloc(KEPT, keeps)
        if backward:
            device.temporary(BACKWARD)
            # Of the engine's thread, without frames of Python.
            device.temporary([])
        for address in held:
            device.free(address)
        if optimizer:
            device.temporary(ADAM)
            device.temporary(ADAM)
    return device


def report(tmp_path: Path, data: Any, protocol: int = 4) -> Report:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(data, protocol))
    return report_of(read_recordings(file))


# -- what it says -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["optimizer", "backward"])
def test_a_line_that_keeps_is_named(tmp_path: Path, kind: str) -> None:
    device = training(Device(), 40, keeps=MIB, optimizer=kind == "optimizer")
    shown = report(tmp_path, snapshot(device))
    (finding,) = shown.findings
    assert (finding.site.file, finding.site.line) == ("/home/me/train.py", 38)
    assert finding.stack[0].file.endswith("functional.py")
    assert finding.verdict == "growing"  # no holder was seen
    assert (finding.path, finding.holder) == (None, None)
    assert finding.bytes_per_step == pytest.approx(MIB, rel=0.03)
    assert finding.tensors_per_step == pytest.approx(1, rel=0.03)
    assert shown.step_kind == kind
    assert shown.steps == 40
    assert shown.live_bytes == 40 * MIB
    assert shown.accounted["findings"] <= shown.live_bytes
    assert shown.peak_bytes == 40 * MIB + 3 * (3 * MIB // 2) + 512
    assert "neither holder nor path" in finding.advice
    assert any("no Python objects" in text for text in shown.warnings)


@pytest.mark.parametrize("optimizer", [True, False])
def test_what_is_let_go_is_not_named(tmp_path: Path, optimizer: bool) -> None:
    device = training(Device(), 40, optimizer=optimizer)
    shown = report(tmp_path, snapshot(device))
    assert not shown.findings
    assert "no line keeps ever more in" in str(shown)


def test_epochs_are_waited_for(tmp_path: Path) -> None:
    """What an epoch gathers is let go at its end: it lived for no longer."""
    device = Device()
    for _epoch in range(4):
        gathered = []
        for _step in range(10):
            gathered.append(device.alloc(KEPT, MIB))
            training(device, 1)
        for address in gathered[:-1] if _epoch == 3 else gathered:
            device.free(address)
    assert not report(tmp_path, snapshot(device)).findings


def test_without_steps_allocations_are_time(tmp_path: Path) -> None:
    device = training(
        Device(), 200, keeps=MIB, optimizer=False, backward=False
    )
    shown = report(tmp_path, snapshot(device))
    assert shown.step_kind == "allocation"
    assert [f.site.line for f in shown.findings] == [38]
    assert any("a step here is one allocation" in w for w in shown.warnings)
    few = training(Device(), 20, keeps=MIB, optimizer=False, backward=False)
    shown = report(tmp_path, snapshot(few))
    assert not shown.findings
    assert "512 are needed: record for longer" in str(shown)


def test_bytes_by_line_and_by_age(tmp_path: Path) -> None:
    device = Device(record=False)
    device.alloc(FORWARD, 5 * MIB // 2)
    device.record = True
    training(device, 40, keeps=MIB)
    shown = report(tmp_path, snapshot(device))
    kept, weights = shown.lines
    assert (kept.site.line, kept.blocks, kept.bytes) == (38, 40, 40 * MIB)
    assert list(kept.by_age.values()) == [0, *[10 * MIB] * 4]
    assert weights.by_age["before the recording"] == 5 * MIB // 2
    assert shown.accounted["before_recording"] == 5 * MIB // 2
    assert sum(shown.accounted.values()) == shown.live_bytes
    assert "before the recording: 2.5 MiB" in str(shown)


def test_a_ring_that_lost_its_begin(tmp_path: Path) -> None:
    """Frees of what the recording did not see born are no lifetimes."""
    device = training(Device(), 60, keeps=MIB)
    device.trace = device.trace[len(device.trace) // 2 + 3 :]
    shown = report(tmp_path, snapshot(device))
    assert [f.site.line for f in shown.findings] == [38]
    assert shown.live_bytes == 60 * MIB
    assert min(shown.history.live_bytes) >= 25 * MIB


def test_a_line_whose_one_block_grows(tmp_path: Path) -> None:
    device, last = Device(), None
    for step in range(60):
        training(device, 1)
        new = device.alloc(KEPT, (step + 1) * 1024)
        if last is not None:
            device.free(last)
        last = new
    (finding,) = report(tmp_path, snapshot(device)).findings
    assert finding.bytes_per_step == pytest.approx(1024, rel=0.05)
    assert finding.tensors_per_step == 0


def test_devices_are_judged_apart(tmp_path: Path) -> None:
    data = snapshot(training(Device(), 40), training(Device(), 30, keeps=MIB))
    shown = report(tmp_path, data)
    (finding,) = shown.findings
    assert finding.note is not None
    assert finding.note.startswith("on cuda:1")
    assert shown.live_bytes == 30 * MIB


def test_other_ends(tmp_path: Path) -> None:
    """No trace, an old format, nothing, out of memory."""
    device = Device(record=False)
    device.alloc(KEPT, MIB)
    shown = report(tmp_path, snapshot(device))
    assert shown.live_bytes == MIB and not shown.findings
    assert "no allocation was recorded" in str(shown)
    assert any("_record_memory_history()" in w for w in shown.warnings)

    (segment,) = device.segments()
    block = segment["blocks"][0]
    for name in ("frames", "requested_size", "address"):
        del block[name]
    block["history"] = [{"addr": 1, "real_size": 700, "frames": KEPT}]
    shown = report(tmp_path, [segment])
    assert (shown.live_bytes, shown.lines[0].site.line) == (700, 38)

    assert not report(tmp_path, {"segments": []}).lines
    device = training(Device(), 3)
    device._note("oom", KEPT, size=MIB, device_free=7)
    shown = report(tmp_path, snapshot(device))
    assert any("ran out 1 time" in text for text in shown.warnings)


def test_report_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = snapshot(training(Device(), 40, keeps=MIB))
    data["device_traces"][0][0]["frames"].insert(
        0, frame("/x/<b>evil</b>.py", 3, "<script>alert(1)</script>")
    )
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(data))
    outputs = [str(tmp_path / name) for name in ("r.json", "r.html")]
    code = main(
        [
            *("report", str(file), "--text", "--fail-on", "warning"),
            *("--json", outputs[0], "--html", outputs[1]),
        ]
    )
    text = capsys.readouterr().out
    assert code == 3
    assert "WARNING, 1 growing, unconfirmed" in text.splitlines()[0]
    assert "train.py:38" in text.splitlines()[0]
    assert "who holds what grows" in text
    assert "forecast" not in text  # nobody knows how much the device has
    saved = json.loads(Path(outputs[0]).read_text())
    assert saved["recorded_by"] == "torch.cuda.memory"
    assert saved["lines"][0]["site"]["line"] == 38
    # A saved report is shown as any other.
    assert str(Report.load(outputs[0])).strip() == text.strip()
    page = Path(outputs[1]).read_text()
    assert "<script>alert" not in page and "before the recording" in page


# -- what it refuses ----------------------------------------------------------


class Runs:
    """A pickle of it makes a file when it is read by Python's own reader."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return (Path.touch, (self.file,))


class Persistent(pickle.Pickler):
    def persistent_id(self, obj: object) -> object:
        return "them" if obj == "me" else None


def _persistent() -> bytes:
    stream = io.BytesIO()
    Persistent(stream).dump({"segments": "me"})
    return stream.getvalue()


HOSTILE = {
    "global": b"\x80\x02cos\nsystem\n.",
    "global by stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "inst": b"\x80\x02(S'x'\nios\nsystem\n.",
    "reduce": b"\x80\x02N)R.",
    "build": b"\x80\x02}}b.",
    "newobj": b"\x80\x02N)\x81.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": _persistent(),
    "buffer": b"\x80\x05\x97.",
    "instance": pickle.dumps({"segments": OrderedDict()}),
    "set": pickle.dumps({1, 2}),
    "byte array": pickle.dumps(bytearray(b"x"), 5),
    "text opcodes": b"\x80\x02I12\n.",
    "huge text": b"\x80\x04X\xff\xff\xff\x7fab.",
    "huge text of 64 bits": b"\x80\x04\x8d" + b"\xff" * 8 + b"ab.",
    "huge bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b".",
    "huge frame": b"\x80\x04\x95" + b"\xff" * 8,
    "huge integer": b"\x80\x04\x8b\xff\xff\xff\x7f.",
    "long integer": pickle.dumps(1 << 100),
    "huge memo": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "unknown memo": b"\x80\x02h\x07.",
    "key of a tuple": pickle.dumps({(1, 2): 3}),
    "key of a float": pickle.dumps({1.5: 3}),
    "below a mark": b"\x80\x02]N(a.",
    "append to none": b"\x80\x02NNa.",
    "append to what a mark hides": b"\x80\x02]((Nee.",
    "half an item": b"\x80\x02}(Nu.",
    "no mark": b"\x80\x02t.",
    "nothing": b"\x80\x02.",
    "left over": b"\x80\x02NN.",
    "open mark": b"\x80\x02(N.",
    "no end": b"\x80\x02N",
    "bad text": b"\x80\x04\x8c\x02\xff\xfe.",
    "recursive tuple": b"\x80\x02](h\x00tq\x00.",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError):
        read_plain(HOSTILE[name])
    file = tmp_path / "evil.pickle"
    file.write_bytes(HOSTILE[name])
    if not HOSTILE[name]:
        return
    assert main(["report", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "evil.pickle" in said and "nothing in it was executed" in said


def test_nothing_is_executed(tmp_path: Path) -> None:
    proof = tmp_path / "it ran"
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps({"segments": [Runs(proof)]}, protocol)
        with pytest.raises(ValueError, match="GLOBAL"):
            read_plain(data)
    assert not proof.exists()
    pickle.loads(data)
    assert proof.exists()  # the file was a dangerous one


WRONG: dict[str, Any] = {
    "no dict": 7,
    "no segments": {},
    "segments of another type": {"segments": {}},
    "a segment without blocks": {"segments": [{}]},
    "a negative size": {
        "segments": [{"blocks": [{"size": -1, "state": "inactive"}]}]
    },
    "a size beyond all": {
        "segments": [{"blocks": [{"size": 1 << 60, "state": "inactive"}]}]
    },
    "entries that are none": {"segments": [], "device_traces": [[7]]},
    "an entry without action": {"segments": [], "device_traces": [[{}]]},
    "frames of numbers": {
        "segments": [],
        "device_traces": [[{"action": "alloc", "frames": [1]}]],
    },
    "an address of text": {
        "segments": [],
        "device_traces": [[{"action": "alloc", "addr": "x", "size": 1}]],
    },
    "more than 64 bits can count": {
        "segments": [],
        "device_traces": [
            [
                {"action": "alloc", "addr": at, "size": 1 << 48, "frames": []}
                for at in range(40_000)
            ]
        ],
    },
}

#: A small file may have much to read so: one thing, as often as it likes.
BLOCKS: list[Any] = [{"size": 1, "state": "inactive"}]
ENTRIES: list[Any] = [{"action": "alloc", "addr": 1, "size": 1}]
IN_TWO_PLACES: dict[str, Any] = {
    "a segment": {"segments": [{"blocks": []}] * 2},
    "a list of blocks": {
        "segments": [{"blocks": BLOCKS}, {"blocks": BLOCKS}]
    },
    "a trace": {"segments": [], "device_traces": [ENTRIES] * 2},
}


@pytest.mark.parametrize("what", IN_TWO_PLACES)
def test_what_stands_in_two_places_is_refused(
    what: str, tmp_path: Path
) -> None:
    with pytest.raises(ReportError, match=f"{what} of it stands in two"):
        report(tmp_path, IN_TWO_PLACES[what])


@pytest.mark.parametrize("name", WRONG)
def test_plain_data_that_is_no_snapshot(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no memory snapshot") as caught:
        report(tmp_path, WRONG[name])
    assert "\n" not in str(caught.value)


def test_figures_in_a_file_are_not_believed(tmp_path: Path) -> None:
    """Any line, any size, any order: a report or one line."""
    data = snapshot(training(Device(), 4, keeps=MIB))
    for entry in data["device_traces"][0]:
        entry["time_us"] = 0
        for one in entry["frames"]:
            one["line"] = -(1 << 63)
    assert report(tmp_path, data).live_bytes == 4 * MIB
    shared = [frame("/home/me/a.py", 1, "f")] * 20_000
    entry = {"action": "alloc", "addr": 1, "size": 1, "frames": shared}
    data = {"segments": [], "device_traces": [[entry] * 20_000]}
    assert report(tmp_path, data).lines[0].blocks == 1


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(0, 9), inner)
    ),
    max_leaves=30,
)


@settings(deadline=None, max_examples=80)
@given(PLAIN, st.integers(3, pickle.HIGHEST_PROTOCOL))
def test_plain_data_is_read_as_python_does(data: Any, protocol: int) -> None:
    assert read_plain(pickle.dumps(data, protocol)) == data


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 1 << 30))
def test_broken_pickles_do_no_harm(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(
        pickle.dumps(snapshot(training(Device(), 2)), chance.randint(2, 4))
    )
    for _change in range(chance.randint(1, 8)):
        at = chance.randrange(2, len(data))
        data[at] = chance.randrange(256)
    if chance.random() < 0.3:
        del data[chance.randrange(len(data)) :]
    with contextlib.suppress(ValueError):
        read_plain(bytes(data))


def test_shared_lists_are_shared_and_dropped() -> None:
    inner: list[Any] = [1]
    found = read_plain(pickle.dumps([inner, inner]))
    assert found[0] is found[1]
    loop: list[Any] = []
    loop.append(loop)
    found = read_plain(pickle.dumps(loop))
    assert found[0] is found
    found.clear()


def test_replay_takes_events_in_order_only() -> None:
    import numpy as np

    rules = {"sites": 1, "end": 9, "age": 8, "warmup": 0, "window": 5}
    for row in ([1, 0, 0, 8], [-1, 0, 0, 8], [0, 10, 10, 8], [0, 1, 2, 8]):
        with pytest.raises(ValueError, match="no events in order"):
            _core.replay(np.array([row], np.int64), **rules)
    with pytest.raises(ValueError):
        rows = np.array([[0, 3, 3, 8], [0, 2, 2, 8]], np.int64)
        _core.replay(rows, **rules)
    assert _core.replay(np.zeros((0, 4), np.int64), **rules)[0][0] == 0
