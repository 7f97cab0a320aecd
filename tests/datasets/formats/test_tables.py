"""Names of columns, and columns that number the rows."""

import numpy as np
import pytest

from common.errors import MalformedFile
from datasets.formats.tables import _as_table, axes_of, counts_rows, from_array, from_table


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


@pytest.mark.parametrize(("count", "first", "counts"), [(9, 0, False), (10, 0, True), (10, 1, True), (10, 2, False)])
def test_ten_numbers_from_zero_or_one_number_the_rows(count, first, counts):
    column = np.random.default_rng(0).permutation(np.arange(first, first + count)).astype(float)
    assert counts_rows(column) == counts and not counts_rows(np.where(column == first + 1, first, column))


@pytest.mark.parametrize(
    ("numbered", "width", "axes"),
    [([0], 4, [1, 2, 3]), ([0], 3, None), ([1], 4, None), ([2], 5, None), ([3], 5, [0, 1, 2]), ([4], 5, [0, 1, 2]),
     ([0, 1], 5, None), ([0, 3], 5, None), ([0, 4], 5, [1, 2, 3])],
)  # fmt: skip
def test_a_column_that_numbers_the_rows_is_left_out_only_if_it_is_the_first_one(numbered, width, axes):
    table = np.random.default_rng(1).normal(size=(12, width))
    for k in numbered:
        table[:, k] = np.arange(12)
    if axes is None:
        with pytest.raises(MalformedFile, match=rf"column {numbered[0] + 1} of {width} numbers the rows \(0 … 11\)"):
            from_table(table)
        return
    cloud = from_table(table)
    np.testing.assert_array_equal(cloud.points, table[:, axes])
    others = [k for k in range(width) if k not in axes]
    assert list(cloud.columns) == [f"column_{k + 1}" for k in others]
    for k in others:
        np.testing.assert_array_equal(cloud.columns[f"column_{k + 1}"], table[:, k])


@pytest.mark.parametrize("dtype", ["i2", "u2", "i4", "i8", "f2", "f4", "f8", "i1", "u1", "bool", "c8"])
def test_coordinates_are_numbers_of_more_than_a_byte(dtype):
    array = np.arange(300).reshape(100, 3)[::-1].astype(dtype)
    if dtype in ("i1", "u1", "bool", "c8"):
        with pytest.raises(MalformedFile, match="not coordinates of points"):
            from_array(array)
    else:
        np.testing.assert_array_equal(from_array(array).points, array)


def test_fields_of_a_structured_array_are_coordinates_and_attributes_whatever_their_types():
    kind = [("flag", "?"), ("Z", "i4"), ("text", "U3"), ("X", "f8"), ("Y", "u2"), ("pair", "f4", 2), ("red", "u1")]
    array = np.zeros((4, 5), kind)
    for name in ("X", "Y", "Z", "red"):
        array[name] = np.random.default_rng(2).integers(0, 200, (4, 5))
    array["flag"] = array["X"] > 100
    cloud = from_array(array)
    np.testing.assert_array_equal(cloud.points, np.column_stack([array[name].ravel() for name in "XYZ"]))
    assert {name: values.tolist() for name, values in cloud.columns.items()} == {
        "flag": array["flag"].ravel().tolist(), "red": array["red"].ravel().tolist()
    }  # fmt: skip
    assert cloud.remarks == ("fields X, Y, Z of 7 are x, y, z",)
    named = np.zeros(6, [("label", "i4"), ("pos", "f4", 3)])
    named["pos"] = np.random.default_rng(3).normal(size=(6, 3))
    assert from_array(named).points == pytest.approx(named["pos"])


SHAPES = {
    (4, 31, 3): (124, 3),
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
    for pose in (np.eye(4), np.eye(4)[:3], np.eye(4)[None], np.eye(3), np.diag([1.02, 1, 1]), np.diag([2.0, 3, 1, 1])):
        with pytest.raises(MalformedFile, match="matrix"):
            _as_table(pose)
    stretched = np.diag([1.03, 1, 1])
    np.testing.assert_array_equal(_as_table(stretched), stretched)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
@pytest.mark.filterwarnings("error")
def test_a_matrix_with_values_beyond_all_bounds_is_no_rotation(value):
    array = np.full((3, 3), value)
    np.testing.assert_array_equal(_as_table(array), array)
