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
