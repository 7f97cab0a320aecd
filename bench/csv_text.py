"""CSV text, fast: a million rows of thirty floats in seconds, in the shortest digits that read back to the same bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 50_000


def csv_text(table: pd.DataFrame) -> bytes:
    """A frame as CSV: `\\n` line ends, exact floats, NaN and None as an empty field, infinity as inf."""
    head = b",".join(_quoted(str(name)) for name in table.columns)
    return b"\n".join([head, *_lines(table), b""])


def _lines(table: pd.DataFrame) -> Iterator[bytes]:
    """The rows, in blocks. Floats that stand side by side are written together; a text is quoted once, however often it comes."""
    runs = [
        (floats, list(names)) for floats, names in groupby(table.columns, lambda name: table[name].dtype.kind == "f")
    ]
    words = {name: _words(table[name]) for floats, names in runs if not floats for name in names}
    for start in range(0, len(table), _ROWS):
        part = slice(start, start + _ROWS)
        columns: list[Any] = []
        for floats, names in runs:
            if floats:
                columns.append(_floats(table[names].iloc[part].to_numpy(dtype=np.float64)))
            else:
                columns += [_text(*words[name], part) for name in names]
        yield b"\n".join(map(b",".join, zip(*columns, strict=True)))


def _words(column: pd.Series[Any]) -> tuple[NDArray[np.int64], list[bytes]]:
    """Which word each row has (rows,), and the words; the last is for what is missing."""
    import pandas as pd

    codes, known = pd.factorize(column)
    return codes, [*(_quoted(str(word)) for word in known), b""]


def _text(codes: NDArray[np.int64], words: list[bytes], part: slice) -> list[bytes]:
    return [words[code] for code in codes[part].tolist()]


def _quoted(text: str) -> bytes:
    if any(letter in text for letter in ',"\n\r'):
        text = '"' + text.replace('"', '""') + '"'
    return text.encode()


def _floats(values: NDArray[np.float64]) -> list[bytes]:
    """Rows (n, k) as k fields with commas between them."""
    import orjson

    largest = sys.float_info.max  # JSON has no infinity: these two stand for it on the way
    bounded = np.ascontiguousarray(np.clip(values, -largest, largest))
    text = orjson.dumps(bounded, option=orjson.OPT_SERIALIZE_NUMPY)
    text = text.replace(b"null", b"").replace(orjson.dumps(largest), b"inf")
    return text[2:-2].split(b"],[")
