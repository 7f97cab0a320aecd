"""The examples in docstrings run and give the documented results."""

import doctest
import importlib
import inspect

import pytest

MODULES = (
    "bench.evaluation.conventions",
    "bench.evaluation.metrics",
    "bench.evaluation.statistics",
    "bench.storage.run_json",
    "common.keys",
    "common.specs",
    "datasets.conditions",
    "datasets.poses",
    "datasets.rooms",
    "methods.core.base",
    "methods.core.registry",
)
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
