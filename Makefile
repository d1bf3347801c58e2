# `make demo` and `make test` work from an empty clone, with Python 3.11+, pip and make.
PYTHON ?= python3
SCALE ?= 1
BIN := .venv/bin

.PHONY: demo test types layers compiled docs bench mutants numbers torture clean

demo: .venv/installed
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

# Kills runs and lets them go on, 200 times, and damages each byte of a ledger's facts; minutes.
torture: .venv/tested
	$(BIN)/python -m tests.torture --kills 200
	FEDLAPSE_TORTURE=1 $(BIN)/python -m pytest tests/emulator/ledger/test_facts.py

# Editable, so that a change of the code needs no new install; pyproject.toml decides when one is needed.
.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
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
