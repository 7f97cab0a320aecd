"""Examples in the docstrings of the public contract."""

import doctest

from methods.core import base


def test_examples_of_the_contract_run() -> None:
    examples = doctest.testmod(base)
    assert examples.failed == 0 and examples.attempted > 10
