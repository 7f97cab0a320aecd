"""Numbers as text."""

import pytest

from bench.pair.text import significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00012345, "0.000123"), (0.0099996, "0.0100"), (9.996, "10.0"), (0.5, "0.500"), (1234.5, "1234"), (0.0, "0"),
        (float("nan"), "–"), (float("inf"), "∞"),
    ],
)  # fmt: skip
def test_residuals_have_three_significant_digits(value, text):
    assert significant(value) == text
