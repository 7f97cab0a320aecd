"""Names of columns, and columns that number the rows."""

import numpy as np
import pytest

from datasets.formats.tables import axes_of, counts_rows, from_table


@pytest.mark.parametrize(
    ("names", "axes"),
    [
        ("x y z", [0, 1, 2]),
        ("X Y Z R G B", [0, 1, 2]),
        ("id pos_x pos_y pos_z", [1, 2, 3]),
        ("Points_0 Points_1 Points_2", [0, 1, 2]),
        ("Points_m_XYZ:0 Points_m_XYZ:1 Points_m_XYZ:2 intensity", [0, 1, 2]),
        ("Northing Easting Elevation", [1, 0, 2]),
        ("x_coord y_coord z_coord", [0, 1, 2]),
        ("nx ny nz x y z", [3, 4, 5]),
        ("lat lon alt", None),
        ("nx ny nz", None),
        ("x y", None),
    ],
)
def test_x_y_and_z_are_found_among_the_names(names, axes):
    assert axes_of(names.split()) == axes


def test_a_named_x_may_count_but_an_unnamed_column_is_then_no_coordinate():
    table = np.column_stack([np.arange(20.0), np.ones((20, 2)), np.zeros(20)])
    assert from_table(table, ["x", "y", "z", "q"]).points[:, 0].tolist() == list(range(20))
    assert from_table(table).points[0].tolist() == [1, 1, 0]
    assert counts_rows(table[:, 0]) and not counts_rows(table[:, 1])
