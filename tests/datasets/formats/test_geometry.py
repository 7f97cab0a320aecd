"""What is left out of a cloud, the step of its coordinates, and its attributes."""

import numpy as np
import pytest

from common.errors import MalformedFile
from common.keys import rng
from datasets.formats.geometry import Faces, checked, cloud, coordinate_step, mesh

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
    with pytest.raises(MalformedFile, match=r"has 1 points, at least 3 are needed \(left out 9 of 10 rows 0 0 0"):
        checked(cloud(np.vstack([np.zeros((9, 3)), np.ones((1, 3))])))
    with pytest.raises(MalformedFile, match="not finite"):
        checked(cloud(np.vstack([POINTS, np.full((1, 3), np.inf)])))


@pytest.mark.parametrize(
    ("table", "step"),
    [
        ((POINTS + 1e6).astype(np.float32), 0.0625),
        ((POINTS + 1e6).astype(np.float32).astype(np.float64), 0.0625),
        (np.round(POINTS + 1e6, 2), 0.01),
        (POINTS + 1e6, 0),
        (np.arange(9).reshape(3, 3), 0),
    ],
)
def test_the_step_of_coordinates_is_that_of_their_format(table, step):
    assert coordinate_step(table) == pytest.approx(step)
