"""Measure matches, recall and time of the learned descriptor beside FPFH on pairs of scans.

`OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m performance.descriptor PAIRS DATA_SET …`, such as
`20 "fragments[path=3dmatch,min_overlap=0.1]"`, below $BENCH_DATA; the variables are those of a method's process with one thread.
The pairs are drawn at random, the same in every run, and so are the 4 096 points of each cloud. Prints, for each data set and
range of overlap, the mean share of mutual matches within 10 cm at the true pose, the recall of SC²-PCR (rotation within 15°,
translation within 0.3 m), and the mean processor time of a pair in milliseconds, on one thread; then the median time by the
clock in which both clouds of a pair are described on two threads.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from common.kinds import DataKind
from datasets.base import Pair, PairSet
from datasets.poses import angle_deg, inverse, move
from datasets.registry import DataRegistry
from methods.core.base import Method, NoSolution
from methods.core.registry import MethodRegistry
from methods.geometry.features import FeatureMethod

METHODS = ("sc2_pcr", "sc2_pcr[features=learned]")
POINTS = 4096
"""Points of a cloud."""
RANGES = ((0.1, 0.3), (0.3, 1.01))
NEAR, ANGLE, SHIFT = 0.1, 15.0, 0.3
"""Limits of a right match in metres, and of a success in degrees and metres."""


class Score(NamedTuple):
    """Share of right matches, success, and processor time in milliseconds, of one pair."""

    inliers: float
    success: float
    milliseconds: float


def score(method: Method, pair: Pair) -> Score:
    """Score a method on features on a pair of scans in metres."""
    assert isinstance(method, FeatureMethod)
    method.begin(0)
    clouds = [np.ascontiguousarray(cloud, dtype=np.float32) for cloud in (pair.source, pair.target)]
    start = time.process_time()
    try:
        T = method.register(*clouds)
    except NoSolution:
        return Score(0.0, 0.0, 1000 * (time.process_time() - start))
    seconds = time.process_time() - start
    unit, settings = method.prepared(*clouds)
    p, q = method.matched_points(unit, settings, 10**6)
    p, q = p * unit.scale + unit.source_centre, q * unit.scale + unit.target_centre
    near = np.linalg.norm(move(pair.T_target_source, p) - q, axis=1) < NEAR
    difference = inverse(pair.T_target_source) @ T
    success = angle_deg(difference[:3, :3]) < ANGLE and np.linalg.norm(difference[:3, 3]) < SHIFT
    return Score(float(near.mean()), float(success), 1000 * seconds)


def drawn(dataset: PairSet, count: int) -> list[Pair]:
    """Draw pairs of a data set, all of it in order if it has no more than `count`, with `POINTS` points of each cloud."""
    whole = len(dataset)
    rows = np.arange(whole) if count >= whole else np.random.default_rng(7).permutation(whole)[:count]
    pairs = []
    for i, row in enumerate(rows):
        pair, draw = dataset.pair(int(row)), np.random.default_rng(i)
        source, target = (cloud[draw.permutation(len(cloud))[:POINTS]] for cloud in (pair.source, pair.target))
        pairs.append(replace(pair, source=source, target=target))
    return pairs


def describing_ms(method: FeatureMethod, pairs: list[Pair]) -> float:
    """Return the median time by the clock of the descriptors of both clouds, on two threads, in milliseconds."""
    times = []
    with patch.dict(os.environ, BENCH_THREADS="2"):
        for pair in pairs:
            method.begin(0)
            unit, _ = method.prepared(*(np.ascontiguousarray(c, dtype=np.float32) for c in (pair.source, pair.target)))
            start = time.perf_counter()
            method.described(unit)
            times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times))


def main() -> None:
    """Print a line per data set, range of overlap and method."""
    methods = {text: MethodRegistry().spec(text).build() for text in METHODS}
    for method in methods.values():
        method.adapt(DataKind.SCANS)
        method.setup("cpu", 0, "rooms")
    for text in sys.argv[2:]:
        dataset = DataRegistry.at(None).spec(text).open()
        assert isinstance(dataset, PairSet)
        pairs = drawn(dataset, int(sys.argv[1]))
        for low, high in RANGES:
            chosen = [pair for pair in pairs if low <= pair.overlap < high]
            if not chosen:
                continue
            for name, method in methods.items():
                scores = np.array([score(method, pair) for pair in chosen])
                inliers, recall, milliseconds = scores.mean(axis=0)
                print(
                    f"{text}  overlap {low:g} to {min(high, 1):g}  {name}: {len(chosen)} pairs, inliers {inliers:.3f}, "
                    f"recall {recall:.2f}, {milliseconds:.0f} ms",
                    flush=True,
                )
        learned = methods[METHODS[1]]
        assert isinstance(learned, FeatureMethod)
        print(f"{text}  both clouds described on two threads: {describing_ms(learned, pairs):.0f} ms", flush=True)


if __name__ == "__main__":
    main()
