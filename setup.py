"""Builds the extension modules; everything else is in pyproject.toml.

Environment variables, all off by default:
  IMPACTARBITER_DEBUG=1     keep assertions, -O0 -g
  IMPACTARBITER_SANITIZE=s  build with -fsanitize=s (address,undefined)
  IMPACTARBITER_WERROR=1    warnings are errors
  IMPACTARBITER_CUDA=0      leave _cuda out though torch is a CUDA build
  IMPACTARBITER_TORCH=0     leave _torch out: for JAX and TensorFlow alone
  IMPACTARBITER_WHEELS=p    take the wheel that fits from this folder or
                            address, see tools/wheels/backend.py
  MAX_JOBS=n                compile n files at a time (2)
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
C_FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-fvisibility=hidden",
    "-Werror=implicit-function-declaration",
]
# No hidden visibility: statics in torch's headers must stay one with torch's.
CXX_FLAGS = ["-std=c++20"]
#: Plain C of the core's that _arrays and _signals have copies of.
SHARED_WITH_ARRAYS = [
    f"src/core/base/{name}.c"
    for name in ("array", "memory", "ptrmap", "read", "utf8")
]
SHARED_WITH_SIGNALS = [
    f"src/core/base/{name}.c" for name in ("size_limit", "taken_exception")
]
TORCH_LIBRARIES = ["torch_python", "torch", "torch_cpu", "c10"]


class BuildError(SystemExit):
    """Ends the build with one line that says what is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(f"impactarbiter: {message}")


#: The first that reads pyproject.toml's license as it is written.
SETUPTOOLS = 77


def require_setuptools() -> None:
    """Before setup(), which fails with pages about pyproject.toml."""
    if int(setuptools.__version__.partition(".")[0]) < SETUPTOOLS:
        raise BuildError(
            f"setuptools {setuptools.__version__} is too old to build with:"
            f" pip install 'setuptools>={SETUPTOOLS}' 'numpy>=1.26'"
        )


def switch(name: str, default: bool = False) -> bool:
    value = os.environ.get(name, "")
    return value not in ("0", "no", "off") if value else default


def sources(folder: str) -> list[str]:
    """All C and C++ files of a folder and the rooms in it, relative to the
    root, sorted."""
    found = [
        p
        for p in (ROOT / "src" / folder).rglob("*.c*")
        if p.suffix in (".c", ".cpp")
    ]
    return sorted(str(p.relative_to(ROOT)) for p in found)


def headers(*folders: str) -> list[str]:
    return sorted(
        str(p.relative_to(ROOT))
        for folder in folders
        for p in (ROOT / "src" / folder).rglob("*.h")
    )


def extensions() -> list[Extension]:
    """What may be built. Needs no package: metadata asks for this too."""
    modules = [
        Extension(
            "impactarbiter._core", sources("core"), depends=headers("core")
        ),
        Extension(
            "impactarbiter._arrays",
            [*sources("arrays"), *SHARED_WITH_ARRAYS],
            depends=headers("core", "arrays"),
        ),
        Extension(
            "impactarbiter._torch",
            sources("torch"),
            language="c++",
            depends=headers("core", "torch"),
        ),
        Extension(
            "impactarbiter._cuda",
            sources("cuda"),
            language="c++",
            depends=headers("core", "cuda"),
        ),
        Extension(
            "impactarbiter._signals",
            [*sources("signals"), *SHARED_WITH_SIGNALS],
            depends=headers("core", "signals"),
        ),
    ]
    # No module: `attach` loads it into another process.
    modules.append(Extension("impactarbiter._door", sources("door")))
    return [module for module in modules if module.sources]


@dataclass
class Flags:
    """What one extension is compiled and linked with."""

    system: list[str] = field(default_factory=list)  # -isystem: no warnings
    include: list[str] = field(default_factory=list)
    macros: list[tuple[str, str | None]] = field(default_factory=list)
    common: list[str] = field(default_factory=list)
    c: list[str] = field(default_factory=lambda: list(C_FLAGS))
    cxx: list[str] = field(default_factory=lambda: list(CXX_FLAGS))
    link: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    library_dirs: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)

    def of(self, source: str) -> list[str]:
        language = self.c if source.endswith(".c") else self.cxx
        system = [f"-isystem{path}" for path in self.system]
        return language + self.common + system

    def key(self) -> str:
        """Names the folder of the objects: other flags, other objects."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]


def common_flags() -> Flags:
    flags = Flags(common=["-Wall", "-Wextra"])
    # Its internal headers warn: what is -isystem too is no longer -I.
    flags.system.append(sysconfig.get_path("include"))
    flags.versions += [os.environ.get(name, "") for name in ("CC", "CXX")]
    if switch("IMPACTARBITER_DEBUG"):
        flags.common += ["-O0", "-g", "-UNDEBUG"]
    else:
        # Python's own flags ask for debug information: 15 MB of it.
        flags.common += ["-O2", "-DNDEBUG", "-g0"]
    if switch("IMPACTARBITER_WERROR"):
        flags.common += ["-Werror"]
    sanitize = os.environ.get("IMPACTARBITER_SANITIZE", "")
    if sanitize:
        flags.common += [
            f"-fsanitize={sanitize}",
            "-g",
            "-fno-omit-frame-pointer",
            "-fno-sanitize-recover=undefined",
            # It asks for the typeinfo of classes that torch does not export.
            "-fno-sanitize=vptr",
        ]
        flags.link += [f"-fsanitize={sanitize}"]
    return flags


def require_gil() -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BuildError("free-threaded builds of Python are not supported")


def require_python_headers() -> None:
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        raise BuildError(
            f"Python's headers are missing ({header}): install "
            "them (python3-dev, python3-devel)"
        )


def wanted_torch() -> ModuleType | None:
    """None where there is none to build for, and JAX or TensorFlow is."""
    if not switch("IMPACTARBITER_TORCH", default=True):
        return None
    try:
        import torch
    except ImportError as error:
        if has_other_framework():
            return None
        raise BuildError(
            f"PyTorch is needed to build and cannot be imported ({error}): "
            "install torch first, then run pip install with "
            "--no-build-isolation"
        ) from error
    return torch


def has_other_framework() -> bool:
    return any(map(importlib.util.find_spec, ("jax", "tensorflow")))


def core_flags() -> Flags:
    try:
        import numpy
    except ImportError as error:
        raise BuildError(
            "NumPy is needed to build: pip install 'numpy>=1.26'"
        ) from error
    flags = common_flags()
    flags.system.append(numpy.get_include())
    flags.versions.append(f"numpy {numpy.__version__}")
    return flags


def torch_flags(torch: ModuleType, inplace: bool) -> Flags:
    from torch.utils import cpp_extension

    flags = common_flags()
    flags.system += cpp_extension.include_paths()
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    flags.macros.append(("_GLIBCXX_USE_CXX11_ABI", str(abi)))
    flags.libraries += TORCH_LIBRARIES
    flags.library_dirs += cpp_extension.library_paths()
    # Installed, we lie beside torch; built in place, torch is elsewhere.
    flags.link.append("-Wl,-rpath,$ORIGIN/../torch/lib")
    if inplace:
        flags.link += [f"-Wl,-rpath,{path}" for path in flags.library_dirs]
    flags.versions.append(f"torch {torch.__version__}")
    return flags


#: A class that torch generates, up to the next one, and what it has saved.
GENERATED_CLASS = re.compile(
    r"^struct TORCH_API (\w+) : public \w+ \{(.*?)^\};",
    re.MULTILINE | re.DOTALL,
)
SAVED_MEMBER = re.compile(
    r"^ +(SavedVariable|std::vector<SavedVariable>) (\w+)_;", re.MULTILINE
)
#: What has memory of its own beside the node: sizes, strides, lists of saved.
VECTOR_MEMBER = re.compile(
    r"^ +(?:(?:::)?std::vector<.*>|c10::OptionalArray<.*>|[\w:]+::TypeAndSize)"
    r" (\w+);",
    re.MULTILINE,
)


def write_saved_layout(include: list[str], folder: Path) -> None:
    """Lists the members in which torch's autograd nodes save tensors, and
    their vectors, for src/torch/saved_tensors.cpp; the compiler adds the
    offsets."""
    header = Path("torch/csrc/autograd/generated/Functions.h")
    found = [Path(path) / header for path in include]
    lines = []
    for source in filter(Path.is_file, found):
        for name, body in GENERATED_CLASS.findall(source.read_text()):
            members = SAVED_MEMBER.findall(body)
            vectors = VECTOR_MEMBER.findall(body)
            counts = f"{len(members)}, {len(vectors)}"
            lines.append(f"IA_CLASS({name}, {counts})")
            for kind, member in members:
                macro = "IA_ONE" if kind == "SavedVariable" else "IA_LIST"
                lines.append(f"{macro}({name}, {member})")
            lines += [f"IA_VECTOR({name}, {member})" for member in vectors]
        break
    if not lines:
        raise BuildError(f"torch's header {header} was not found or not read")
    folder.mkdir(parents=True, exist_ok=True)
    layout, text = folder / "saved_layout.inc", "\n".join(lines) + "\n"
    if not layout.is_file() or layout.read_text() != text:
        layout.write_text(text)


#: CUDA 13's wheels have these in two packages.
CUDA_HEADERS = ("cuda_runtime_api.h", "crt/host_config.h")


def cuda_include() -> str:
    """The folder of the CUDA Toolkit's headers: CUDA_HOME, else NVIDIA's
    wheels, which torch's CUDA builds bring along, else what `make
    cuda-headers` has fetched."""
    from torch.utils.cpp_extension import CUDA_HOME

    folders = [Path(CUDA_HOME) / "include"] if CUDA_HOME else []
    spec = importlib.util.find_spec("nvidia")
    for parent in (spec and spec.submodule_search_locations) or []:
        folders += sorted(Path(parent).glob("*/include"))
    folders.append(ROOT / "build" / "cuda-headers" / "include")
    for folder in folders:
        if all((folder / name).is_file() for name in CUDA_HEADERS):
            return str(folder)
    raise BuildError(
        "torch is a CUDA build and the CUDA Toolkit's headers "
        f"({', '.join(CUDA_HEADERS)}) were not found: set CUDA_HOME, or pip "
        "install nvidia-cuda-runtime and nvidia-cuda-crt, or set "
        "IMPACTARBITER_CUDA=0 to build without CUDA events"
    )


def cuda_flags(torch: ModuleType, inplace: bool) -> Flags:
    flags = torch_flags(torch, inplace)
    flags.system.append(cuda_include())
    flags.libraries.insert(0, "c10_cuda")
    return flags


class BuildExt(build_ext):
    """Compiles file by file, two at a time, and only what has changed.

    Objects and linked modules stay in build/temp*/<key of the flags>; what
    is installed is a copy of them.
    """

    def run(self) -> None:
        require_gil()
        require_python_headers()
        torch = wanted_torch()
        editable = bool(getattr(self, "editable_mode", False))
        inplace = bool(self.inplace or editable)
        if editable:
            # Not in pip's temporary folder: objects are for the next time.
            self.build_temp = str(ROOT / "build" / "temp.editable")
        self.flags = {
            "impactarbiter._core": core_flags(),
            "impactarbiter._arrays": common_flags(),
            "impactarbiter._door": common_flags(),
            "impactarbiter._signals": common_flags(),
        }
        self.torch = torch
        if torch is not None:
            self.add_torch(torch, inplace)
        self.extensions = [
            ext for ext in self.extensions if ext.name in self.flags
        ]
        super().run()

    def add_torch(self, torch: ModuleType, inplace: bool) -> None:
        flags = torch_flags(torch, inplace)
        layout = Path(self.build_temp) / f"torch-{torch.__version__}"
        write_saved_layout(flags.system, layout)
        flags.include.append(str(layout))
        self.flags["impactarbiter._torch"] = flags
        if (
            sources("cuda")
            and torch.version.cuda
            and switch("IMPACTARBITER_CUDA", default=True)
        ):
            self.flags["impactarbiter._cuda"] = cuda_flags(torch, inplace)

    def build_extensions(self) -> None:
        compiler = Path(self.compiler.compiler_so[0])
        if shutil.which(str(compiler)) is None:
            raise BuildError(
                f"no C compiler ({compiler} not found): install "
                "gcc or clang, or set CC and CXX"
            )
        jobs = int(os.environ.get("MAX_JOBS") or 2)
        with ThreadPoolExecutor(jobs) as pool:
            todo = [
                (
                    ext,
                    [
                        pool.submit(self.compile, ext, source)
                        for source in ext.sources
                    ],
                )
                for ext in self.extensions
            ]
            try:
                # result() raises what the compiler raised.
                built = [
                    (ext, [future.result() for future in futures])
                    for ext, futures in todo
                ]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        for ext, objects in built:
            self.link(ext, objects)
        self.note()

    def note(self) -> None:
        """Beside the modules, what they were built for: core/built.py."""
        import numpy

        folder = Path(self.get_ext_fullpath("impactarbiter._core")).parent
        if getattr(self, "editable_mode", False):
            folder = ROOT / "impactarbiter"
        facts = {
            "torch": self.torch and self.torch.__version__,
            "cuda": self.torch and self.torch.version.cuda,
            "numpy": numpy.__version__,
            "python": sys.version.split()[0],
            "compiler": self.compiler.compiler_so[0],
            "modules": [ext.name.split(".")[1] for ext in self.extensions],
        }
        text = json.dumps(facts, indent=1)
        (folder / "built.json").write_text(text + "\n")

    def folder(self, ext: Extension) -> Path:
        return Path(self.build_temp) / self.flags[ext.name].key()

    def compile(self, ext: Extension, source: str) -> str:
        flags = self.flags[ext.name]
        folder = self.folder(ext)
        built = folder / Path(source).with_suffix(".o")
        deps = built.with_suffix(".d")
        if not up_to_date(built, dependencies(deps)):
            self.compiler.compile(
                [source],
                output_dir=str(folder),
                macros=flags.macros,
                include_dirs=flags.include,
                extra_postargs=[*flags.of(source), "-MMD", "-MF", str(deps)],
            )
        return str(built)

    def link(self, ext: Extension, objects: list[str]) -> None:
        flags = self.flags[ext.name]
        target = Path(self.get_ext_fullpath(ext.name))
        linked = self.folder(ext) / target.name
        if not up_to_date(linked, objects):
            self.compiler.link_shared_object(
                objects,
                str(linked),
                libraries=flags.libraries,
                library_dirs=flags.library_dirs,
                extra_postargs=flags.link,
                build_temp=self.build_temp,
                target_lang=ext.language,
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        self.copy_file(str(linked), str(target))


def dependencies(deps: Path) -> list[str]:
    """The files a make rule of -MMD names, [] where there is none yet."""
    if not deps.is_file():
        return []
    rule = deps.read_text().replace("\\\n", " ").partition(":")[2]
    return rule.split()


def up_to_date(target: Path, inputs: list[str]) -> bool:
    """Whether target is newer than all inputs; False where there are none."""
    if not inputs or not target.is_file():
        return False
    made = target.stat().st_mtime
    return all(
        Path(name).is_file() and Path(name).stat().st_mtime <= made
        for name in inputs
    )


require_setuptools()
setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
