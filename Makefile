# One command per intent; `make` alone prints this list.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests wait more than they compute: two workers a core. `make test WORKERS=0` runs one after another.
WORKERS ?= $(shell echo $$((2 * $$(nproc))))
PARALLEL := -n $(WORKERS) --dist worksteal
# What computes more than it waits follows after: a worker a core, and a file's tests on one worker, since
# they share a JVM, a browser or an engine. The longest files first, as tests/conftest.py orders them, not
# those with most tests.
HEAVY := spark or browser or docker or alone
HEAVY_PARALLEL := -n $(if $(filter 0,$(WORKERS)),0,$(shell nproc)) --dist loadfile --no-loadscope-reorder
STAMP := $(VENV)/.installed

# Commands start as they do for users, from cached bytecode: compiling our modules at each start would
# be measured as ours.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo cluster test unit integration acceptance check format docs bench faults clean

help:  ## print this list
	@awk -F ':.*##' '/^[a-z]+:.*##/ {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup-python
	@touch $@

setup: $(STAMP)  ## virtual environment and Python packages at the pinned versions

demo: $(STAMP)  ## three real jobs through a real broker, watched live
	@scripts/system-packages --optional demo
	@$(BIN)/jobwire demo $(ARGS)

cluster: $(STAMP)  ## the metrics on a Spark cluster of processes on this machine
	@scripts/system-packages --optional demo
	@$(BIN)/python examples/cluster.py $(ARGS)

test: $(STAMP)  ## every test: unit, repository, integration, acceptance
	@scripts/system-packages test
	@VENV=$(VENV) scripts/agent-programs --optional
	$(BIN)/pytest tests $(PARALLEL) -m 'not ($(HEAVY))' $(ARGS)
	$(BIN)/pytest tests $(HEAVY_PARALLEL) -m '$(HEAVY)' $(ARGS)

unit: $(STAMP)  ## the pure rules only, in seconds
	@$(BIN)/python scripts/unit_tests.py $(ARGS)

integration: $(STAMP)  ## against real brokers
	@scripts/system-packages test
	$(BIN)/pytest tests/integration $(ARGS)

acceptance: $(STAMP)  ## whole commands in real processes
	@scripts/system-packages test
	$(BIN)/pytest tests/acceptance $(ARGS)

check: $(STAMP)  ## lint, format, types, and what holds for the repository as a whole
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/repository -q

format: $(STAMP)  ## put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## write the documents that are made from code and from what commands print
	$(BIN)/python scripts/render_docs.py
	$(BIN)/python scripts/readme_transcripts.py

bench: $(STAMP)  ## figures, side by side in one run, into bench/results
	@scripts/system-packages test
	$(BIN)/python bench/run.py $(ARGS)

faults: $(STAMP)  ## the long search: a thousand examples of each property, kill -9 of anything
	@scripts/system-packages test
	JOBWIRE_FAULTS=long $(BIN)/pytest tests/unit tests/integration -m hypothesis --timeout=3600 $(ARGS)
	JOBWIRE_FAULTS=long $(BIN)/pytest tests/faults --timeout=3600 $(ARGS)
	$(BIN)/python tests/faults/storm/run.py --jobs 200 --events 4000 --seeds 10 --write docs/reliability.md

clean:  ## remove the environment and caches, never your data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
