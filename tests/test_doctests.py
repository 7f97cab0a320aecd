"""The examples in docstrings run and give the documented results."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = (file for package in ("bench", "common", "datasets", "methods") for file in (ROOT / package).rglob("*.py"))
MODULES = sorted(".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES if ">>>" in file.read_text())
"""Modules with examples."""

COMPLETE = ("bench.evaluation.metrics", "bench.evaluation.statistics")
"""Modules in which every public function has an example."""


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_the_documented_results(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0 and results.failed == 0


@pytest.mark.parametrize("name", COMPLETE)
def test_every_public_function_has_an_example(name):
    module = importlib.import_module(name)
    functions = inspect.getmembers(module, lambda f: inspect.isfunction(f) and f.__module__ == name)
    missing = [key for key, function in functions if not key.startswith("_") and ">>>" not in (function.__doc__ or "")]
    assert functions and not missing
