"""Measure how well the components of `deepgmr_scans` correspond, and what limits it, on pairs of scans.

`python -m performance.scan_components PAIRS DATA_SET …`, such as `30 "rooms"`, below $BENCH_DATA. The pairs and points are
those of `performance.descriptor`. Prints, for each data set, the area under the ROC curve of the overlap weights, and for
each variant the mean share of the weight of pairs of components whose means are within 20 cm at the true pose, and the recall
(rotation within 15°, translation within 0.3 m) of three ways to solve: the method's; one closed form with the leading
eigenvector of the compatibilities, as in training; and one with the components' own weights alone. Variants: the trained
network; the network as initialised, which passes the descriptors on and has equal overlap weights; and the trained network
with true overlap weights. Lengths are nominal metres, which are about metres indoors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import mannwhitneyu

from datasets.base import Pair, PairSet
from datasets.poses import Matrix, angle_deg, inverse, move
from datasets.registry import DataRegistry
from methods.deepgmr_scans import DeepGMRScans
from methods.geometry.learned_matches import METRE
from methods.learned.described_scans import described_pair
from methods.nn.gmm import kabsch
from methods.nn.scan_gmr import Components, Features, best_of_sets, closed_form
from performance.descriptor import ANGLE, SHIFT, drawn

NEAR = 0.2
"""Distance of the means of two components that correspond."""
CERTAIN = 10.0
"""Logit of a true overlap weight."""


class Score(NamedTuple):
    """Share of the weight on right pairs of components, and success, of one pair and variant."""

    right: float
    success: float


def scores(method: DeepGMRScans, initialised: DeepGMRScans, pair: Pair) -> Iterator[tuple[str, Score | float]]:
    """Yield the area under the curve of the overlap weights, and the score of each variant."""
    clouds = [np.ascontiguousarray(cloud, dtype=np.float32) for cloud in (pair.source, pair.target)]
    *described, unit = described_pair(method.state["descriptor"], clouds[0], clouds[1])
    T = unit.to_unit(pair.T_target_source)
    T[:3, 3] /= METRE
    points, descriptors = ([torch.from_numpy(cloud[k])[None] for cloud in described] for k in (0, 1))
    distance = torch.cdist(torch.from_numpy(move(T, described[0].points.astype(np.float64))), points[1][0].double())
    overlaps = [distance.amin(dim=k) < method.state["net"].config.near for k in (1, 0)]
    features = method.state["net"](tuple(descriptors), tuple(points))
    yield "overlap weights, area under the curve", np.mean([*map(_area, features, overlaps)])
    true = [
        f._replace(overlap=torch.where(o, CERTAIN, -CERTAIN)[None]) for f, o in zip(features, overlaps, strict=True)
    ]
    initial = initialised.state["net"](tuple(descriptors), tuple(points))
    for name, solver, chosen in (
        ("trained", method, features),
        ("as initialised", initialised, initial),
        ("true overlap weights", method, (true[0], true[1])),
    ):
        components = solver.mixtures(chosen, (points[0], points[1]))
        tolerance = method.state["net"].config.tolerance
        yield f"{name}, sets", _score(components, best_of_sets(components, tolerance), T)
        yield f"{name}, one eigenvector", _score(components, closed_form(components, tolerance)[0], T)
        yield f"{name}, own weights", _score(components, _by_own_weights(components), T)


def _area(features: Features, overlap: torch.Tensor) -> float:
    """Return the probability that a point of the overlap has a higher weight than another point."""
    weight = features.overlap[0]
    if overlap.all() or not overlap.any():
        return float("nan")
    inside, outside = weight[overlap].numpy(), weight[~overlap].numpy()
    return float(mannwhitneyu(inside, outside).statistic / len(inside) / len(outside))


def _by_own_weights(components: Components) -> torch.Tensor:
    """Fit the pose by the components' own weights alone."""
    share = (components.weight / components.weight.sum()).double()
    return kabsch(components.source.double(), components.target.double(), share, share)[0]


def _score(components: Components, pose: torch.Tensor, T: Matrix) -> Score:
    source, target = (part[0].double().numpy() for part in (components.source, components.target))
    weight = components.weight[0].numpy()
    right = np.linalg.norm(move(T, source) - target, axis=1) < NEAR
    difference = inverse(T) @ pose.numpy()
    success = angle_deg(difference[:3, :3]) < ANGLE and np.linalg.norm(difference[:3, 3]) < SHIFT
    return Score(float(weight[right].sum() / weight.sum()), float(success))


def main() -> None:
    """Print a line per data set and variant."""
    methods = [DeepGMRScans(), DeepGMRScans()]
    for method in methods:
        method.setup("cpu", 0, "rooms")
    methods[1].state["net"] = DeepGMRScans.network().eval()
    torch.set_num_threads(1)
    for text in sys.argv[2:]:
        dataset = DataRegistry.at(None).spec(text).open()
        assert isinstance(dataset, PairSet)
        with torch.inference_mode():
            pairs = [dict(scores(*methods, pair)) for pair in drawn(dataset, int(sys.argv[1]))]
        for name in pairs[0]:
            values = np.nanmean(np.array([pair[name] for pair in pairs], dtype=np.float64), axis=0)
            shown = f"right {values[0]:.3f}, recall {values[1]:.2f}" if np.ndim(values) else f"{values:.3f}"
            print(f"{text}  {len(pairs)} pairs  {name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
