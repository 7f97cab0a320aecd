"""The data set `rooms`, with few rays and frames."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from datasets import rooms
from datasets.indoor import fragments
from datasets.indoor.camera import Camera
from datasets.indoor.fragments import FRAMES, Fragment
from datasets.poses import inverse, move, sample_pose
from tests.catalog import open_data

SMALL = Camera(width=64, height=48, focal=58.5, noise=0.2)


@pytest.fixture(scope="module")
def arrays():
    return rooms.scene_arrays("test", 3, SMALL, frames=6)


def test_fragments_meet_at_the_true_pose(arrays):
    for (target, source), overlap in zip(arrays["pairs"], arrays["overlap"], strict=True):
        clouds = [np.asarray(rooms.cloud_at(arrays, row), dtype=float) for row in (source, target)]
        T = rooms.relative(arrays["poses"][target], arrays["poses"][source])
        distance, _ = cKDTree(clouds[1]).query(move(T, clouds[0]))
        assert (distance < rooms.NEAR).mean() == pytest.approx(overlap, abs=0.06)
        assert np.median(distance[distance < rooms.NEAR]) < 0.02


def test_pairs_are_three_by_overlap(arrays):
    assert len(arrays["pairs"]) == rooms.PAIRS and (np.diff(arrays["overlap"]) >= 0).all()
    assert ((arrays["overlap"] >= 0.1) & (arrays["overlap"] <= 0.9)).all()
    assert (arrays["pairs"][:, 0] < arrays["pairs"][:, 1]).all()


def test_a_scene_is_a_function_of_its_key(arrays):
    again = rooms.scene_arrays("test", 3, SMALL, frames=6)
    assert all((again[name] == arrays[name]).all() for name in arrays)
    other = rooms.scene_fragments("train", 3, 0, SMALL, 2)
    assert not np.array_equal(other[0].pose, arrays["poses"][0])


def test_information_is_that_of_small_motions(arrays):
    """For a small motion ξ, ξᵀΛξ is the sum of squared distances by which it moves the matched points."""
    draw = np.random.default_rng(0)
    points = draw.uniform(-2, 2, (50, 3))
    matrix = rooms.information(points, points, np.eye(4))
    xi = 1e-6 * draw.standard_normal(6)
    moved = xi[:3] + np.cross(xi[3:], points)
    assert xi @ matrix @ xi == pytest.approx((moved**2).sum(), rel=1e-9) and matrix[0, 0] == 50
    assert (arrays["information"][:, 0, 0] > 100).all()


def test_pairs_of_the_set_name_their_scene(monkeypatch, arrays):
    monkeypatch.setattr(rooms.Rooms, "_scene", lambda self, number: arrays)
    dataset = open_data("rooms[scenes=2]", ".")
    pair = dataset.pair(4)
    assert len(dataset) == 6 and pair.scene == rooms.scene_name("test", 1) and pair.name.startswith(pair.scene)
    assert pair.overlap == arrays["overlap"][1] and pair.information.shape == (6, 6)


@pytest.mark.parametrize("text", ["rooms[split=all]", "rooms[scenes=0]"])
def test_parameters_are_checked(text):
    from common.errors import InputError

    with pytest.raises(InputError, match=r"split|scenes"):
        open_data(text, ".")


ORIGIN = np.eye(4)


def row_of(start, count=1000, aside=0.0, pose=ORIGIN):
    """A fragment of points a metre apart along x, seen in its own frame."""
    points = np.column_stack([np.arange(start, start + count), np.full(count, aside), np.zeros(count)])
    return Fragment(move(inverse(pose), points.astype(float)), pose)


def test_pairs_are_those_of_the_lowest_the_middle_and_the_highest_overlap_in_range():
    """Overlaps .9, .5, .09, .6, .19 and .59 of the pairs of four rows of points; both bounds are included."""
    draw = np.random.default_rng(0)
    poses = [sample_pose("haar", draw) for _ in range(4)]
    rows = [row_of(start, pose=T) for start, T in zip((0, 100, 500, 910), poses, strict=True)]
    arrays = rooms.select_pairs(rows, least=1000)
    assert arrays["pairs"].tolist() == [[1, 3], [2, 3], [0, 1]] and arrays["overlap"].tolist() == [0.19, 0.59, 0.9]
    assert [round(matrix[0, 0]) for matrix in arrays["information"]] == [190, 590, 900]
    close = rooms.select_pairs([row_of(start) for start in (0, 70, 500, 560)], least=1000)
    assert close["overlap"].tolist() == [0.44, 0.51, 0.57], "not .93 and .94"
    two = rooms.select_pairs([row_of(start) for start in (0, 950, 1900, 2850)], least=1000)
    assert len(two["pairs"]) == 0 and two["information"].shape == (0, 6, 6), "no overlap is in range"
    lowest = rooms.select_pairs([row_of(start) for start in (0, 900, 901, 902)], least=1000)
    assert len(lowest["pairs"]) == 0, "one of .1 is, and three are needed"
    lowest = rooms.select_pairs([row_of(start) for start in (0, 900, 900, 900)], least=1000)
    assert lowest["overlap"].tolist() == [0.1] * 3
    assert len(rooms.select_pairs(rows, least=1001)["pairs"]) == 0


@pytest.mark.parametrize(("aside", "overlap"), [(0.037, 0.5), (0.038, None)])
def test_points_up_to_37_mm_apart_are_of_one_surface(aside, overlap):
    rows = [row_of(0), row_of(500), row_of(0, aside=aside), row_of(500, aside=aside)]
    arrays = rooms.select_pairs(rows, least=1000)
    assert len(arrays["pairs"]) == (3 if overlap else 0) and set(arrays["overlap"]) <= {0.5}
    cloud = row_of(0).points
    found = rooms.information(cloud, row_of(500, aside=aside).points, np.eye(4))
    assert found.shape == (6, 6) and found[0, 0] == (500 if overlap else 0)


def test_constants_are_those_of_the_published_rooms():
    """Another value gives other scenes under the same names; the digest is of a camera with few rays and frames."""
    constants = rooms.FRAGMENTS, rooms.PAIRS, rooms.LEAST_POINTS, rooms.NOISE, FRAMES, rooms.scene_arrays.__defaults__
    assert open_data("rooms", ".").scenes == 50 and rooms.NEAR == 0.0375
    assert constants == (4, 3, 2500, (1.0, 3.0), 30, (None, 30, 2500))
    assert Camera() == Camera(width=128, height=96, focal=117.0, near=0.4, far=4.5, levels=348.0, noise=1.0, warp=0.004)
    assert (fragments.VOXEL, fragments._LEAST, fragments._TRUNCATION, fragments._DRIFT) == (0.025, 2, 0.06, 0.0015)
