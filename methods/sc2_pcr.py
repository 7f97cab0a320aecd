"""SC2-PCR (Chen et al. 2022): poses of matches that are compatible with many of the same other matches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.geometry.compatibility import (
    Floats,
    Hypotheses,
    leading_eigenvectors,
    length_differences,
    strongest,
    weighted_poses,
)
from methods.geometry.compatible_matches import CompatibleMatchesMethod
from methods.geometry.features import Points

POWER_ITERATIONS = 5
"""Iterations for the confidence of all matches, which take a third of the solver's time."""


class Sets(NamedTuple):
    """Sizes of the sets of matches to which poses are fitted, see the parameters of `Sc2Pcr`."""

    seeds: float
    wide: int
    narrow: int


SETS = Sets(0.1, 30, 20)
"""Sizes of the sets unless given."""
VERIFIED = Sets(1.0, 12, 8)
"""Sizes where poses are verified on all points: small sets are right with fewer right matches, and wrong poses are rejected."""
MOST_SEEDS = 1000
"""Maximum number of seeds."""


class Sc2Pcr(CompatibleMatchesMethod):
    """Fit a pose to the matches that are most compatible with each of the best FPFH matches, and choose the best pose.

    The first-order compatibility of two matches is whether the distance between them is equal in both clouds, to the
    tolerance. The second order of two compatible matches is the number of matches compatible with both, which separates
    correct matches better.

    Parameters:
        seeds: share of the matches around which poses are fitted; None: .1, or 1 where poses are verified on all points.
        wide, narrow: matches kept around a seed by the compatibility with all matches, then by that within those kept;
            None: 30 and 20, or 12 and 8 where poses are verified.
    """

    search = {"seeds": (0.05, 0.1, 0.2), "wide": (20, 30, 50)}

    seeds: float | None = None
    wide: int | None = None
    narrow: int | None = None

    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return a pose for each seed of matches p to q (K, 3)."""
        given = {name: value for name in Sets._fields if (value := getattr(self, name)) is not None}
        sets = (VERIFIED if self.verifies else SETS)._replace(**given)
        difference = length_differences(p, q)
        hard = (difference < tolerance).astype(np.float32)
        soft = soft_compatibility(difference, tolerance)
        confidence = leading_eigenvectors(soft, POWER_ITERATIONS)  # only the order of the seeds depends on it
        seeds = best_separated(confidence, p, tolerance, min(MOST_SEEDS, max(3, round(sets.seeds * len(p)))))
        second = hard[seeds] @ hard
        second *= hard[seeds]
        wide = strongest(second, sets.wide)
        narrow = _narrowed(hard, wide, sets.narrow)
        weights = leading_eigenvectors(_within(soft, narrow))
        return weighted_poses(p[narrow], q[narrow], weights.astype(np.float64) + 1e-9)


def _narrowed(compatible: Floats, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Keep the rows (B, count) of sets of matches (B, wide) that agree best with the first within their set."""
    near = _within(compatible, rows)
    local = np.matmul(near[:, :1], near)[:, 0] * near[:, 0]
    return np.take_along_axis(rows, strongest(local, count), axis=1)


def soft_compatibility(difference: Floats, tolerance: float) -> Floats:
    """Return weights that fall from 1 to 0 as the difference of distances grows to the tolerance."""
    weights = difference / np.float32(tolerance)
    weights *= weights
    np.subtract(1, weights, out=weights)
    return np.maximum(weights, 0, out=weights)


def best_separated(scores: Floats, points: Points, distance: float, count: int) -> NDArray[np.intp]:
    """Return the rows of the highest scores (K,), local maxima within the distance first, then others."""
    from scipy.spatial import cKDTree

    near = cKDTree(points).query_pairs(distance, output_type="ndarray")
    lower = np.where(scores[near[:, 0]] < scores[near[:, 1]], near[:, 0], near[:, 1])
    maximum = np.ones(len(scores), dtype=bool)
    maximum[lower] = False
    return np.lexsort((-scores, ~maximum))[:count]


def _within(matrix: Floats, rows: NDArray[np.intp]) -> Floats:
    """Return the parts (B, k, k) of a matrix (K, K) between the rows of B sets (B, k)."""
    return matrix[rows[:, :, None], rows[:, None, :]]
