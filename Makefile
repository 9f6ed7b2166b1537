# Two commands do everything on a machine that has make and one of the Pythons below:
#   make demo    the main job, end to end
#   make test    linters, types and all tests
# and while one works on the code:
#   make check        linters, types and the tests that need neither socket nor process: a minute
#   make test-fast    check, the tests of real sockets and files, and a few seeds of the simulation
#   make another OTHER=python3.13    the wheel, a cluster and a share of the tests on another Python
#   make chaos MINUTES=30    processes killed and stopped under load, and what became of it
#   make mutation SHARE=0.1    do the tests notice when the product is changed? docs/reliability.md
#   make bench    everything beside Apache Kafka, and the page docs/benchmarks.md: forty minutes
#   make conformance    which test proves which statement of docs/conformance.md
PYTHONS := 3.11 3.12 3.13 3.14
ONE_OF_THEM := import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(PYTHONS)".split())
ifndef PYTHON
PYTHON := $(shell for p in $(PYTHONS:%=python%) python3 python; do \
    if $$p -c '$(ONE_OF_THEM)' 2>/dev/null; then command -v $$p; break; fi; done)
endif
BIN := .venv/bin
export PYTHONWARNINGS ?= default
# With it, each of the thousands of processes that tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo check test-fast test another lint format types conformance chaos mutation bench lock clean

PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv takes a fraction of pip's time. It does not know pip's settings: what it cannot find, pip may.
# It is to take the machine's certificates, as pip does.
export UV_SYSTEM_CERTS := 1
INSTALL = $(BIN)/uv pip install --quiet --python .venv $(1) || $(PIP) $(1)

setup: .venv/.installed

.venv/.installed: requirements.lock requirements-jobs.lock pyproject.toml
	@"$(PYTHON)" -c '$(ONE_OF_THEM)' 2>/dev/null || \
	  { echo "coterie needs one of Python $(PYTHONS) on PATH; set PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	awk '/^uv==/,!/\\$$/' requirements.lock > .venv/uv.lock
	$(PIP) --require-hashes -r .venv/uv.lock
	$(call INSTALL,--require-hashes -r requirements.lock)
	# Beside the rest, for the one test that needs it: with it, every Ray starts slower and weighs more.
	rm -rf .venv/jobs
	$(call INSTALL,--require-hashes --no-deps --target .venv/jobs -r requirements-jobs.lock)
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup
	@$(BIN)/python -m examples.flights

check: setup lint types
	$(BIN)/python -m pytest -n 2 tests/unit

test-fast: check
	$(BIN)/python -m pytest -n 2 tests/component
	$(BIN)/python -m tests.sim --seeds 0-19

# Three processes, since they often wait. The folders that share a cluster each stay in one (tests/conftest.py).
# What takes all of the machine runs alone.
IN_MEMORY := $(BIN)/python -m tools.in_memory
ALONE := tests/programs/test_starvation.py
test: setup
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target lint types conformance
	$(IN_MEMORY) $(BIN)/python -m pytest $(ALONE)
	$(IN_MEMORY) $(BIN)/python -m pytest -n 3 --no-loadscope-reorder $(addprefix --ignore=,$(ALONE))

# What of this is worth trying on another Python, too: tools/another_python.py.
another: setup
	@$(IN_MEMORY) $(BIN)/python -m tools.another_python "$(OTHER)"

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

conformance: setup
	@$(BIN)/python -m tests.conformance

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

MINUTES ?= 2
chaos: setup
	$(BIN)/python -m tests.chaos --minutes $(MINUTES)

SHARE ?= 0.1
SEED ?= 1
# CI=1: properties are tried with the same examples for each mutant.
mutation: setup
	CI=1 PYTHONWARNINGS=ignore nice -n 19 $(BIN)/python -m tools.mutation --share $(SHARE) --seed $(SEED)

bench: setup
	$(BIN)/python -m benchmarks --write

# One lock file for all Pythons: what is only for some has a marker.
COMPILE := $(BIN)/uv pip compile pyproject.toml --extra demo --extra dev --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links --universal --python-version $(firstword $(PYTHONS)) --quiet

lock:
	$(COMPILE) --output-file requirements.lock
	cat requirements.lock requirements-jobs.lock > .venv/whole.lock  # so that it pins what is pinned now
	$(COMPILE) --extra jobs --constraint requirements.lock --output-file .venv/whole.lock
	$(BIN)/python -m tools.lock_beyond requirements.lock .venv/whole.lock > requirements-jobs.lock

clean:
	rm -rf .venv build dist mutants *.egg-info .mypy_cache .ruff_cache
