# The two commands: `make bench` and `make test`. Everything they need is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?= --methods all

.PHONY: help bench test lint format docs performance
help:   ## list the targets
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*## /	/'

bench: .venv/run.done  ## the main job: every method on the embedded data (ARGS="…" passes other flags)
	$(BIN)/python bench.py $(ARGS)

test: .venv/dev.done  ## lint, types and tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

lint: .venv/dev.done  ## ruff and mypy alone
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/dev.done  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

performance: .venv/dev.done  ## time and memory, ours beside what one would otherwise run (half an hour)
	for script in harness deepgmr training adapters teaser scan_settings memory report shapes40; do $(BIN)/python -m performance.$$script || exit 1; done

docs: .venv/dev.done  ## build the site into build/site
	$(BIN)/mkdocs build --strict

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv .venv

.venv/run.done: requirements.txt | $(BIN)/python
	@echo "installing the packages into .venv: about 2 GB, some minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	-@$(BIN)/python -m methods.native.teaser  # builds TEASER++ now, or says why it can't be had; nothing else needs it
	-@$(BIN)/python -m methods.native.rri  # builds the kernel of DeepGMR's features now, or says why torch computes them
	@touch $@

.venv/dev.done: requirements-dev.txt requirements-cluster.txt requirements-extra.txt .venv/run.done
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
