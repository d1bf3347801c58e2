# `make demo` and `make test` work from an empty clone, with Python 3.11+, pip and make.
# `make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu` takes PyTorch's CPU version.
PYTHON ?= python3
SCALE ?= 1
TORCH_INDEX ?=
BIN := .venv/bin

.PHONY: demo test types layers compiled docs bench mutants numbers torture release clean

demo: .venv/installed
	@echo "The quickstart trains four algorithms with two seeds: one to two minutes on two cores."
	$(BIN)/fedlapse compare scenarios/quickstart.yaml

# Compiled at once: hundreds of the tests start a process of their own, and not every machine lets these keep what they
# compile.
test: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) -j 2 types layers compiled
	$(BIN)/python -m compileall -q algorithms devices emulator network scenarios
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

types: .venv/tested
	$(BIN)/mypy

layers: .venv/tested
	$(BIN)/lint-imports

# What numba compiles: else each process that needs it first does so by itself.
compiled: .venv/tested
	$(BIN)/python -c "from network.windows.crowd import compile_all; compile_all()"

# The site: build/docs/index.html. The tests build it, too.
docs: .venv/tested
	$(BIN)/sphinx-build -q -n -W --keep-going docs build/docs

bench: .venv/installed
	$(BIN)/python -m benchmarks.engine --scale $(SCALE)
	$(BIN)/python -m benchmarks.network --scale $(SCALE)
	$(BIN)/python -m benchmarks.replays --scale $(SCALE)
	$(BIN)/python -m benchmarks.fleet --scale $(SCALE)
	$(BIN)/python -m benchmarks.training --scale $(SCALE)
	$(BIN)/python -m benchmarks.training --scale $(SCALE) --ledger
	$(BIN)/python -m benchmarks.compute --scale $(SCALE)
	$(BIN)/python -m benchmarks.study --scale $(SCALE)

# Statements and lines, room by room.
numbers: .venv/installed
	$(BIN)/python -m tests.numbers

# Plants thousands of faults, one at a time, in the files of [tool.mutmut], and sees whether their tests notice: some
# hours.  `make mutants MUTANTS='network.links.tcp*'` takes those of one file, in minutes.
mutants: .venv/tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/mutmut run $(MUTANTS:%='%')
	$(BIN)/mutmut results | grep -v ': not checked' || true

# The wheel in build/release; installed in an empty environment, it plays the quickstart.
release: .venv/installed
	rm -rf build/release build/lib build/bdist.*
	mkdir -p build/release
	$(BIN)/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir build/release .
	test $$(cat build/release/*.whl | wc -c) -le 3000000
	$(PYTHON) -m venv build/release/empty
	build/release/empty/bin/python -m pip install --disable-pip-version-check $(TORCH) build/release/*.whl
	cd build/release && empty/bin/fedlapse compare --out quickstart

# Kills runs and lets them go on, 200 times, and damages each byte of a ledger's facts; minutes.
torture: .venv/tested
	$(BIN)/python -m tests.torture --kills 200
	FEDLAPSE_TORTURE=1 $(BIN)/python -m pytest tests/emulator/ledger/test_facts.py

TORCH := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
CPU := https://download.pytorch.org/whl/cpu
ifneq ($(TORCH_INDEX),)
SIZE := PyTorch from $(TORCH_INDEX) and what else fedlapse needs (CPU version: about 0.4 GB, 1.4 GB on the disk)
else ifeq ($(shell uname -s),Darwin)
SIZE := PyTorch and what else fedlapse needs: about 0.4 GB, 1.4 GB on the disk
else
SIZE := PyTorch with CUDA, several GB; with TORCH_INDEX=$(CPU) it is about 0.4 GB, 1.4 GB on the disk
endif

# Editable, so that a change of the code needs no new install; pyproject.toml decides when one is needed.
.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "pip downloads $(SIZE)."
	@echo "Downloads take most of the time, then a minute or two to unpack.  pip shows what it does:"
	$(BIN)/python -m pip install --disable-pip-version-check $(TORCH) --editable .
	touch $@

# Compiled on all cores: pip does it file by file, which takes as long as the rest.  Some packages bring templates that are
# no Python yet, and tests that nobody imports.
.venv/tested: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[test,docs]'
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests|testing)/' .venv/lib || true
	touch .venv/installed $@

clean:
	rm -rf .venv build mutants *.egg-info
