"""Numbers of text files."""

import numpy as np
import pytest

from common.errors import MalformedFile
from datasets.formats.numbers import split_lists, whitespace_numbers


def test_numbers_are_read_and_a_word_is_named():
    assert whitespace_numbers(b"1 -2.5e3\n\tnan").tolist()[:2] == [1, -2500]
    assert len(whitespace_numbers(b" \n")) == 0
    with pytest.raises(MalformedFile, match="has the word 'two' where a number belongs"):
        whitespace_numbers(b"1 two 3")


def test_lists_of_equal_and_of_different_lengths_are_split():
    for flat, sizes, values in (([2, 5, 6, 2, 7, 8], [2, 2], [5, 6, 7, 8]), ([1, 5, 2, 7, 8], [1, 2], [5, 7, 8])):
        lengths, content, used = split_lists(np.array(flat, float), 2)
        assert lengths.tolist() == sizes and content.tolist() == values and used == len(flat)
    assert split_lists(np.array([3.0, 1]), 1) is None and split_lists(np.array([]), 1) is None


def plain_lists(numbers, count):
    lengths, values, left = [], [], list(numbers)
    for _ in range(count):
        if not left or not 0 <= left[0] < len(left):
            return None
        lengths.append(int(left[0]))
        values += left[1 : 1 + lengths[-1]]
        left = left[1 + lengths[-1] :]
    return lengths, values, len(numbers) - len(left)


@pytest.mark.parametrize("equal", [True, False])
def test_lists_are_split_as_one_after_another_and_too_short_ones_refused(equal):
    draw = np.random.default_rng(0)
    for _ in range(50):
        sizes = np.full(4, draw.integers(0, 4)) if equal else draw.integers(0, 4, 4)
        numbers = np.concatenate([[n, *draw.integers(0, 9, n)] for n in sizes]).astype(float)
        for given in (numbers, numbers[:-1], np.append(numbers, 3.0), -numbers, numbers + 1):
            for count in range(1, 6):
                expected, split = plain_lists(given, count), split_lists(given, count)
                assert (split is None) == (expected is None)
                if split:
                    assert (split[0].tolist(), split[1].tolist(), split[2]) == expected
