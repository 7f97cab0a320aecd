"""CSV of a frame, read back by the standard library."""

import csv
import io
import sys

import numpy as np
import pandas as pd
import pytest

from bench.storage import csv_writer
from bench.storage.csv_writer import csv_text, read_csv

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


@pytest.mark.parametrize("repetitive", [0, 8])  # 0: all fields are looked up, and adjacent columns joined
@pytest.mark.parametrize("block", [1, 3, 50_000])
@pytest.mark.parametrize(
    "order", [list(VALUES), list(VALUES)[::-1], ["x"], ["text"], ["count", "x", "word", "y"], ["x", "z"]]
)
def test_every_value_is_read_back(monkeypatch, block, order, repetitive):
    monkeypatch.setattr(csv_writer, "_REPETITIVE", repetitive)
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


def test_many_categories_beside_a_column_that_repeats():
    words = [f"w{i}" for i in range(127)]
    word = pd.Categorical.from_codes(np.arange(5000) % 128 - 1, pd.Index(words))
    lines = csv_writer.csv_text(pd.DataFrame({"word": word, "n": np.arange(5000) % 3})).decode().splitlines()
    assert lines[1:] == [f"{words[i % 128 - 1] if i % 128 else ''},{i % 3}" for i in range(5000)]


TEXTS = ["=1+1", "+cmd", "-chair", "@sum", "'quoted", "'=x", "plain", "a,b", 'say "x"', "-0.5", "–", "it's"]


def test_texts_are_guarded_against_spreadsheets_and_read_back_unchanged(tmp_path):
    for kind in ("object", "category"):
        table = pd.DataFrame({"category": pd.Series(TEXTS, dtype=kind), "n": range(len(TEXTS))})
        (tmp_path / "a.csv").write_bytes(csv_text(table))
        raw = pd.read_csv(tmp_path / "a.csv", dtype=str)["category"]
        assert not [text for text in raw if text[0] in "=+@" or (text[0] == "-" and text != "-0.5")]
        assert read_csv(tmp_path / "a.csv")["category"].tolist() == TEXTS


def test_lone_surrogates_of_old_records_are_written_as_escapes():
    assert csv_text(pd.DataFrame({"a": pd.Series(["x\udce4"], dtype=object)})) == b"a\nx\\udce4\n"


@pytest.mark.parametrize("alphabet", ['ab,"é', 'a"\udce4', "a\n,", 'b\r"', "=a", "-1,", ""])
def test_many_different_texts_are_quoted_as_each_one_alone(alphabet):
    draw = np.random.default_rng(0)
    texts = ["".join(draw.choice(list(alphabet), size)) if alphabet else "" for size in draw.integers(0, 6, 300)]
    texts[150] = None
    alone = [csv_text(pd.DataFrame({"a": pd.Series([text], dtype=object)})) for text in texts]
    together = csv_text(pd.DataFrame({"a": pd.Series(texts, dtype=object)}))
    assert together == b"a\n" + b"".join(text.removeprefix(b"a\n") for text in alone)


LARGEST = sys.float_info.max


@pytest.mark.parametrize(
    "values",
    [[np.inf, -np.inf, LARGEST, -LARGEST, np.nan, 1e155, 5e-324], [-np.inf, -LARGEST, 1.0], [np.inf, LARGEST]],
)
def test_infinity_and_the_largest_number_differ(tmp_path, values):
    (tmp_path / "a.csv").write_bytes(csv_text(pd.DataFrame({"x": values, "y": values})))
    read = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_array_equal(read["x"], values)


@pytest.mark.parametrize("text", [*TEXTS, "\ttab", "\rreturn", "+1", "-1e5", "=", "''x", "+"])
def test_names_and_texts_are_guarded_if_they_begin_like_a_formula_and_are_no_numbers(tmp_path, text):
    formula = text[0] in "=+-@\t\r'" and text not in ("-0.5", "+1", "-1e5")
    assert csv_writer.guarded(text) == ("'" if formula else "") + text
    assert csv_writer.unguarded(csv_writer.guarded(text)) == text
    assert csv_writer.unguarded(f"'a{text}") == f"'a{text}", "of a table that was not guarded"
    (tmp_path / "a.csv").write_bytes(csv_text(pd.DataFrame({text: ["x", None], "n": [1, 2]})))
    read = read_csv(tmp_path / "a.csv")
    if "\r" not in text:  # which pandas reads as the end of a line unless it is quoted
        assert list(read.columns) == [text, "n"]
    assert read.iloc[:, 0].tolist()[0] == "x" and read.iloc[:, 0].isna().tolist() == [False, True]
    assert read["n"].tolist() == [1, 2]


@pytest.mark.parametrize("rows", [99, 100, 101, 800])
@pytest.mark.parametrize("different", [1, 12, 13, 100])
def test_columns_that_repeat_are_written_as_others(rows, different):
    words = [f"w{i % different}" if i % 7 else None for i in range(rows)]
    frame = pd.DataFrame({"a": pd.Series(words, dtype=object), "b": np.arange(rows) % different, "c": words[::-1]})
    lines = csv_text(frame).decode().splitlines()
    expected = [f"{words[i] or ''},{i % different},{words[rows - 1 - i] or ''}" for i in range(rows)]
    assert lines == ["a,b,c", *expected]
