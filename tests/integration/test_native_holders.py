"""Tensors that C++ keeps: which variable of which library has them."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

TORCH = Path(torch.__file__).parent
COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")

#: The first member of a tensor's Python object is its C++ tensor.  A storage
#: that is kept alone is one that Python has never had in its hands.
SOURCE = """
#include <Python.h>
#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>
#include <list>
#include <map>
#include <vector>

struct Object { PyObject_HEAD at::TensorBase tensor; };
static at::TensorBase &tensor(PyObject *x) {
    return reinterpret_cast<Object *>(x)->tensor;
}
std::vector<at::TensorBase> kept_static;
namespace mylib {
    std::map<long, c10::Storage> kv_cache;
    struct Cache { std::vector<c10::Storage> rows; };
    Cache &singleton() { static Cache cache; return cache; }
    static Cache *lone = nullptr;
    std::list<c10::Storage> chain;
}
static PyObject *keep_vector(PyObject *, PyObject *x) {
    kept_static.push_back(tensor(x));
    Py_RETURN_NONE;
}
static PyObject *keep_map(PyObject *, PyObject *x) {
    mylib::kv_cache[mylib::kv_cache.size()] = tensor(x).storage();
    Py_RETURN_NONE;
}
static PyObject *keep_singleton(PyObject *, PyObject *x) {
    mylib::singleton().rows.push_back(tensor(x).storage());
    Py_RETURN_NONE;
}
static PyObject *keep_lone(PyObject *, PyObject *x) {
    if (mylib::lone == nullptr) mylib::lone = new mylib::Cache;
    mylib::lone->rows.push_back(tensor(x).storage());
    Py_RETURN_NONE;
}
static PyObject *keep_chain(PyObject *, PyObject *x) {
    mylib::chain.push_back(tensor(x).storage());
    Py_RETURN_NONE;
}
/* What it makes itself, some of which it lets go of at once. */
namespace mylib {
    __attribute__((noinline)) c10::Storage block(size_t bytes) {
        auto *from = c10::GetAllocator(c10::kCPU);
        return c10::Storage(
            c10::Storage::use_byte_size_t(), bytes, from, true);
    }
    __attribute__((noinline)) void scratch(size_t bytes) {
        for (int i = 0; i < 3; i++) block(bytes);
    }
    __attribute__((noinline)) void fill(size_t bytes) {
        chain.push_back(block(bytes));
    }
}
static PyObject *make(PyObject *, PyObject *x) {
    mylib::scratch(20000);
    mylib::fill(20000);
    Py_RETURN_NONE;
}
static void *noted;
static PyObject *note(PyObject *, PyObject *x) {
    noted = tensor(x).data_ptr();
    Py_RETURN_NONE;
}
/* What the C++ object behind a Python one has first. */
static void *noted_behind;
static PyObject *note_behind(PyObject *, PyObject *x) {
    noted_behind = **reinterpret_cast<void ***>(
        reinterpret_cast<char *>(x) + sizeof(PyObject));
    Py_RETURN_NONE;
}
/* A Python object with a C++ one behind it, which has the container. */
struct Lists { std::vector<c10::Storage> *rows; };
struct Box { PyObject_HEAD Lists *lists; };
static PyObject *box_new(PyTypeObject *type, PyObject *, PyObject *) {
    auto *box = reinterpret_cast<Box *>(type->tp_alloc(type, 0));
    box->lists = new Lists{new std::vector<c10::Storage>};
    return reinterpret_cast<PyObject *>(box);
}
static PyObject *box_add(PyObject *self, PyObject *x) {
    auto *rows = reinterpret_cast<Box *>(self)->lists->rows;
    rows->push_back(tensor(x).storage());
    Py_RETURN_NONE;
}
static PyMethodDef box_methods[] = {
    {"add", box_add, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyTypeObject box_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
static PyObject *clear(PyObject *, PyObject *) {
    kept_static.clear();
    mylib::kv_cache.clear();
    mylib::singleton().rows.clear();
    if (mylib::lone) mylib::lone->rows.clear();
    mylib::chain.clear();
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {
    {"keep_vector", keep_vector, METH_O, nullptr},
    {"keep_map", keep_map, METH_O, nullptr},
    {"keep_singleton", keep_singleton, METH_O, nullptr},
    {"keep_lone", keep_lone, METH_O, nullptr},
    {"keep_chain", keep_chain, METH_O, nullptr},
    {"make", make, METH_O, nullptr},
    {"note", note, METH_O, nullptr},
    {"note_behind", note_behind, METH_O, nullptr},
    {"clear", clear, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "iakeep_ext", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_iakeep_ext() {
    box_type.tp_name = "iakeep_ext.Box";
    box_type.tp_basicsize = sizeof(Box);
    box_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    box_type.tp_new = box_new;
    box_type.tp_methods = box_methods;
    PyObject *module = PyModule_Create(&definition);
    PyModule_AddType(module, &box_type);
    return module;
}
"""

NAMES = {
    "keep_vector": "kept_static",
    "keep_map": "mylib::kv_cache",
    "keep_singleton": "mylib::singleton()::cache",
    "keep_lone": "mylib::lone",
    "keep_chain": "mylib::chain",
}

PROGRAM = """
import sys
import torch
sys.path.insert(0, "")
import iakeep_ext
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(60):
    weight.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    batch = torch.randn(5000)
    iakeep_ext.{call}(batch)
    del batch
    {fixed}
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension, compiled and not linked."""
    folder = tmp_path_factory.mktemp("extension")
    (folder / "keep.cpp").write_text(SOURCE)
    include = TORCH / "include"
    python = sysconfig.get_path("include")
    compile_ = f"-std=c++20 -O0 -fPIC -I{python} -I{include} -c keep.cpp"
    build(folder, *compile_.split())
    return folder


def build(folder: Path, *arguments: str) -> None:
    assert COMPILER is not None
    subprocess.run([COMPILER, *arguments], cwd=folder, check=True)


def link(folder: Path, *options: str) -> None:
    """Torch's own libraries are loaded by then."""
    build(
        folder,
        *("-shared", *options, "keep.o", f"-L{TORCH / 'lib'}", "-lc10"),
        *("-o", "iakeep_ext.so"),
    )


@pytest.fixture(scope="module")
def extension(objects: Path) -> Path:
    """The folder that it lies in."""
    link(objects)
    return objects


def run(
    folder: Path, extension: Path, call: str, fixed: str
) -> tuple[str, dict[str, Any]]:
    """The report's first line, and its JSON."""
    shutil.copy(extension / "iakeep_ext.so", folder)
    return warm.watched(folder, PROGRAM.format(call=call, fixed=fixed))


@pytest.mark.parametrize("call", ["keep_vector", "keep_map"])
def test_the_variable_is_named(
    tmp_path: Path, extension: Path, call: str
) -> None:
    first, report = run(tmp_path, extension, call, "")
    (finding,) = report["findings"]
    assert (finding["verdict"], finding["rule"]) == (
        "native",
        "no-python-root",
    )
    (held_in,) = finding["held_in"]
    assert held_in["symbol"] == NAMES[call]
    assert held_in["library"] == str(tmp_path / "iakeep_ext.so")
    assert "1 native hold: 19.5 KiB a step" in first
    assert NAMES[call] in first
    assert report["accounted"]["findings"] == finding["retained_bytes"]


@pytest.mark.parametrize("call", ["keep_vector", "keep_map"])
def test_what_is_let_go_is_no_finding(
    tmp_path: Path, extension: Path, call: str
) -> None:
    first, report = run(tmp_path, extension, call, "iakeep_ext.clear()")
    assert first == "no leak in 60 steps"
    assert report["findings"] == []


MADE_IN = [
    "mylib::block(unsigned long)",
    "mylib::fill(unsigned long)",
    "make(_object*, _object*)",
]


def test_the_functions_that_made_it_are_named(
    tmp_path: Path, extension: Path
) -> None:
    """What the same line makes and lets go of in another function is not."""
    _, report = run(tmp_path, extension, "make", "")
    (finding,) = report["findings"]
    assert finding["rule"] == "no-python-root"
    library = str(tmp_path / "iakeep_ext.so")
    assert finding["made_in"] == [
        {"library": library, "symbol": name} for name in MADE_IN
    ]


def test_a_library_without_names_is_named(
    tmp_path: Path, objects: Path
) -> None:
    stripped = tmp_path / "stripped"
    shutil.copytree(objects, stripped)
    link(stripped, "-s", "-fvisibility=hidden")
    _, report = run(tmp_path, stripped, "make", "")
    (finding,) = report["findings"]
    symbols = [call["symbol"] for call in finding["made_in"]]
    assert symbols[-1] == ""
    assert {call["library"] for call in finding["made_in"]} == {
        str(tmp_path / "iakeep_ext.so")
    }


#: What is asked in a process of its own, whose memory nobody has used before.
ASKED = """
import json, os, sys
import torch
import impactarbiter
sys.path.insert(0, "")
import iakeep_ext as keeper

def finding_of(keep):
    with impactarbiter.watch(step="manual") as arbiter:
        for _ in range(40):
            keep(torch.ones(500))
            arbiter.step()
        (finding,) = arbiter.report().findings
        return finding

def names(asked):
    return [asked.verdict, *(str(one) for one in asked.held_in)]

{body}
print(json.dumps(said))
"""


def asked(folder: Path, body: str) -> Any:
    """What such a program says, with the extension in its folder."""
    (folder / "program.py").write_text(ASKED.format(body=body))
    done = warm.run(["program.py"], cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def beside(tmp_path: Path, extension: Path) -> Path:
    """A folder with the extension."""
    shutil.copy(extension / "iakeep_ext.so", tmp_path)
    return tmp_path


@pytest.mark.parametrize("call", NAMES)
def test_however_it_is_held(beside: Path, call: str) -> None:
    said = asked(beside, f"said = names(finding_of(keeper.{call}))")
    assert said == ["native", f"iakeep_ext.so: {NAMES[call]}"]


def test_what_was_let_go_still_stands_in_a_vector_s_room(
    beside: Path,
) -> None:
    """Its memory goes to what another keeps."""
    said = asked(
        beside,
        "finding_of(keeper.keep_vector)\n"
        "keeper.clear()\n"
        "said = names(finding_of(keeper.keep_singleton))",
    )
    assert said[1:] == [f"iakeep_ext.so: {NAMES['keep_singleton']}"]


def test_what_a_library_was_stripped_of_is_not_told(
    objects: Path, tmp_path: Path
) -> None:
    shutil.copy(objects / "keep.o", tmp_path)
    link(tmp_path, "-s")
    hidden, exported = asked(
        tmp_path,
        "hidden = names(finding_of(keeper.keep_lone))\n"
        "keeper.clear()\n"
        "said = hidden, names(finding_of(keeper.keep_map))",
    )
    assert hidden == ["native"]
    assert exported == ["native", f"iakeep_ext.so: {NAMES['keep_map']}"]


def test_a_library_that_was_built_anew_is_not_read(
    objects: Path, tmp_path: Path
) -> None:
    """What its file says now is not of what was loaded."""
    shutil.copy(objects / "keep.o", tmp_path)
    link(tmp_path, "-Wl,--build-id=uuid")
    (tmp_path / "iakeep_ext.so").rename(tmp_path / "another.so")
    link(tmp_path, "-Wl,--build-id=uuid")
    said = asked(
        tmp_path,
        "os.replace('another.so', 'iakeep_ext.so')\n"
        "said = names(finding_of(keeper.keep_map))",
    )
    assert said == ["native"]


def test_explain_says_which(beside: Path) -> None:
    told, text = asked(
        beside,
        "kept = torch.ones(500)\n"
        "keeper.keep_vector(kept)\n"
        "shown = impactarbiter.explain(kept)\n"
        "said = names(shown), str(shown)",
    )
    assert told == ["native", "iakeep_ext.so: kept_static"]
    assert "held in  iakeep_ext.so: kept_static" in text


def test_of_what_python_holds_nothing_is_asked(beside: Path) -> None:
    told = asked(
        beside,
        "kept = [torch.ones(500)]\n"
        "keeper.keep_vector(kept[0])\n"
        "said = names(impactarbiter.explain(kept[0]))",
    )
    assert len(told) == 1


#: As pybind11 makes classes: the metaclass's name tells.
WRAPPED = """
class pybind11_type(type):
    pass

class Rows(keeper.Box, metaclass=pybind11_type):
    __slots__ = ()

kept = Rows()
said = [names(finding_of(lambda x: kept.add(x)))]
keeper.note_behind(kept)
said.append(names(finding_of(lambda x: kept.add(x))))
"""


def test_of_two_answers_neither_is_told(beside: Path) -> None:
    """A word of the heap may be left over; which one cannot be known."""
    alone, noted = asked(beside, WRAPPED)
    assert alone == ["native", "C++ behind __main__.kept (Rows)"]
    assert noted == ["native"]


UNREADABLE = """
import resource
keeper.keep_map(torch.ones(500))
kept = torch.ones(500)
keeper.note(kept)
keeper.keep_vector(kept)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
explain, ones = impactarbiter.explain, []
explain(torch.ones(3))
opened = os.open("/dev/null", os.O_RDONLY)
os.close(opened)
# No file can be opened, the kernel's list of mappings among them.
resource.setrlimit(resource.RLIMIT_NOFILE, (opened, limits[1]))
shown = impactarbiter.explain(kept)
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
said = shown.verdict, [str(v) for v in shown.held_in], shown.note
"""


def test_memory_that_cannot_be_read_is_said(beside: Path) -> None:
    verdict, held_in, note = asked(beside, UNREADABLE)
    assert (verdict, held_in) == ("native", [])
    assert "not all of the process's memory was read" in note


LOADS = """
import ctypes, shutil, threading
from impactarbiter import _core
shutil.copy("iakeep_ext.so", "another.so")
libc = ctypes.CDLL(None)
libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
libc.dlopen.restype = ctypes.c_void_p
libc.dlclose.argtypes = [ctypes.c_void_p]
loads = 0
over = threading.Event()

def load():
    global loads
    while not over.is_set():
        libc.dlclose(libc.dlopen(b"./another.so", os.RTLD_NOW))
        loads += 1

kept = torch.ones(500)
keeper.note(kept)
threads = [threading.Thread(target=load, daemon=True) for _ in range(4)]
with impactarbiter.watch(step="manual"):
    for thread in threads:
        thread.start()
    found = [_core.native_of_object(kept) for _ in range(40)]
over.set()
for thread in threads:
    thread.join()
said = loads > 0, {one[1] for each in found for one in each} == {"noted"}
"""


def test_other_threads_may_load_libraries_meanwhile(beside: Path) -> None:
    """The loader's lock is never waited for under that of its list."""
    assert asked(beside, LOADS) == [True, True]


RESERVED = """
import mmap
from pathlib import Path
from impactarbiter import _core

NO_RESERVE = 0x4000  # mmap has its name only in newer versions
reserved = mmap.mmap(
    -1,
    {size},
    flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE,
)

def tables():
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition("VmPTE:")[2].split()[0])

kept = torch.ones(500)
keeper.keep_lone(kept)
with impactarbiter.watch(step="manual"):
    before = tables()
    found = [one[1] for one in _core.native_of_object(kept)]
said = found, tables() - before
"""


@pytest.mark.parametrize("share", [0.5, 2])
def test_memory_that_is_only_reserved_stays_so(
    beside: Path, share: float
) -> None:
    """Its pages are not read: each would get one, and a place in a table."""
    pages = int(os.sysconf("SC_PHYS_PAGES") * share)
    body = RESERVED.format(size=pages * mmap.PAGESIZE)
    found, tables = asked(beside, body)
    assert found == ["mylib::lone"]
    assert tables < pages * 8 / 10  # a word each
