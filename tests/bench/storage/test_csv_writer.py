"""CSVs: exact numbers, and texts that no spreadsheet takes for a formula."""

import sys

import numpy as np
import pandas as pd

from bench.storage.csv_writer import csv_text, read_csv

TEXTS = ["=1+1", "+cmd", "-chair", "@sum", "'quoted", "'=x", "plain", "a,b", 'say "x"', "-0.5", "–", "it's"]


def test_texts_are_guarded_against_spreadsheets_and_read_back_unchanged(tmp_path):
    for kind in ("object", "category"):
        table = pd.DataFrame({"category": pd.Series(TEXTS, dtype=kind), "n": range(len(TEXTS))})
        (tmp_path / "a.csv").write_bytes(csv_text(table))
        raw = pd.read_csv(tmp_path / "a.csv", dtype=str)["category"]
        assert not [text for text in raw if text[0] in "=+@" or (text[0] == "-" and text != "-0.5")]
        assert read_csv(tmp_path / "a.csv")["category"].tolist() == TEXTS


def test_lone_surrogates_of_old_records_are_written_as_escapes():
    assert csv_text(pd.DataFrame({"a": ["x\udce4"]})) == b"a\nx\\udce4\n"


def test_infinity_and_the_largest_number_differ(tmp_path):
    largest = sys.float_info.max
    values = [np.inf, -np.inf, largest, -largest, np.nan, 1e155, 5e-324]
    (tmp_path / "a.csv").write_bytes(csv_text(pd.DataFrame({"x": values, "y": values})))
    read = pd.read_csv(tmp_path / "a.csv", float_precision="round_trip")
    np.testing.assert_array_equal(read["x"], values)
