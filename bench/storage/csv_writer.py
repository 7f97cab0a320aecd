"""Write CSV: a million rows of thirty floats in seconds, with the fewest digits that read back to the same bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

_BLOCK_ROWS = 50_000


def csv_text(table: pd.DataFrame) -> bytes:
    """Return a frame as CSV: `\\n` line ends, exact floats, NaN and None as an empty field, infinity as inf."""
    return b"".join(csv_blocks(table))


def csv_blocks(table: pd.DataFrame) -> Iterator[bytes]:
    """Yield the CSV of a frame block by block."""
    yield b",".join(_quoted(str(name)) for name in table.columns) + b"\n"
    for lines in _lines(table):
        yield lines
        yield b"\n"


def _lines(table: pd.DataFrame) -> Iterator[bytes]:
    """Yield the rows in blocks. Adjacent float columns are formatted together; a category is quoted once."""
    by_type = groupby(table.columns, lambda name: table[name].dtype.kind == "f")
    runs = [(floats, list(names)) for floats, names in by_type]
    words = {name: _words(table[name]) for floats, names in runs if not floats for name in names}
    for start in range(0, len(table), _BLOCK_ROWS):
        block = table.iloc[start : start + _BLOCK_ROWS]
        columns: list[Any] = []
        for floats, names in runs:
            if floats:
                columns.append(_floats(block[names].to_numpy(dtype=np.float64)))
            else:
                columns += [_text(block[name], words[name]) for name in names]
        yield b"\n".join(map(b",".join, zip(*columns, strict=True)))


def _words(column: pd.Series[Any]) -> list[bytes] | None:
    """Return the quoted categories of a column and the field of a missing value; None for a column of another type."""
    import pandas as pd

    if not isinstance(column.dtype, pd.CategoricalDtype):
        return None
    return [*(_quoted(str(word)) for word in column.cat.categories), b""]


def _text(block: pd.Series[Any], words: list[bytes] | None) -> list[bytes]:
    if words is not None:
        return [words[code] for code in block.cat.codes.tolist()]
    if block.dtype.kind in "iub":
        numbers = block.tolist()
        known = {value: str(value).encode() for value in set(numbers)}
        return list(map(known.__getitem__, numbers))
    return [b"" if text is None or text != text else _quoted(str(text)) for text in block.to_numpy(dtype=object)]


def _quoted(text: str) -> bytes:
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        text = '"' + text.replace('"', '""') + '"'
    return text.encode()


def _floats(values: NDArray[np.float64]) -> list[bytes]:
    """Return each row of values (n, k) as k fields with commas between them."""
    import orjson

    largest = sys.float_info.max  # replaces infinity, which JSON lacks
    bounded = np.ascontiguousarray(np.clip(values, -largest, largest))
    text = orjson.dumps(bounded, option=orjson.OPT_SERIALIZE_NUMPY)
    text = text.replace(b"null", b"").replace(orjson.dumps(largest), b"inf")
    return text[2:-2].split(b"],[")
