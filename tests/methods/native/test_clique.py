"""The search for the largest clique of matches, against an exhaustive one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from methods.native.clique import KERNEL, largest_clique
from tests.methods.clouds import pose


@pytest.fixture(scope="module", autouse=True)
def kernel() -> None:
    if KERNEL.load() is None:
        pytest.skip("the kernel cannot be had here")


def adjacency(p: np.ndarray, q: np.ndarray, tolerance: float) -> np.ndarray:
    near = np.abs(squareform(pdist(p)) - squareform(pdist(q))) <= tolerance
    np.fill_diagonal(near, False)
    return near


def largest(near: np.ndarray, candidates: list[int], size: int = 0) -> int:
    best = size
    for i, v in enumerate(candidates):
        best = max(best, largest(near, [u for u in candidates[i + 1 :] if near[v, u]], size + 1))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_no_clique_is_larger(seed: int) -> None:
    p, q = np.random.default_rng(seed).normal(size=(2, 16 + seed, 3))
    near = adjacency(p, q, 0.8)
    rows = largest_clique(p, q, 0.8, 10.0)
    assert rows is not None and len(rows) == largest(near, list(range(len(p)))) >= 3
    assert near[np.ix_(rows, rows)].sum() == len(rows) * (len(rows) - 1)


def test_the_clique_of_a_pose_is_found_among_many_wrong_matches() -> None:
    draw, T = np.random.default_rng(0), pose(100)
    p = draw.normal(size=(700, 3))
    q = draw.normal(size=(700, 3))
    right = np.sort(draw.permutation(700)[:90])
    q[right] = p[right] @ T[:3, :3].T + T[:3, 3]
    rows = largest_clique(p, q, 0.05, 60.0)
    assert rows is not None and set(right) <= set(rows.tolist()) and len(rows) < 95


@pytest.mark.parametrize("count", [1, 2])
def test_few_matches_are_a_clique_of_their_own(count: int) -> None:
    p = np.zeros((count, 3))
    assert largest_clique(p, p, 0.1, 1.0).tolist() == list(range(count))  # type: ignore[union-attr]


def test_the_time_limit_ends_the_search_with_a_clique() -> None:
    p, q = np.random.default_rng(1).normal(size=(2, 300, 3))
    rows = largest_clique(p, q, 1.0, 0.01)
    assert rows is not None and adjacency(p, q, 1.0)[np.ix_(rows, rows)].sum() == len(rows) * (len(rows) - 1) > 0
