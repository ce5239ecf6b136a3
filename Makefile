# make help says what there is.  PYTHON=python3.12 make test takes another
# Python.  Everything is installed into .venv; rm -rf .venv starts afresh.

PYTHON ?= python3
TESTS ?= tests
# Processes that the tests are spread over; 0: none but pytest's own.
JOBS ?= 2
TORCH := $(shell grep '^torch==' constraints.txt)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --no-input --disable-pip-version-check $(if $(V),-v,-qq)
# -P and importlib mode: never the source folder, always the installed copy.
PYTEST := $(PY) -P -m pytest

export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

# Folders too: their times tell that a file was removed.
SOURCES := setup.py pyproject.toml README.md LICENSE \
    $(shell find src impactarbiter -name __pycache__ -prune -o -print)

.PHONY: help demo docs lab test test-libraries test-ground quick whole drawn public traces bench asan sweep lint venv \
    build clean \
    check-cuda-compile check-cuda-build gpu-check check-versions \
    check-torch-suite check-long check-static check-faults tsan valgrind table peers bench-compare \
    check-jax check-tensorflow check-together
.DELETE_ON_ERROR:

help:
	@echo 'make demo    find the leak of examples/finetune_gpt2.py'
	@echo 'make lab     the eight leaks of the leaks lab and their fixes'
	@echo 'make test    run the tests; TESTS=tests/unit ARGS="-k ledger" for some'
	@echo 'make test-libraries  those beside transformers, Lightning, trackers, Jupyter'
	@echo 'make test-ground     plain C, memory that fails, leaks of our own'
	@echo 'make quick   the tests that take a minute'
	@echo 'make whole   whole programs, leaky and fixed: what is said of each'
	@echo 'make drawn   programs drawn by lot, and what is true of each'
	@echo 'make traces  the criterion alone, on what programs were recorded to do'
	@echo 'make public  programs of public repositories: as they are, and leaky'
	@echo 'make bench   cost of watching, as ratios with and without'
	@echo 'make bench-compare  the same, against the last committed results'
	@echo 'make peers   ours and others: what each costs, who finds the holder'
	@echo 'make table   four models at full scale, on the meta device'
	@echo 'make asan    tests under AddressSanitizer and UBSan'
	@echo 'make tsan    threads under ThreadSanitizer'
	@echo 'make valgrind  plain C, then start, looks and stop, under valgrind'
	@echo 'make sweep   all leak patterns, healthy look-alikes, torch operators'
	@echo 'make lint    ruff, mypy --strict, pyright on the public types'
	@echo 'make docs    the documentation as a site: build/site'
	@echo 'make check-static        gcc -fanalyzer, clang, clang-tidy'
	@echo 'make check-faults        every allocation of ours fails once'
	@echo 'make check-long          long and large programs, memory and time'
	@echo 'make check-versions      other Pythons, torches, NumPys, compilers'
	@echo 'make check-torch-suite   PyTorch tests, plain and watched'
	@echo 'make check-jax           JAX, flax, optax, equinox, without torch'
	@echo 'make check-tensorflow    TensorFlow and Keras, without torch'
	@echo 'make check-together      torch, JAX, TensorFlow and NumPy at once'
	@echo 'make gpu-check           on a GPU: build, test and measure there'
	@echo 'make check-cuda-build    without one: torch for CUDA on a fake GPU'
	@echo 'make check-cuda-compile  without CUDA: its headers and src/cuda'
	@echo 'make build   install what changed into $(VENV); V=1 shows the compiler'
	@echo 'make clean   remove what was built; $(VENV) stays'

demo: build
	@echo '== impactarbiter run examples/finetune_gpt2.py'
	@$(VENV)/bin/impactarbiter run examples/finetune_gpt2.py

lab: build
	@echo '== leaks lab: leaky and fixed, what each one costs and our verdict'
	@OMP_NUM_THREADS=1 $(PY) -P examples/leaks_lab/run.py --jobs 2 \
	    --out build/lab $(ARGS)

# Tests beside other people's libraries and tools, and those of the ground that
# all stands on, have runs of their own.  Every walk goes through all that was
# imported: what imports the largest libraries shares no process with the rest.
LIBRARIES := $(addprefix tests/integration/test_,$(addsuffix .py,accelerate \
    article dashboard enable examples jupyter lab lightning mcp \
    pytest_plugin serving session stormlog_differential stormlog_docs \
    torchrun trackers transformers trl)) \
    tests/unit/test_op_db.py tests/unit/test_statistics.py
GROUND := tests/native tests/faults tests/cuda tests/unit/test_leaks_of_ours.py
# A file's tests in one process: its fixtures are made once; in the order that
# tests/conftest.py gives them.  A test that hangs says where it does and ends
# the run.
RUN_TESTS = OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(PYTEST) -n $(JOBS) \
    --dist loadfile --no-loadscope-reorder \
    -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true \
    --max-worker-restart 0

test: build
	@echo '== tests'
ifeq ($(TESTS),tests)
	@$(RUN_TESTS) --durations 20 \
	    $(patsubst %,--ignore %,$(LIBRARIES) $(GROUND)) tests $(ARGS)
else
	@$(RUN_TESTS) --durations 20 $(TESTS) $(ARGS)
endif

test-libraries: build
	@echo '== tests beside other libraries and tools'
	@$(RUN_TESTS) --durations 20 $(LIBRARIES) $(ARGS)

test-ground: build
	@echo '== tests of the ground: plain C, failing memory, our own leaks'
	@$(RUN_TESTS) --durations 20 $(GROUND) $(ARGS)

QUICK := rules criterion ledger edges walk_oracle findings knowledge patches \
    reports rooms statistics units
quick: build
	@echo '== quick: tables, ledger, edges, walk oracle, rules'
	@$(RUN_TESTS) -q $(QUICK:%=tests/unit/test_%.py) tests/native $(ARGS)

bench: build
	@echo '== benchmarks: ratios of interleaved pairs'
	@$(PY) -P benchmarks/run.py $(ARGS)
	@echo '== merge of a job: processor time and peak memory'
	@$(PY) -P benchmarks/merge.py

# EFFORT=f: so many times the usual number of rounds.
EFFORT ?= 1
bench-compare: build
	@echo '== benchmarks against benchmarks/results/pairs.json'
	@$(PY) -P benchmarks/run.py --effort $(EFFORT) \
	    --against benchmarks/results/pairs.json $(ARGS)

# make peers ARGS='--json benchmarks/results/peers.json' keeps the figures.
peers: build
	@echo '== ours and others on the same steps and the same heap'
	@$(PY) -P benchmarks/peers.py $(ARGS)

table: build
	@echo '== four models at full scale, on the meta device'
	@$(PY) -P benchmarks/table.py $(ARGS)

whole: build
	@echo '== whole programs: leaky and fixed, what is said and what is true'
	@$(PY) tests/whole/run.py --jobs 2 $(ARGS)

traces: build
	@echo '== traces: lines that the criterion names, and lines that leak'
	@$(PY) -P tools/traces/replay.py --jobs 2 $(ARGS)

drawn: build
	@echo '== programs drawn by lot'
	@$(PY) tests/drawn/run.py $(ARGS)

# MIRRORS=D: a folder of mirrors, OWNER+NAME each; else from GitHub.
public: build
	@echo '== programs of public repositories, untouched and with a leak'
	@$(PY) tests/public/run.py $(if $(MIRRORS),--mirrors $(MIRRORS)) $(ARGS)

sweep: build
	@echo '== sweep: leak patterns, healthy look-alikes, torch operators'
	@IMPACTARBITER_EXAMPLES=300 $(PYTEST) tests/leaks \
	    tests/unit/test_op_db.py tests/unit/test_walk_oracle.py \
	    tests/unit/test_interrupts.py \
	    tests/integration/test_children.py tests/integration/test_jobs.py \
	    tests/integration/test_launcher.py \
	    tests/integration/test_ray.py \
	    -m 'slow or not slow' $(ARGS)

lint: build
	@echo '== ruff'
	@$(PY) -m ruff check .
	@echo '== mypy --strict'
	@$(PY) -m mypy --strict impactarbiter tests/typing
	@echo '== pyright --verifytypes'
	@$(PY) tools/check_types.py

# Reads the sources: nothing is built.  Nothing is asked of a network.
docs: $(VENV)/.done-docs
	@echo '== documentation: build/site'
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

$(VENV)/.done-docs: pyproject.toml constraints.txt $(VENV)/.done-dev
	@$(PY) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	    print(*p["project"]["optional-dependencies"]["docs"], sep="\n")' \
	    > $(VENV)/requirements-docs.txt
	@$(PIP) install -c constraints.txt -r $(VENV)/requirements-docs.txt
	@touch $@

check-long: build
	@echo '== long and large programs: memory and time per step stay flat'
	@OMP_NUM_THREADS=1 $(PY) -P tests/long/check.py $(ARGS)

# MAX_JOBS=n: files at a time, 2 by default.
check-static: build
	@echo '== analyzers over the C and C++ files'
	@$(PY) -P tools/check_static.py $(ARGS)

# -- the environment, made once ---------------------------------------------

venv: $(VENV)/.done-dev
build: $(VENV)/.done-build

$(VENV)/.done-venv:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) \
	    and f"impactarbiter needs Python 3.11 or newer, $(PYTHON) is \
	{v[0]}.{v[1]}: make PYTHON=python3.11")'
	@echo '== making $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# torch comes first: what is built or installed next needs it.
$(VENV)/.done-torch: constraints.txt $(VENV)/.done-venv
	@echo '== installing $(TORCH) (the first time: some minutes)'
	@$(PIP) install -c constraints.txt '$(TORCH)'
	@touch $@

# The build's and the extra "dev"'s requirements, as pyproject.toml has them.
$(VENV)/.done-dev: pyproject.toml constraints.txt $(VENV)/.done-torch
	@echo '== installing the development environment (the first time: minutes, too)'
	@$(PY) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	    print(*p["build-system"]["requires"], \
	    *p["project"]["optional-dependencies"]["dev"], sep="\n")' \
	    > $(VENV)/requirements.txt
	@$(PIP) install -c constraints.txt -r $(VENV)/requirements.txt
	@touch $@

# The stamp gets the time of the start: a file saved meanwhile counts as new.
# build/lib goes, lest a removed module be installed; objects stay.
$(VENV)/.done-build: $(SOURCES) $(VENV)/.done-dev
	@echo '== building and installing impactarbiter'
	@touch $@.started
	@rm -rf build/lib* build/bdist*
	@$(PIP) install --no-build-isolation --no-deps .
	@mv $@.started $@

# -- sanitizers --------------------------------------------------------------

ASAN_SITE := build/asan
ASAN = LD_PRELOAD='$(subst $(space),:,$(strip $(ASAN_LIBS)))' \
    ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:allocator_may_return_null=1 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/$(ASAN_SITE) \
    $(PYTEST) -p no:cacheprovider
ASAN_LIBS = $(foreach lib,libasan.so libubsan.so libstdc++.so,\
    $(shell $(CC) -print-file-name=$(lib)))
space := $(subst ,, )

asan: venv
	@echo '== building with AddressSanitizer and UBSan'
	@rm -rf build/lib* build/bdist* $(ASAN_SITE)
	@IMPACTARBITER_DEBUG=1 IMPACTARBITER_SANITIZE=address,undefined \
	    $(PIP) install --no-build-isolation --no-deps \
	    --target $(ASAN_SITE) .
	@echo '== tests under the sanitizers'
	@$(ASAN) tests/unit $(ARGS)
	@echo '== leaky programs, 20 to 200 steps each, and their reports'
	@$(ASAN) tests/leaks -m 'slow or not slow' -k leaky/ $(ARGS)

# pip leaves alone what is there in a --target: the folder goes first.
TSAN_SITE := build/tsan

tsan: build
	@echo '== building with ThreadSanitizer'
	@rm -rf build/lib* build/bdist* $(TSAN_SITE)
	@IMPACTARBITER_SANITIZE=thread $(PIP) install --no-build-isolation \
	    --no-deps --target $(TSAN_SITE) .
	@echo '== the ledger alone, longer'
	@IMPACTARBITER_TURNS=100000 $(PYTEST) tests/native -k tsan
	@echo '== threads that run backwards while looks are made'
	@LD_PRELOAD='$(shell $(CC) -print-file-name=libtsan.so)' \
	    TSAN_OPTIONS=history_size=5 OMP_NUM_THREADS=1 \
	    PYTHONPATH=$(CURDIR)/$(TSAN_SITE) \
	    setarch -R $(PY) -P tests/sanitizers/stress.py 1

# Importing torch alone takes valgrind many minutes: VALGRIND_SECONDS= waits.
VALGRIND_SECONDS ?= 400
valgrind: build
	@echo '== plain C under valgrind'
	@$(PYTEST) tests/native -k valgrind
	@echo '== start, looks, stop under valgrind'
	@$(PY) -P tests/sanitizers/valgrind.py $(VALGRIND_SECONDS)

check-faults: build
	@echo '== every allocation of ours fails once'
	@OMP_NUM_THREADS=1 $(PYTEST) tests/faults -m 'slow or not slow' $(ARGS)

# -- other versions, other people's tests --------------------------------------

check-versions:
	@echo '== an environment of its own for each combination'
	@OMP_NUM_THREADS=1 $(PYTHON) tools/check_versions.py $(ARGS)

# TORCH_SOURCE=...: a checkout of torch's, or a repository to clone from.
check-torch-suite: build
	@echo "== torch's own tests, plain and watched"
	@OMP_NUM_THREADS=1 $(PY) tools/torch_suite/run.py $(ARGS)

# -- JAX and TensorFlow --------------------------------------------------------

# An environment each, without torch: setup.py builds no _torch there.
JAX_VENV := build/check-jax
TENSORFLOW_VENV := build/check-tensorflow
# What tests, attach and notebooks need comes with them.
WITH_FRAMEWORKS := 'numpy>=1.26' 'setuptools>=77' pytest hypothesis \
    'pyinjector>=1.4' nbclient ipykernel
# Only $(1)'s own settings and folder: tests/conftest.py knows torch.
FRAMEWORK_TESTS = OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(2)/bin/python -P \
    -m pytest -c $(1)/pytest.ini --rootdir $(1) --confcutdir $(1) $(1)
FRAMEWORK_PIP = $(1)/bin/python -m pip --no-input --disable-pip-version-check \
    -q install

check-jax: $(JAX_VENV)/.done
	@echo '== installing impactarbiter beside JAX, without torch'
	@rm -rf build/lib* build/bdist*
	@$(call FRAMEWORK_PIP,$(JAX_VENV)) --no-build-isolation --no-deps .
	@echo '== programs and ledger of JAX'
	@$(call FRAMEWORK_TESTS,tests/jax,$(JAX_VENV)) $(ARGS)

check-tensorflow: $(TENSORFLOW_VENV)/.done
	@echo '== installing impactarbiter beside TensorFlow, without torch'
	@rm -rf build/lib* build/bdist*
	@$(call FRAMEWORK_PIP,$(TENSORFLOW_VENV)) --no-build-isolation --no-deps .
	@echo '== programs and ledger of TensorFlow'
	@TF_CPP_MIN_LOG_LEVEL=3 \
	    $(call FRAMEWORK_TESTS,tests/tensorflow,$(TENSORFLOW_VENV)) $(ARGS)

# torch from $(VENV), which lends the packages of the other two.
SITE_PACKAGES = $$($(1)/bin/python -c 'import site; print(site.getsitepackages()[0])')
check-together: build $(JAX_VENV)/.done $(TENSORFLOW_VENV)/.done
	@echo '== torch, JAX, TensorFlow and NumPy in one process'
	@IMPACTARBITER_BESIDE=$(call SITE_PACKAGES,$(JAX_VENV)):$(call \
	    SITE_PACKAGES,$(TENSORFLOW_VENV)) \
	    $(call FRAMEWORK_TESTS,tests/together,$(VENV)) $(ARGS)

$(TENSORFLOW_VENV)/.done:
	@echo '== installing TensorFlow into $(TENSORFLOW_VENV)'
	@$(PYTHON) -m venv $(TENSORFLOW_VENV)
	@$(call FRAMEWORK_PIP,$(TENSORFLOW_VENV)) tensorflow-cpu $(WITH_FRAMEWORKS)
	@touch $@

$(JAX_VENV)/.done:
	@echo '== installing JAX into $(JAX_VENV)'
	@$(PYTHON) -m venv $(JAX_VENV)
	@$(call FRAMEWORK_PIP,$(JAX_VENV)) 'jax[cpu]' flax optax equinox \
	    $(WITH_FRAMEWORKS)
	@touch $@

# -- CUDA ---------------------------------------------------------------------

CUDA_TORCH ?= torch==2.15.0
CUDA_VENV := build/cuda-venv
CUDA_PY := $(CUDA_VENV)/bin/python
CUDA_PIP := $(CUDA_PY) -m pip --no-input --disable-pip-version-check -q
FAKE_CUDA := build/fake-cuda
# NVIDIA's runtime, driver and NVML by their names, all of them ours.
FAKE_ENV = LD_LIBRARY_PATH=$(CURDIR)/$(FAKE_CUDA) \
    LD_PRELOAD=$(CURDIR)/$(FAKE_CUDA)/libcuda.so.1
# What a GPU's machine has, not our own environment: its torch is measured.
GPU_PYTHON ?= $(PYTHON)

check-cuda-compile: venv
	@echo '== src/cuda against the headers of the CUDA Toolkit'
	@$(PYTEST) tests/cuda/test_compile.py -rs $(ARGS)

check-cuda-build: $(CUDA_VENV)/.done $(FAKE_CUDA)/libcuda.so.1
	@echo '== building against $(CUDA_TORCH)'
	@rm -rf build/lib* build/bdist*
	@$(CUDA_PIP) install --no-build-isolation --no-deps .
	@rm -rf build/lib* build/bdist*
	@echo '== the tests of CUDA on a fake GPU: $(FAKE_CUDA)'
	@OMP_NUM_THREADS=1 $(FAKE_ENV) $(CUDA_PY) -P -m pytest tests/cuda $(ARGS)
	@echo '== the tests of the core under $(CUDA_TORCH), without a GPU'
	@OMP_NUM_THREADS=1 $(CUDA_PY) -P -m pytest tests/unit/test_ledger.py \
	    tests/unit/test_edges.py tests/unit/test_device_events.py \
	    tests/unit/test_devices.py $(ARGS)

# About 5 GB on disk.  torch's wheels bring the headers but for crt/.
$(CUDA_VENV)/.done: pyproject.toml
	@echo '== installing $(CUDA_TORCH) into $(CUDA_VENV) (some minutes)'
	@test -x $(CUDA_PY) || $(PYTHON) -m venv $(CUDA_VENV)
	@$(CUDA_PIP) install '$(CUDA_TORCH)' numpy 'setuptools>=77' pytest \
	    hypothesis
	@$(CUDA_PIP) install --no-deps "nvidia-cuda-crt==$$($(CUDA_PY) -c \
	    'import torch; print(torch.version.cuda)').*"
	@touch $@

build/cuda-headers/.done: tests/cuda/headers.py
	@$(PYTHON) tests/cuda/headers.py build/cuda-headers
	@touch $@

$(FAKE_CUDA)/libcuda.so.1: tests/cuda/fake_cuda.c build/cuda-headers/.done
	@mkdir -p $(FAKE_CUDA)
	@$(CC) -std=c11 -O1 -Wall -Wextra -shared -fPIC \
	    -Wl,-soname,libcuda.so.1 -isystem build/cuda-headers/include $< -o $@
	@ln -sf libcuda.so.1 $(FAKE_CUDA)/libnvidia-ml.so.1

gpu-check:
	@$(GPU_PYTHON) -P benchmarks/gpu_check.py $(ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
	    .hypothesis $(VENV)/.done-build
