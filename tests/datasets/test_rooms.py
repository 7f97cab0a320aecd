"""The data set `rooms`, with few rays and frames."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from datasets import rooms
from datasets.indoor.camera import Camera
from datasets.poses import move
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
