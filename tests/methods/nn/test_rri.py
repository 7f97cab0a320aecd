"""Rotation-invariant features against their definition, and their invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from methods.nn import rri as rri_module
from methods.nn.rri import rigid_invariant_features
from methods.nn.rri_batched import nearest
from tests.methods.clouds import blob, pose
from tests.methods.rri_definition import by_definition


def test_rri_is_its_definition() -> None:
    cloud = blob(60).astype(np.float64)
    ours = rigid_invariant_features(torch.from_numpy(cloud)[None], 7)[0].numpy()
    np.testing.assert_allclose(ours, by_definition(cloud, 7), atol=1e-9)


def test_rri_does_not_change_with_the_pose() -> None:
    cloud = blob(300).astype(np.float64)
    other = cloud @ pose(3)[:3, :3].T + [5.0, -2.0, 1.0]
    both = rigid_invariant_features(torch.from_numpy(np.stack([cloud, other])))
    assert both.shape == (2, 300, 80)
    torch.testing.assert_close(both[0], both[1], atol=1e-8, rtol=0)


def test_rri_changes_under_reflection() -> None:
    cloud = torch.from_numpy(blob(200).astype(np.float64))[None]
    assert (
        rigid_invariant_features(cloud) - rigid_invariant_features(cloud * torch.tensor([-1.0, 1.0, 1.0]))
    ).abs().max() > 0.1


def test_rri_follows_the_order_of_points() -> None:
    cloud = torch.from_numpy(blob(200).astype(np.float64))[None]
    order = torch.randperm(200)
    torch.testing.assert_close(
        rigid_invariant_features(cloud[:, order]), rigid_invariant_features(cloud)[:, order], atol=1e-9, rtol=0
    )


def test_brute_force_neighbours_are_the_tree_s() -> None:
    cloud = torch.from_numpy(blob(500).astype(np.float64))
    tree, every = rri_module._TreeSearch(cloud), nearest(cloud[None], 20)[0]
    for rows in (slice(0, 500), slice(120, 301)):
        assert torch.equal(every[rows], tree(rows, 20))


def test_neighbours_where_duplicates_crowd_a_point_out() -> None:
    cloud = torch.from_numpy(np.repeat(blob(6), 10, axis=0).astype(np.float64))
    for neighbours in (rri_module._TreeSearch(cloud)(slice(0, 60), 5), nearest(cloud[None], 5)[0]):
        assert neighbours.shape == (60, 5) and (neighbours // 10 == torch.arange(60)[:, None] // 10).all()
        assert not (neighbours == torch.arange(60)[:, None]).any()


@pytest.mark.parametrize("n", [128, 1024, 1025, 2500])
def test_rri_in_blocks_and_threads_is_rri(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    clouds = torch.from_numpy(np.stack([blob(n, s) for s in range(3)]))
    usual = rigid_invariant_features(clouds)
    torch.set_num_threads(3)
    assert torch.equal(rigid_invariant_features(clouds), usual)
    monkeypatch.setattr(rri_module, "_TORCH_ROWS", 100)
    torch.testing.assert_close(rigid_invariant_features(clouds), usual, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "cloud",
    [
        np.zeros((30, 3)),
        np.outer(np.linspace(-1, 1, 31), [1.0, 2.0, 3.0]),
        np.repeat(blob(10), 5, axis=0),
        np.vstack([np.zeros((1, 3)), blob(30) - blob(30).mean(0)]),
    ],
    ids=["all equal", "collinear", "duplicates", "a point at the centroid"],
)
def test_rri_is_defined_everywhere(cloud: np.ndarray) -> None:
    features = rigid_invariant_features(torch.from_numpy(cloud.astype(np.float64))[None])[0]
    assert torch.isfinite(features).all()
    assert (features >= 0).all()
    assert (features[:, 40:60] <= math.pi + 1e-9).all() and (features[:, 60:] <= 2 * math.pi + 1e-9).all()


def test_rri_of_a_parallel_neighbour_and_of_the_centroid() -> None:
    cross = np.array(
        [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0], [0.5, 0, 0], [-0.5, 0, 0]], dtype=np.float64
    )
    features = rigid_invariant_features(torch.from_numpy(cross)[None], 6)[0].reshape(7, 4, 6).numpy()
    assert features[4, 2].tolist() == [0] * 6 and features[4, 3].tolist() == [0] * 6
    near = features[0, 3]  # of (1, 0, 0): only (0, ±1, 0) have a direction around it, half a turn apart
    assert sorted(np.round(near, 6)) == [0, 0, 0, 0, round(math.pi, 6), round(math.pi, 6)]


def test_rri_needs_k_and_one_points() -> None:
    with pytest.raises(ValueError, match="at least 21"):
        rigid_invariant_features(torch.zeros(1, 20, 3))


def test_tangents_complete_every_normal_to_a_right_handed_frame() -> None:
    normals = np.random.default_rng(0).normal(size=(500, 3))
    normals[:40, :2] *= 1e-7  # next to both poles, where another sign of the construction divides by almost nothing
    normals = np.concatenate([normals, np.eye(3), -np.eye(3)])
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    first, second = (t.numpy().T for t in rri_module._tangents(torch.from_numpy(normals.T.copy())))
    frames = np.stack([first, second, normals], axis=1)
    np.testing.assert_allclose(frames @ frames.transpose(0, 2, 1), np.tile(np.eye(3), (506, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(frames), 1, atol=1e-12)
