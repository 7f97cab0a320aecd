"""Numbers of text files, and lists of different lengths in them."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile

Numbers = NDArray[np.float64]


def whitespace_numbers(text: bytes) -> Numbers:
    """Return all numbers of a text that are separated by white space.

    Raises:
        MalformedFile: a word is no number.
    """
    if b"\0" in text:
        raise MalformedFile("holds zero bytes where text is declared")
    decoded = text.decode("latin-1")
    if not decoded.strip():
        return np.zeros(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.fromstring(decoded, dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning) as error:
        raise MalformedFile(f"has the word '{_first_word(decoded)}' where a number belongs") from error


def _first_word(text: str) -> str:
    for word in text.split():
        try:
            float(word)
        except ValueError:
            return word[:40]
    return ""


def split_lists(numbers: Numbers, count: int) -> tuple[NDArray[np.int64], Numbers, int] | None:
    """Split numbers into `count` lists, each preceded by its length.

    Returns:
        Their lengths (count,), their values one after another, and how many numbers they take; None if there are too few.

    >>> split_lists(np.array([2, 7, 8, 1, 9.0]), 2)
    (array([2, 1]), array([7., 8., 9.]), 5)
    """
    if not count:
        return np.zeros(0, np.int64), np.zeros(0), 0
    if not len(numbers) or not 0 <= numbers[0] <= len(numbers):
        return None
    width = int(numbers[0]) + 1
    table = numbers[: count * width].reshape(count, width) if count * width <= len(numbers) else None
    if table is not None and (table[:, 0] == table[0, 0]).all():
        return np.full(count, width - 1, np.int64), table[:, 1:].reshape(-1), count * width
    lengths, parts, at = [], [], 0
    for _ in range(count):
        if at >= len(numbers) or not 0 <= numbers[at] <= len(numbers) - at - 1:
            return None
        lengths.append(int(numbers[at]))
        parts.append(numbers[at + 1 : at + 1 + lengths[-1]])
        at += lengths[-1] + 1
    return np.array(lengths, np.int64), np.concatenate(parts), at
