"""The examples in the docstrings of public functions print what they show."""

import doctest
import importlib

import pytest

MODULES = [
    "common.keys",
    "common.specs",
    "datasets.conditions",
    "datasets.poses",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    finder, runner = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestRunner()
    results = [runner.run(test) for test in finder.find(module)]
    assert sum(result.attempted for result in results) > 0
    assert sum(result.failed for result in results) == 0
