"""Evaluate FGR and RANSAC with the settings for scans of 2020, and the gain of each step from there on objects.

    python -m performance.scan_settings [PROBLEMS [DATASET [DATA]]]

Recall and mean RMSE per condition of Open3D's FGR, and of its RANSAC with 10 000 iterations followed by our ICP. The
first row has the proportions of Open3D's tutorial, with its voxel of 0.05: unoriented normals of 0.1, and features of
0.25. For RANSAC it draws quadruples of one-way matches, as Open3D did up to version 0.11: its default was 4, and it had
no mutual filter. Each row changes one more setting, until normals and neighbourhoods are ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.evaluation import metrics
from bench.planning.config import RECALL_THRESHOLD
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.base import NoSolution, Pose
from methods.core.registry import MethodRegistry
from methods.geometry.features import UnitPair, unit_pair
from methods.geometry.open3d_bridge import open3d
from performance.adapters import fpfh

CONDITIONS = ("clean", "noisy", "unseen")
VOXEL, ITERATIONS, CONFIDENCE, EDGES = 0.05, 10_000, 0.999, 0.9


@dataclass(frozen=True)
class Settings:
    """The settings that are varied; lengths are fractions of the pair's scale."""

    normal_radius: float = 2 * VOXEL
    feature_radius: float = 5 * VOXEL
    feature_neighbours: int = 100
    orientation: str = "none"
    sample: int = 4
    mutual: bool = False


def ladder() -> Iterator[tuple[str, Settings]]:
    """Yield the settings from the tutorial's to ours, one step at a time, each with its name."""
    now = Settings()
    yield "as for scans", now
    for name, change in (
        ("triples", {"sample": 3}),
        ("mutual matches", {"mutual": True}),
        ("normals outward", {"orientation": "outward"}),
        ("radii 0.2 and 0.5", {"normal_radius": 0.2, "feature_radius": 0.5}),
    ):
        now = replace(now, **change)
        yield f"+ {name}", now


def fgr(pair: UnitPair, s: Settings) -> Any:
    """Run Open3D's FGR on features."""
    reg = open3d().pipelines.registration
    clouds, features = fpfh(s, pair)
    option = reg.FastGlobalRegistrationOption(maximum_correspondence_distance=VOXEL / 2)
    return reg.registration_fgr_based_on_feature_matching(*clouds, *features, option).transformation


def ransac(pair: UnitPair, s: Settings) -> Any:
    """Run Open3D's RANSAC on features."""
    reg, distance = open3d().pipelines.registration, 1.5 * VOXEL
    clouds, features = fpfh(s, pair)
    checks = [reg.CorrespondenceCheckerBasedOnEdgeLength(EDGES), reg.CorrespondenceCheckerBasedOnDistance(distance)]
    rest = reg.TransformationEstimationPointToPoint(False), s.sample, checks
    stop = reg.RANSACConvergenceCriteria(ITERATIONS, CONFIDENCE)
    return reg.registration_ransac_based_on_feature_matching(
        *clouds, *features, s.mutual, distance, *rest, stop
    ).transformation


def refined(problem: Problem, T: Pose) -> Pose:
    """Refine a pose by our ICP."""
    icp = MethodRegistry().spec("icp").build()
    icp.begin(0)
    return icp.register(problem.source, problem.target, T)  # type: ignore[call-arg]


def pose_rmse(problem: Problem, solver: Callable[[UnitPair, Settings], Any], s: Settings) -> float:
    """Return the RMSE of a solver's pose, or of no motion if it has none."""
    pair = unit_pair(problem.source, problem.target)
    open3d().utility.random.seed(problem.key.index)
    try:
        T = pair.to_original(solver(pair, s))
        T = refined(problem, T) if solver is ransac else T
    except NoSolution:
        T = np.eye(4)
    return float(metrics.rmse(T, problem.T_target_source, problem.evaluation_points))


def main(problems: int = 40, dataset: str = "shapes40", data: str | None = None) -> None:
    """Print the table."""
    source = DataRegistry.at(data).spec(dataset).objects()
    drawn = {c: [make_problem(source, ProblemKey(dataset, c, 1024, i)) for i in range(problems)] for c in CONDITIONS}
    print(f"| method | settings | {' | '.join(CONDITIONS)} |\n|---|---|{'---|' * len(CONDITIONS)}")
    for name, solver in (("FGR", fgr), ("RANSAC10K+ICP", ransac)):
        for step, s in ladder():
            if solver is fgr and step in ("+ triples", "+ mutual matches"):
                continue  # FGR matches and tests triples itself
            cells = []
            for some in drawn.values():
                errors = np.array([pose_rmse(p, solver, s) for p in some])
                cells.append(f"{(errors < RECALL_THRESHOLD).mean():.2f}, {errors.mean():.2g}")
            print(f"| {name} | {step} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*(int(a) if i == 0 else a for i, a in enumerate(sys.argv[1:])))  # type: ignore[arg-type]
