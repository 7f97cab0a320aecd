"""Names of columns, and columns that number the rows."""

import numpy as np
import pytest

from common.errors import MalformedFile
from datasets.formats.tables import _as_table, axes_of, counts_rows, from_table


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


SHAPES = {
    (10, 3): (10, 3),
    (10, 20): (10, 20),
    (3, 3): (3, 3),
    (2, 3): (2, 3),
    (5, 4): (5, 4),
    (1, 10, 3): (10, 3),
    (3, 500): (500, 3),
    (9, 12, 3): (108, 3),
    (9, 12, 6): (108, 6),
    (10, 2): None,
    (10, 21): None,
    (5, 5): None,
    (3, 4): None,
    (3, 20): None,
    (4, 500): None,
    (9, 12, 5): None,
    (4, 32, 3): None,
    (2, 9, 12, 3): None,
    (10,): None,
}
"""Shapes of arrays of floats, and those of the tables as which they are read; None if they are refused."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_array_is_a_table_only_if_its_points_are_in_one_axis_without_doubt(shape):
    array = np.random.default_rng(0).normal(size=shape)
    if SHAPES[shape] is None:
        with pytest.raises(MalformedFile, match="give points"):
            _as_table(array)
        return
    table = _as_table(array)
    assert table.shape == SHAPES[shape]
    rows = array.T if shape[0] == 3 and shape[-1] > 32 else array.reshape(-1, shape[-1])
    np.testing.assert_array_equal(table, rows)


def test_homogeneous_points_in_columns_lose_their_ones_and_poses_are_refused():
    points = np.random.default_rng(0).normal(size=(500, 3))
    np.testing.assert_array_equal(_as_table(np.vstack([points.T, np.ones(500)])), points)
    for pose in (np.eye(4), np.eye(4)[:3], np.eye(4)[None]):
        with pytest.raises(MalformedFile, match="matrix"):
            _as_table(pose)
