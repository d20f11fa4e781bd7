# make demo   set up .venv, fit real data, leave a report to look at
# make test   set up .venv, run the tests; test-other-cpu: the numerical ones, as on a CPU without AVX
# make bench  compare with other solvers; some of it: make bench ONLY=small,relu
# make trust  try what could go wrong, many times, and write docs/trust.md; some of it: make trust FIGURES='damage limits'
# make docs   the site, into site/; its examples are run
# make wheel  the wheel, installed and tried in an environment of its own
# make lint   formatting, lints, types

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# torch is named with its version here too: it can never float to a CUDA build
INSTALL := $(PIP) install --quiet -c constraints.txt --no-build-isolation torch==2.13.0
SETTINGS := pyproject.toml constraints.txt
export MPLBACKEND := Agg

.PHONY: demo test test-other-cpu bench compared trust docs wheel lint format clean

demo: $(VENV)/.ready
	$(BIN)/provenet demo

# one thread a worker: two on small matrices are slower than one
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q

test: $(VENV)/.ready-dev
	$(PYTEST) $(TESTS)

# the last digits of BLAS are others on other CPUs, and nothing may hang on them: here those of one without AVX
NUMERICAL := tests/solvers tests/theorems tests/equivalence/test_relu.py::test_other_losses
test-other-cpu: $(VENV)/.ready-dev
	MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott $(PYTEST) $(or $(TESTS),$(NUMERICAL))

# in an environment of its own: what other solvers need changes nothing that the library is tested with
SUITES := small,size,relu,blocks,operators
bench:
	@$(MAKE) --no-print-directory VENV=.venv-bench compared

compared: $(VENV)/.ready-bench
	$(BIN)/provenet bench --only $(or $(ONLY),$(SUITES)) --out docs/benchmarks $(BENCH)

# goes on where an earlier run of the same code ended; a second one beside it takes other figures; records in build/trust
trust: $(VENV)/.ready-dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m trust $(FIGURES)

# strict: a broken link, a page outside the menu or an example that fails ends it
docs: $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/mkdocs build --quiet
	@echo "site: python -m http.server -d site shows it on http://localhost:8000"

wheel: $(VENV)/.build
	rm -rf dist && $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(PYTHON) -m venv --clear dist/venv
	dist/venv/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt torch==2.13.0 dist/*.whl
	cd dist && venv/bin/provenet --version && venv/bin/provenet demo --out tried
	@rm -rf dist/venv dist/tried

lint: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .venv-bench build demo dist site docs/examples .pytest_cache .mypy_cache .ruff_cache .hypothesis

# a stamp, not the interpreter: a half-made environment is made again
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "provenet needs Python 3.10 or newer; say which with: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.build: $(SETTINGS) | $(VENV)/.made
	$(PIP) install --quiet -c constraints.txt hatchling editables
	@touch $@

$(VENV)/.ready: $(VENV)/.build
	$(INSTALL) -e .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.build
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.ready

# a peer's data loader comes as source, and is built with setuptools
$(VENV)/.ready-bench: $(VENV)/.build
	$(PIP) install --quiet -c constraints.txt setuptools
	$(INSTALL) -e '.[bench]'
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-docs: $(VENV)/.build
	$(INSTALL) -e '.[docs]'
	@touch $@ $(VENV)/.ready
