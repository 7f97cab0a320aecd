"""Training batches of the local descriptor: matched points of two scans at their true pose, with disturbed patches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.keys import Random, rng
from methods.geometry.patches import patches

Points = NDArray[np.float64]
MATCH = 0.03
"""Distance in metres up to which points of two scans are a match."""
_JITTER = 0.008
"""Maximum standard deviation in metres of the noise that is added to a cloud."""
_KEPT = 0.4
"""Minimum share of a cloud's points that are kept."""
_STRETCH = 1.3
"""Maximum factor by which the radii differ from their nominal values."""


class Matched(NamedTuple):
    """Matches of a pair: moments of patches (K, S, *SUMS) and points (K, 3) of the source and of the target."""

    source_patches: NDArray[np.float32]
    target_patches: NDArray[np.float32]
    source: NDArray[np.float32]
    target: NDArray[np.float32]


def matched(problem: Any, radii: tuple[float, ...], points: int, keys: int) -> Matched:
    """Draw matches of a problem (`datasets.problems.Problem`) and their patches, with thinned and noisy clouds.

    Args:
        problem: two overlapping scans in metres.
        radii: of the patches in metres.
        points: of a patch.
        keys: number of matches, drawn with repetition if there are fewer.
    """
    from scipy.spatial import cKDTree

    draw = rng("descriptor", problem.key.seed, problem.key.index)
    source, target = (_disturbed(cloud, draw) for cloud in (problem.source, problem.target))
    T = problem.T_target_source
    neighbours = cKDTree(target).query(source @ T[:3, :3].T + T[:3, 3], distance_upper_bound=MATCH)
    distance, nearest = map(np.asarray, neighbours)
    rows = np.flatnonzero(np.isfinite(distance))
    if not len(rows):  # an overlap of nearly nothing, after thinning
        rows = np.argsort(distance)[:1]
        nearest = np.minimum(nearest, len(target) - 1)
    chosen = rows[draw.choice(len(rows), keys, replace=len(rows) < keys)]
    p, q = source[chosen], target[nearest[chosen]]
    factor = _STRETCH ** draw.uniform(-1.0, 1.0)
    scaled = tuple(factor * radius for radius in radii)
    of_source, of_target = (patches(cloud, keys, scaled, points) for cloud, keys in ((source, p), (target, q)))
    return Matched(of_source, of_target, p.astype(np.float32), q.astype(np.float32))


def _disturbed(cloud: NDArray[Any], draw: Random) -> Points:
    """Return a random subset of a cloud (N, 3) in random order, with noise."""
    kept = draw.permutation(len(cloud))[: max(1, int(draw.uniform(_KEPT, 1.0) * len(cloud)))]
    return np.asarray(cloud[kept] + draw.uniform(0.0, _JITTER) * draw.standard_normal((len(kept), 3)))
