"""Features of a whole batch, by torch operations and by the CUDA kernel run on the host, against those of the CPU's kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from torch import Tensor

from methods.native import rri_cuda
from methods.nn import rri_batched
from methods.nn.rri import rigid_invariant_features
from methods.nn.rri_batched import features_of_batch
from tests.methods.clouds import blob
from tests.methods.native.rri_cuda_on_host import KernelOnHost
from tests.methods.rri_definition import by_definition

K = 5
Features = Callable[[Tensor, int], Tensor]


def by_kernel(clouds: Tensor, k: int) -> Tensor:
    """Compute the features by the source of the CUDA kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rri_cuda, "kernel", lambda device, k: KernelOnHost(k))
        return features_of_batch(clouds, k)


WAYS = {"torch": features_of_batch, "kernel": by_kernel}


@st.composite
def clouds_with_faults(draw: st.DrawFn) -> np.ndarray:
    """A cloud (n, 3) of 6 to 40 points: scattered, flat, on a line or on a grid, with duplicates, small, large or far away."""
    n, key = draw(st.integers(K + 1, 40)), draw(st.integers(0, 10_000))
    random = np.random.default_rng(key)
    cloud = random.normal(size=(n, 3))
    shape = draw(st.sampled_from(["scattered", "flat", "line", "grid"]))
    if shape == "flat":
        cloud[:, 2] = 0
    if shape == "line":
        cloud = np.outer(cloud[:, 0], [1.0, 2.0, -0.5])
    if shape == "grid":
        cloud = np.round(cloud)
    copies = draw(st.integers(0, n - 1))
    cloud[:copies] = cloud[random.integers(0, n, copies)]
    if draw(st.booleans()):
        cloud[0] = cloud.mean(axis=0)
    cloud += draw(st.sampled_from([0.0, 3.0]))  # in proportion: float32 must hold the shape
    return (cloud * draw(st.sampled_from([1e-6, 1.0, 1e6]))).astype(np.float32)


def unique_points(cloud: np.ndarray) -> np.ndarray:
    """Return which points have k neighbours whose distances, and azimuths around the point, differ by more than rounding."""
    x = cloud.astype(np.float64) - cloud.astype(np.float64).mean(axis=0)
    scale = np.abs(x).max() or 1.0
    distance, index = cKDTree(x).query(x, min(K + 2, len(x)))
    clear = (np.diff(distance[:, 1:], axis=1) > 1e-5 * scale).all(axis=1) & (distance[:, 1] > 1e-5 * scale)
    for i in np.flatnonzero(clear):
        length = np.linalg.norm(x[i])
        if length < 1e-3 * scale:  # its direction is rounding
            clear[i] = False
            continue
        normal = x[i] / length
        flat = x[index[i, 1 : K + 1]] - np.outer(x[index[i, 1 : K + 1]] @ normal, normal)
        across = np.linalg.norm(flat, axis=1)
        axis = np.cross(normal, flat[0])
        azimuth = np.sort(np.arctan2(flat @ axis, flat @ flat[0] * np.linalg.norm(axis) / max(across[0], 1e-300)))
        turns = np.diff([*azimuth, azimuth[0] + 2 * math.pi])
        clear[i] = across.min() > 1e-3 * scale and turns.min() > 1e-3
    return clear


def blocks(features: Tensor) -> np.ndarray:
    return features.numpy().reshape(len(features), 4, K)


@pytest.mark.parametrize("way", WAYS)
@given(cloud=clouds_with_faults())
@settings(max_examples=25, deadline=None)
def test_any_cloud_has_the_features_of_the_cpu(way: str, cloud: np.ndarray) -> None:
    """Equal where neighbours and azimuths are unique; everywhere the distances of neighbours and the sum of the turns."""
    clouds = torch.from_numpy(cloud)[None]
    ours, theirs = (blocks(f(clouds, K)[0]) for f in (WAYS[way], rigid_invariant_features))
    assert np.isfinite(ours).all()
    scale = float(theirs[:, :2].max()) or 1.0
    clear = unique_points(cloud)
    np.testing.assert_allclose(ours[clear, :2] / scale, theirs[clear, :2] / scale, atol=1e-5)
    np.testing.assert_allclose(ours[clear, 2:], theirs[clear, 2:], atol=5e-3)
    np.testing.assert_allclose(ours[:, 0], theirs[:, 0], atol=1e-6 * scale)
    turns = ours[:, 3].sum(axis=1)
    whole = np.isclose(turns, 2 * math.pi, atol=1e-4) | (turns == 0)
    assert whole.all() and (ours[:, 2] >= 0).all() and (ours[:, 2] <= math.pi + 1e-6).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_features_are_their_definition(way: str, seed: int) -> None:
    cloud = blob(30, seed)
    ours = WAYS[way](torch.from_numpy(cloud)[None], K)[0].numpy()
    np.testing.assert_allclose(ours, by_definition(cloud.astype(np.float64), K), atol=2e-4)


@pytest.mark.parametrize("way", WAYS)
def test_a_cloud_with_nan_changes_no_other(way: str) -> None:
    clean = torch.from_numpy(np.stack([blob(60, seed) for seed in range(3)]))
    broken = clean.clone()
    broken[1, 7, 2] = torch.nan
    ours, usual = WAYS[way](broken, K), WAYS[way](clean, K)
    assert torch.equal(ours[[0, 2]], usual[[0, 2]]) and ours[1].isnan().any()


def test_blocks_of_distances_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds = torch.from_numpy(np.stack([blob(100, seed) for seed in range(2)]))
    usual = features_of_batch(clouds, K)
    for size in (1, 7 * 4 * 200, 99 * 4 * 200):
        monkeypatch.setattr(rri_batched, "_HOST_BYTES", size)
        assert torch.equal(features_of_batch(clouds, K), usual)
