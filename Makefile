# loadgen: `make burst` runs the main job, `make test` passes the tests.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTHON ?= python3
RAY_VENV ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/loadgen-ray
RAY := ray==2.60.0
.DEFAULT_GOAL := help
.PHONY: help setup burst test lint type fmt bench engines test-engines test-ray test-gpu lock clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make the virtual environment and install everything the lock file names

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

burst: setup ## the main job: 40 calls in 2 s against the stand-in engine
	$(VENV)/bin/loadgen burst --rate 20/s --duration 2s

test: setup ## unit, property, wire, golden and end-to-end tests
	$(PY) -m pytest -q

lint: setup ## ruff and the import contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports

type: setup ## mypy, strict
	$(VENV)/bin/mypy

fmt: setup ## format and fix what can be fixed
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: setup ## measure the client against a server that knows the truth (ARGS="--help")
	$(PY) -m tests.perf $(ARGS)

engines: setup ## install real engines into the cache folder (see tests/engines/README.md)
	$(PY) -m tests.engines.install

test-engines: setup ## the main job against real engines; prints what was skipped and why
	$(PY) -m pytest -q -m engines tests/engines -rs

$(RAY_VENV)/.ready: requirements.lock
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/python -m pip install --quiet --require-hashes -r requirements.lock
	$(RAY_VENV)/bin/python -m pip install --quiet $(RAY)
	@touch $@

test-ray: $(RAY_VENV)/.ready ## the main job from two nodes of a Ray cluster on this machine
	PYTHONPATH=. $(RAY_VENV)/bin/python -m pytest -q -rs tests/e2e/test_ray.py

test-gpu: setup ## the main job on this machine's GPU; says why where there is none
	$(PY) -m tests.gpu

lock: ## write requirements.lock anew (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 --group dev --extra tokenizers pyproject.toml -o requirements.lock

clean: ## remove the virtual environment and caches; results stay
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
