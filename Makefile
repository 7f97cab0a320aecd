# The main commands are `make bench` and `make test`. They install what they need into .venv.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?= --methods all --device auto
FAULTS ?= --sample 0
LOCK ?=
# Without files of bytecode, each of the hundreds of processes that the tests start would compile this repository again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help bench test lint format docs performance mutants lock
help:   ## list the targets
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*## /	/'

bench: .venv/run.done  ## run every method on the embedded data (ARGS="…" passes other flags)
	$(BIN)/python bench.py $(ARGS)

# While mypy runs on one processor, the tests are compiled on another by collecting them; else each process of pytest would do it.
test: .venv/dev.done  ## run linters, type checks and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest --collect-only > /dev/null 2>&1 & $(BIN)/mypy; typed=$$?; wait; exit $$typed
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadscope

lint: .venv/dev.done  ## run ruff and mypy only
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/dev.done  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

performance: .venv/dev.done  ## measure time and memory beside the usual alternatives (half an hour)
	for script in harness deepgmr training adapters teaser scan_settings memory report shapes40; do $(BIN)/python -m performance.$$script || exit 1; done

mutants: .venv/dev.done  ## put single faults into a copy of the code and print the share that tests catch (FAULTS="…" passes other flags)
	$(BIN)/python -m performance.mutants $(FAULTS)

lock: .venv/dev.done  ## write the installed versions of all packages to requirements.lock
	{ echo '# Versions with which the tests pass: pip install -c requirements.lock -r requirements-dev.txt. Written by make lock.'; \
	  $(BIN)/python -m pip freeze --exclude-editable | sed 's,+.*,,' | grep -E '^[A-Za-z0-9_.-]+==[^ ]+$$'; } > requirements.lock

docs: .venv/dev.done  ## build the site into build/site, with the leaderboards of the committed runs in build/site/results
	$(BIN)/mkdocs build --strict
	$(BIN)/python bench.py publish results/reference results/reference-scans --site build/site/results

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv .venv

.venv/run.done: requirements.txt | $(BIN)/python
	@echo "installing the packages into .venv: 2 GB with a CPU build of torch, more with a CUDA build (docs/install.md); a few minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(LOCK) -r requirements.txt
	-@$(BIN)/python -m methods.native.teaser  # builds TEASER++, or prints why it is unavailable; no other method needs it
	-@$(BIN)/python -m methods.native.rri  # builds the kernel of DeepGMR's features, or prints why torch computes them
	-@$(BIN)/python -m methods.native.fpfh  # builds the kernel of FPFH features, or prints why Open3D computes them
	-@$(BIN)/python -m methods.native.search  # builds the kernel of the search over poses, or prints why NumPy computes it
	-@$(BIN)/python -m methods.native.descriptor  # builds the kernel of the learned descriptor, or prints why NumPy computes it
	-@$(BIN)/python -m methods.native.clique  # builds the search for cliques, or prints why TEASER++ does it
	@touch $@

.venv/dev.done: requirements-dev.txt requirements-cluster.txt requirements-extra.txt .venv/run.done
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(LOCK) -r requirements-dev.txt
	@touch $@
