"""CSV of a frame, read back by the standard library."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from bench.storage import csv_writer

VALUES = {
    "text": ["plain", "with, comma", 'with "quotes"', "two\nlines", "carriage\rreturn", None, ""],
    "x": [0.1, -1e-300, np.inf, -np.inf, np.nan, 1 / 3, 123456789.125],
    "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    "count": [3, -1, 0, 10**12, 5, 5, 7],
    "z": [np.nan] * 7,
    "flag": [True, False, True, True, False, False, True],
    "word": pd.Categorical(["a,b", None, "c", "a,b", 'd"', "c", None]),
    "mixed": [1, "one", 2.5, None, np.nan, "x", "y"],
}


def field(value):
    """The text of a value in a CSV: exact numbers, nothing for what is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value) if isinstance(value, float) else str(value)


@pytest.mark.parametrize("block", [1, 3, 50_000])
@pytest.mark.parametrize(
    "order", [list(VALUES), list(VALUES)[::-1], ["x"], ["text"], ["count", "x", "word", "y"], ["x", "z"]]
)
def test_every_value_is_read_back(monkeypatch, block, order):
    monkeypatch.setattr(csv_writer, "_BLOCK_ROWS", block)
    frame = pd.DataFrame(
        {name: pd.Series(VALUES[name], dtype=object) if name == "mixed" else VALUES[name] for name in order}
    )
    text = csv_writer.csv_text(frame)
    rows = [row or [""] for row in csv.reader(io.StringIO(text.decode(), newline=""))]
    assert rows[0] == order and len(rows) == 8 and text.endswith(b"\n")
    for name, column in zip(order, zip(*rows[1:], strict=True), strict=True):
        wanted = [field(value) for value in list(VALUES[name])]
        if name in ("x", "y"):
            assert [float(v) if v else None for v in column] == [float(w) if w else None for w in wanted]
            assert [v == "" for v in column] == [w == "" for w in wanted]
        else:
            assert list(column) == wanted, name


def test_a_frame_without_rows_is_its_head():
    assert csv_writer.csv_text(pd.DataFrame({"a,b": [], "c": []})) == b'"a,b",c\n'
