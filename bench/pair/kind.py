"""Guess the kind of data of a pair from its clouds; `pair` prints the guess, and `--kind` overrides it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.kinds import DataKind
from methods.base import NoSolution
from methods.geometry.features import normals, unit_pair

Points = NDArray[np.float64]

WHOLE = 0.09
"""Maximum log ratio of the principal deviations of two clouds of one whole object."""
PLANAR = 0.07
"""Minimum share of parallel normals of a scene. Rooms have .10 and more, range images of curved objects .04 and less."""
NORMAL_RADIUS = 0.2
"""Neighbourhood of the normals, a fraction of the pair's scale."""
PARALLEL_DEG = 10.0
"""Maximum angle of normals that count as parallel."""
MOST_NORMALS = 500
"""Maximum number of normals of a cloud that are compared."""


def guess_kind(source: NDArray[np.float32], target: NDArray[np.float32]) -> tuple[DataKind, str]:
    """Return the kind of two clouds (N, 3) and (M, 3), and the reason in words.

    Two clouds of a whole object extend equally along their principal axes; partial scans do not. Of those, scenes consist
    of planes with few directions, unlike the range images of a curved object.
    """
    try:
        pair = unit_pair(source, target)
    except NoSolution as reason:
        return DataKind.OBJECTS, f"the default, since {reason}"
    deviations = [np.sqrt(np.linalg.eigvalsh(c.T @ c / len(c)).clip(1e-12)) for c in (pair.source, pair.target)]
    ratio = float(np.abs(np.log(deviations[0] / deviations[1])).max())
    if ratio < WHOLE:
        return DataKind.OBJECTS, f"the extents of both clouds along their principal axes agree within {WHOLE:.0%}"
    planar = float(np.mean([parallel_share(c) for c in (pair.source, pair.target)]))
    share = f"{planar:.0%} of all pairs of normals are parallel"
    if planar >= PLANAR:
        return DataKind.SCANS, f"the extents of the clouds differ, and {share}, as in rooms"
    return DataKind.RANGE_IMAGES, f"the extents of the clouds differ, and only {share}, as on curved objects"


def parallel_share(cloud: Points) -> float:
    """Return the share of pairs of normals of a centred cloud (N, 3) at unit scale that are parallel."""
    n = normals(cloud, NORMAL_RADIUS, "none")[:: -(-len(cloud) // MOST_NORMALS)]
    return float(np.mean(np.abs(n @ n.T) > np.cos(np.deg2rad(PARALLEL_DEG))))
