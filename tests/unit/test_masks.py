"""With obfuscate=True nothing of ours has a name of the program's.

A program in which every name has one word in it leaks in many ways; every
file and text that we make of its run is searched for that word.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path

import pytest
import warm

WORD = "zebra"

PROGRAM = """
import functools, gc, threading, warnings, weakref
import torch
import impactarbiter
from impactarbiter import MemoryTracker

class ZebraScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, zebra_x):
        ctx.zebra_mark = torch.ones(3)
        return zebra_x * 2

    @staticmethod
    def backward(ctx, zebra_gradient):
        return zebra_gradient * 2

class ZebraNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.zebra_layer = torch.nn.Linear(4, 4)
        self.zebra_losses = torch.nn.ParameterList()

    def forward(self, zebra_x):
        return ZebraScale.apply(self.zebra_layer(zebra_x))

class ZebraCycle:
    def __init__(self):
        self.zebra_self = self
        self.zebra_data = torch.ones(7)

class ZebraSlots:
    __slots__ = ("zebra_slot",)

class ZebraList(list):
    pass

class ZebraError(Exception):
    pass

class ZebraSubclass(torch.Tensor):
    pass

zebra_list, zebra_dict = [], {"zebra key": ZebraList()}
zebra_slots, zebra_local = ZebraSlots(), threading.local()
zebra_slots.zebra_slot, zebra_local.zebra_values = [], []
zebra_graphs, zebra_errors, zebra_partials = [], [], []
zebra_hooked, zebra_contexts, zebra_outputs = [], [], []
zebra_weak = weakref.WeakKeyDictionary()
zebra_keys = []

@functools.lru_cache(maxsize=None)
def zebra_cached(zebra_argument):
    return torch.ones(3)

def zebra_closure():
    zebra_cell = []
    def zebra_inner():
        zebra_cell.append(torch.ones(3))
    return zebra_inner

zebra_function = zebra_closure()

def zebra_default(zebra_kept=[]):
    zebra_kept.append(torch.ones(3))

def zebra_generator():
    zebra_running = []
    while True:
        zebra_running.append(torch.ones(3))
        yield

zebra_suspended = zebra_generator()

def zebra_raise():
    zebra_variable = torch.ones(3)
    raise ZebraError("zebra message")

def zebra_hook(zebra_gradient):
    return None

def zebra_step(zebra_number, zebra_model):
    zebra_list.append(torch.ones(3))
    zebra_dict["zebra key"].append(torch.ones(3).as_subclass(ZebraSubclass))
    zebra_slots.zebra_slot.append(torch.ones(3))
    zebra_local.zebra_values.append(torch.ones(3))
    zebra_graphs.append(zebra_model(torch.ones(2, 4)).sum())
    zebra_partials.append(functools.partial(zebra_hook, torch.ones(3)))
    zebra_cached(f"zebra {zebra_number}")
    zebra_function()
    zebra_default()
    next(zebra_suspended)
    zebra_weight = torch.ones(3, requires_grad=True)
    zebra_weight.register_hook(
        lambda g, zebra_in_default=torch.ones(3): zebra_hook(g))
    zebra_hooked.append(zebra_weight * 2)
    zebra_outputs.append(ZebraScale.apply(zebra_weight).grad_fn)
    zebra_key = ZebraSlotsKey()
    zebra_keys.append(zebra_key)
    zebra_weak[zebra_key] = torch.ones(3)
    globals()[f"zebra_global_{zebra_number}"] = torch.ones(3)
    ZebraNet.zebra_attribute = getattr(ZebraNet, "zebra_attribute", ()) + (
        torch.ones(3),)
    ZebraCycle()
    try:
        zebra_raise()
    except ZebraError as zebra_error:
        zebra_errors.append(zebra_error)

class ZebraSlotsKey:
    pass

def zebra_told(zebra_finding):
    raise ZebraError("zebra told")

def zebra_rule(zebra_finding):
    raise ZebraError("zebra rule")

def zebra_main(zebra_folder):
    zebra_model = ZebraNet()
    arbiter = impactarbiter.watch(
        step="manual", warmup=1, window=2, obfuscate=True,
        allow=("zebra*nothing", zebra_rule, ZebraError),
        on_finding=zebra_told)
    recorder = impactarbiter.FlightRecorder(
        zebra_folder + "/bundles", events=64, interval=0)
    zebra_tracker = MemoryTracker("cpu", sampling_interval=0.001)
    with recorder, zebra_tracker, zebra_tracker.phase("zebra tracked"):
        zebra_tracker.handle_exception(
            MemoryError("zebra memory"), "zebra context")
        for zebra_number in range(STEPS):
            with arbiter.phase("zebra phase"):
                with impactarbiter.allow("zebra label"):
                    zebra_allowed = torch.ones(3)
                zebra_step(zebra_number, zebra_model)
            arbiter.step()
        recorder.capture("ZebraError: zebra reason")
        try:
            with recorder:
                raise MemoryError("zebra memory")
        except MemoryError:
            pass
        report = arbiter.report()
    FAILURE
    for kind in ("json", "csv"):
        zebra_tracker.export_events(f"{zebra_folder}/events.{kind}", kind)
    for kind in ("json", "html", "sarif", "flame", "csv", "perfetto"):
        getattr(report, f"to_{kind}")(f"{zebra_folder}/report.{kind}")
    for kind in PICTURES:
        report.plot(f"{zebra_folder}/report.{kind}")
    last = arbiter.stop()
    with open(f"{zebra_folder}/report.txt", "w") as file:
        file.write(str(report) + str(last) + report._repr_html_())
    print(len(report.findings), "findings", len(last.findings))

zebra_main(FOLDER)
"""

#: A look that fails leaves its words in the report.
FAILURE = """from impactarbiter import _core
    warnings.simplefilter("ignore")
    _core._fail("zebra failure")
    report = arbiter.report()"""


def run(
    folder: Path, failure: str, obfuscate: bool = True
) -> tuple[Path, str]:
    home = folder / f"{WORD}_home"
    out = folder / "out"
    home.mkdir()
    out.mkdir()
    source = PROGRAM.replace("FOLDER)", f"{str(out)!r})")
    source = source.replace("STEPS", "16").replace("FAILURE", failure)
    source = source.replace("obfuscate=True", f"obfuscate={obfuscate}")
    # Drawing takes longer than all else; unmasked, no one looks at it.
    pictures = ("png", "svg", "pdf") if obfuscate else ()
    source = source.replace("PICTURES", repr(pictures))
    program = home / f"{WORD}_program.py"
    program.write_text(source)
    done = warm.run([str(program)], cwd=home, timeout=300)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def readable(data: bytes) -> bytes:
    """With what is packed inside of a picture or a PDF."""
    parts, at = [data], 0
    while (at := data.find(b"\x78", at)) >= 0:
        if data[at + 1 : at + 2] in (b"\x01", b"\x5e", b"\x9c", b"\xda"):
            unpack = zlib.decompressobj()
            with suppress(zlib.error):
                parts.append(unpack.decompress(data[at:]))
        at += 1
    return b"\n".join(parts)


def assert_masked(name: str, data: bytes) -> None:
    text = readable(data).lower()
    at = text.find(WORD.encode())
    assert at < 0, f"{name}: ...{text[max(at - 80, 0) : at + 80]!r}..."


@pytest.mark.parametrize("failure", ["pass", FAILURE], ids=["whole", "failed"])
def test_no_file_has_a_name_of_the_program(
    failure: str, tmp_path: Path
) -> None:
    out, said = run(tmp_path, failure)
    assert int(said.split()[0]) >= 12
    files = [path for path in out.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"recorder.json", "report.json", "report.pdf"} <= names
    assert {"events.json", "events.csv"} <= names
    for path in files:
        assert_masked(path.name, path.read_bytes())
    reports = [out / "report.json", *out.glob("bundles/*/report.json")]
    bundle = next(out.glob("bundles/oom-*"))
    for command in (
        ["report", reports[0]],
        ["report", bundle],
        ["merge", reports[0], reports[1]],
        ["diff", reports[0], reports[1]],
    ):
        done = warm.run(["-m", "impactarbiter", *map(str, command)], cwd=out)
        assert done.returncode == 0, done.stderr
        said = done.stdout + done.stderr
        assert_masked(str(command[0]), said.encode())


def test_unmasked_they_all_would_be_there(tmp_path: Path) -> None:
    out, _said = run(tmp_path, FAILURE, obfuscate=False)
    text = (out / "report.json").read_text()
    for name in (
        "zebra_list",
        "'zebra key'",
        "zebra_slot",
        "zebra_values",
        "ZebraScaleBackward",
        "zebra_cell",
        "zebra_running",
        "zebra_cached",
        "ZebraNet.zebra_attribute",
        "zebra phase",
        "zebra_program.py",
        "zebra_home",
        "zebra_main",
        "ZebraError: zebra told",
        "zebra rule",
        "zebra failure",
    ):
        assert name in text, name
    for kind in ("json", "csv"):
        events = (out / f"events.{kind}").read_text()
        assert "zebra tracked" in events and "zebra context" in events
    header = next(out.glob("bundles/*/recorder.json")).read_text()
    assert "zebra" in header
