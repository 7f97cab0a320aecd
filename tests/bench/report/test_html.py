"""Parts of the HTML page as text; test_build.py reads a whole page, tests/browser opens one in a browser."""

import numpy as np
import pytest

from bench.report import html
from bench.report.table import Table, TableCell, num


def test_columns_without_any_value_are_left_out():
    cells = [
        [TableCell("a"), num(1.0), num(np.nan), num(np.nan)],
        [TableCell("b"), num(np.nan), num(np.nan), TableCell("–", np.nan, beside="2")],
    ]
    table = Table("t", ["method", "some", "none", "theirs"], cells)
    filled = html._filled(table)
    assert filled.columns == ["method", "some", "theirs"] and filled.rows == [[row[0], row[1], row[3]] for row in cells]
    for kept in (
        Table("t", ["a"], []),
        Table("t", ["m", "n"], [cells[0][:1] + cells[0][2:3]], [("x", 1)]),
        html._filled(table),
    ):
        assert html._filled(kept) is kept


def test_the_formula_of_a_head_is_that_of_its_longest_prefix():
    formulas = {
        "rmse": {"heads": ["RMSE"]},
        "sym": {"heads": ["recall sym.", "RMSE sym."]},
        "recall": {"heads": ["recall"]},
    }
    heads = {"RMSE mean": "rmse", "RMSE sym. mean": "sym", "recall sym.": "sym", "recall@0.2": "recall", "kind": None}
    assert {head: html._formula_of(head, formulas) for head in heads} == heads


@pytest.mark.parametrize(
    ("cell", "duel", "style"),
    [
        (TableCell("x", 0.5), False, ""),
        (TableCell("x", 0.5, heat=0.256), False, ' style="--much: 0.26"'),
        (TableCell("x", 0.5, heat=7.0), True, ' style="--much: 1.00"'),
        (TableCell("x", 0.5, heat=-7.0), False, ' style="--much: 0.00"'),
        (TableCell("x", 0.5, heat=np.nan), False, ""),
        (TableCell("x", 0.25), True, ' style="--much: 0.25; --tone: var(--win)"'),
        (TableCell("x", 0.0), True, ' style="--much: 0.00; --tone: var(--loss)"'),
        (TableCell("x", -0.25), True, ' style="--much: 0.25; --tone: var(--loss)"'),
        (TableCell("x", np.nan), True, ' style="--much: 0; --tone: var(--card)"'),
        (TableCell("x"), True, ' style="--much: 0; --tone: var(--card)"'),
    ],
)
def test_the_tone_of_a_cell(cell, duel, style):
    assert html._tone(cell, duel) == style


def test_what_can_be_selected():
    group, other = ("d", "noisy", 64), ("e", "clean", 8)
    selectable = html.Selectable({"a": "local", "b, n = 3": "global"}, {group: ["a"], other: []}, [group], other)
    assert html._selection(selectable) == {
        "groups": [
            {"id": "d/noisy/64", "dataset": "d", "condition": "noisy", "points": "64", "best": ["a"]},
            {"id": "e/clean/8", "dataset": "e", "condition": "clean", "points": "8", "best": []},
        ],
        "kinds": selectable.kinds,
        "first": "e/clean/8",
    }
    assert html._selection(selectable._replace(first=None))["first"] == ""
    names = {"a": "a", "a, n = 2": "a", "x": None, "b": None, "b, n = 3": None}
    assert {text: html._method_of({"a": "local"}, text) for text in names} == names
