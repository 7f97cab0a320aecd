"""What is left out of a cloud, the step of its coordinates, and its attributes."""

from contextlib import nullcontext

import numpy as np
import pytest

from common.errors import MalformedFile
from common.keys import rng
from datasets.formats.geometry import Faces, checked, cloud, coordinate_step, mesh, named, shape_text

POINTS = rng("geometry").normal(size=(50, 3))


def test_repeated_rows_0_0_0_are_left_out_with_their_attributes_and_counted():
    table = np.vstack([np.zeros((30, 3)), POINTS])
    left = checked(cloud(table, {"label": np.arange(80)}))
    np.testing.assert_array_equal(left.points, POINTS)
    assert left.columns["label"].tolist() == list(range(30, 80))
    assert left.remarks == ("left out 30 of 80 rows 0 0 0 (nothing was measured there)",)


def test_any_point_that_a_tenth_of_the_rows_repeat_is_left_out():
    left = checked(cloud(np.vstack([np.tile((-1.0, 9.0, 4.0), (8, 1)), POINTS])))
    assert len(left.points) == 50 and "left out 8 of 58 rows -1 9 4 (a tenth" in left.remarks[0]


@pytest.mark.parametrize("extra", [np.zeros((1, 3)), np.tile(POINTS[:1], (3, 1))])
def test_a_single_zero_and_a_few_repeated_points_are_kept(extra):
    table = np.vstack([extra, POINTS])
    assert len(checked(cloud(table)).points) == len(table)


def test_vertices_of_a_mesh_and_a_cloud_of_one_point_are_kept():
    corners = np.vstack([np.zeros((20, 3)), POINTS])
    assert len(checked(mesh(corners, Faces(np.array([3]), np.array([0, 30, 40])))).points) == 70
    assert len(checked(cloud(np.ones((20, 3)))).points) == 20


def test_a_cloud_of_zeros_only_and_infinite_points_are_refused():
    with pytest.raises(MalformedFile, match=r"has 1 point, at least 3 are needed \(left out 9 of 10 rows 0 0 0"):
        checked(cloud(np.vstack([np.zeros((9, 3)), np.ones((1, 3))])))
    with pytest.raises(MalformedFile, match="not finite"):
        checked(cloud(np.vstack([POINTS, np.full((1, 3), np.inf)])))


@pytest.mark.parametrize(
    ("table", "step"),
    [
        ((POINTS + 1e6).astype(np.float32), 0.0625),
        ((POINTS + 1e6).astype(np.float32).astype(np.float64), 0.0625),
        (np.round(POINTS + 1e6, 2), 0.01),
        (np.round(POINTS + 1e6, 6), 1e-6),
        (np.round(POINTS, 7), 0),
        (np.round(POINTS + 1e6, 0).astype(np.float32).astype(np.float64), 1),
        (np.arange(9.0).reshape(3, 3) * 16 + 2**27, 16),
        (POINTS + 1e6, 0),
        (POINTS + 1e7, 0),
        (np.arange(9).reshape(3, 3), 0),
    ],
)
def test_the_step_of_coordinates_is_that_of_their_format(table, step):
    assert coordinate_step(table) == pytest.approx(step)


@pytest.mark.parametrize(("count", "every"), [(19_999, 1), (20_000, 2), (30_500, 3)])
def test_the_step_is_that_of_ten_to_twenty_thousand_rows(count, every):
    table = np.full((count, 3), 0.25)
    table[every - 1, 0] = np.pi
    assert coordinate_step(table) == (0.01 if every > 1 else 0)
    table[every, 0] = np.pi
    assert coordinate_step(table) == 0


def test_faces_become_fans_and_small_ones_are_left_out_with_a_remark():
    sizes, corners = np.array([3, 2, 5, 1, 4]), np.arange(15) % 9
    faces = Faces(sizes, corners)
    expected, start = [], 0
    for size in sizes:
        polygon = corners[start : start + size]
        expected += [[polygon[0], polygon[i], polygon[i + 1]] for i in range(1, size - 1)]
        start += size
    assert faces.triangles().tolist() == expected
    for size in (3, 4):
        equal = Faces(np.full(3, size), np.arange(3 * size))
        fans = [[size * i, size * i + j, size * i + j + 1] for i in range(3) for j in range(1, size - 1)]
        assert equal.triangles().tolist() == fans
    geometry = mesh(POINTS[:9], faces, {"label": np.arange(9)})
    assert geometry.faces is faces and geometry.columns["label"].tolist() == list(range(9))
    assert geometry.remarks == ("2 of 5 faces have fewer than three vertices and are left out",)
    assert mesh(POINTS[:9], Faces(np.array([3]), np.array([0, 4, 8]))).remarks == ()
    assert mesh(POINTS, Faces(np.array([], int), np.array([], int))).faces is None
    with pytest.raises(MalformedFile, match="no face of three"):
        mesh(POINTS, Faces(np.array([2, 1]), np.array([0, 1, 2])))
    for wrong in (-1, 9):
        with pytest.raises(MalformedFile, match=rf"refers to vertex {wrong} \(from 0\) of 9"):
            mesh(POINTS[:9], Faces(np.array([3]), np.array([0, wrong, 2])))


@pytest.mark.parametrize(("count", "kept"), [(5, True), (6, False)])
def test_a_point_that_a_tenth_repeat_is_left_out_and_fewer_are_kept(count, kept):
    table = np.vstack([np.tile((-1.0, 9.0, 4.0), (count, 1)), rng("more").normal(size=(60 - count, 3))])
    assert len(checked(cloud(table)).points) == (60 if kept else 54)
    few = np.vstack([np.tile((-1.0, 9.0, 4.0), (2, 1)), POINTS[:8]])
    assert len(checked(cloud(few)).points) == 10, "two are no value for nothing"


def test_rows_without_a_measurement_are_left_out_and_partial_ones_refused():
    table = np.vstack([np.full((4, 3), np.nan), POINTS])
    left = checked(cloud(table, {"red": np.arange(54)}))
    assert len(left.points) == 50 and left.columns["red"][0] == 4
    assert left.remarks == ("left out 4 of 54 rows of NaN (nothing was measured there)",)
    for bad in (np.nan, np.inf, 1.01e12, -1.01e12):
        with pytest.raises(MalformedFile, match=r"^2 of 56 points are not finite, or beyond 1e\+12") as error:
            checked(cloud(np.vstack([table, [[0.5, bad, 1], [bad, 0, 0]]])))
        assert f"the first is point 54 (from 0): 0.5 {bad:g} 1; fix or remove" in str(error.value)
    assert len(checked(cloud(np.vstack([POINTS, [[1e12, 0, 1]]]))).points) == 51
    for n in (2, 3):
        with pytest.raises(MalformedFile, match="has 2 points") if n == 2 else nullcontext():
            checked(cloud(POINTS[:n]))


def test_attributes_have_the_names_of_ply_and_colours_are_bytes():
    table = np.array([[0.0, 255, 0.5, 1, 7, 1, 3, 8, 2, 9], [1, 2, 0.25, 0, 8, 0, 4, 8, 3, 9]])
    names = ["x", " R ", "green", "b", "Intensity (raw)", "alpha", "normal_x", "red", "__", "größe"]
    columns = named(names, table)
    assert {name: values.tolist() for name, values in columns.items()} == {
        "red": [255, 2],
        "green": [0.5, 0.25],
        "blue": [1, 0],
        "intensity__raw": [7, 8],
        "alpha": [1, 0],
        "nx": [3, 4],
        "gr__e": [9, 9],
    }
    types = {name: values.dtype for name, values in columns.items()}
    assert types.pop("red") == np.uint8 and set(types.values()) == {np.dtype(float)}
    for value, is_byte in ((256.0, False), (-1.0, False), (200.5, False), (200.0, True)):
        assert (named(["red"], np.array([[value], [3.0]]))["red"].dtype == np.uint8) == is_byte
    assert shape_text((3, 4)) == "3 x 4" and shape_text(()) == "one value"


def test_of_two_repeated_points_the_more_frequent_one_is_left_out():
    for first, second in ((9, 8), (8, 9)):
        table = np.vstack([np.tile((1.0, 2.0, 3.0), (first, 1)), np.tile((-1.0, 9.0, 4.0), (second, 1)), POINTS])
        left = checked(cloud(table))
        value = "1 2 3" if first > second else "-1 9 4"
        assert len(left.points) == 58 and left.remarks[0].startswith(f"left out 9 of 67 rows {value} (")
    same_x = np.vstack(
        [np.tile((1.0, 2.0, 3.0), (4, 1)), np.tile((1.0, 2.0, 4.0), (5, 1)), np.ones((4, 3)), POINTS[:20]]
    )
    assert len(checked(cloud(same_x)).points) == 28, "points are repeated, not single coordinates"
