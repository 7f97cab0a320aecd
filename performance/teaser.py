"""Measure where TEASER++'s time goes, by the kind of FPFH matches that it receives, on one pair of 1 000 points.

    python -m performance.teaser

The kinds are mutual nearest matches, matches from source to target, and matches of both directions together; the exact
clique search has no time limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.problems import ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry
from methods.geometry.features import FeatureMethod, UnitPair, unit_pair
from methods.geometry.open3d_bridge import open3d
from methods.native import teaser
from performance.adapters import fpfh

POINTS, PATIENCE_S = 1000, 600.0


def choices(method: FeatureMethod, pair: UnitPair) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield each kind of matches with its name: index pairs (K, 2)."""
    match = open3d().pipelines.registration.correspondences_from_features
    features = fpfh(method, pair)[1]
    there, back = (np.asarray(match(*some, False, 0.0)) for some in (features, features[::-1]))
    yield "mutual", np.asarray(match(*features, True, 0.0))
    yield "source to target", there
    yield "both directions", np.concatenate([there, back[:, ::-1]])


def main() -> None:
    """Print the table."""
    method = MethodRegistry().spec("teaser").build()
    assert isinstance(method, FeatureMethod)
    print("| condition | matches | how many | clique | s |\n|---|---|---:|---:|---:|")
    for condition in ("clean", "noisy"):
        problem = make_problem(
            DataRegistry.at().spec("shapes40").objects(), ProblemKey("shapes40", condition, POINTS, 3)
        )
        pair = unit_pair(problem.source, problem.target)
        for name, index_pairs in choices(method, pair):
            ends = pair.source[index_pairs[:, 0]], pair.target[index_pairs[:, 1]]
            start = time.perf_counter()
            clique = teaser.solve(*ends, method.noise_bound, PATIENCE_S)[1]
            spent = time.perf_counter() - start
            print(f"| {condition} | {name} | {len(index_pairs)} | {clique} | {spent:.2f} |", flush=True)


if __name__ == "__main__":
    main()
