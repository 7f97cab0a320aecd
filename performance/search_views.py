"""Measure the search over rotations on problems without the harness: its constants are chosen on training problems by this.

Prints mean RRE and RTE, recall at RMSE 0.2, recall up to the object's symmetry, the processor time of a call in all threads, and
the indices of the wrong poses.

    python -m performance.search_views "modelnet40[asymmetric=true]" "crop[keep=0.7]" 512 euler180_box 60 so3_grid train
    python -m performance.search_views shapes40 partial 1024 axis_angle 60 "so3_grid_camera[finalists=32]" train
"""

from __future__ import annotations

import sys
import time

import numpy as np

from bench.evaluation.metrics import rmse, rmse_symmetric, rre_deg, rte
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry

RIGHT = 0.2
"""RMSE below which a pose is right."""
SEEDS = {"train": 1, "test": 0}


def measures(T: np.ndarray, problem: Problem) -> tuple[float, float, float, float]:
    """Return RRE in degrees, RTE, RMSE, and RMSE up to the symmetry of the object, if it is known."""
    truth, points, symmetry = problem.T_target_source, problem.evaluation_points, problem.tags["symmetry"]
    error = float(rmse(T, truth, points))
    least = float(rmse_symmetric(T, truth, problem.source_pose, points, symmetry)) if symmetry else np.nan
    return float(rre_deg(T, truth)), float(rte(T, truth)), error, least


def main(dataset: str, condition: str, points: int, sampler: str, count: int, name: str, split: str) -> None:
    """Print the measures of a method on the first problems of a split."""
    data, method = DataRegistry.at(None, None).spec(dataset).build(), MethodRegistry().spec(name).build()
    method.setup("cpu", 0, "objects")
    values, used = [], 0.0
    for index in range(count):
        key = ProblemKey(dataset, condition, points, index, SEEDS[split], split=split, sampler=sampler)
        problem = make_problem(data, key)
        method.begin(index)
        begin = time.process_time()
        T = method.register(problem.source, problem.target)
        used += time.process_time() - begin
        values.append(measures(T, problem))
    rre, translation, error, least = np.array(values).T
    recall, symmetric = np.mean(error < RIGHT), np.mean(np.fmin(error, least) < RIGHT)
    print(f"{name}, {count} {split} problems of {dataset} {condition} {points}")
    print(f"  RRE {rre.mean():.2f}, RTE {translation.mean():.4f}, {used / count:.2f} s a call")
    print(f"  recall {recall:.3f}, up to known symmetries {symmetric:.3f}")
    print("  wrong:", *np.flatnonzero(error >= RIGHT))


if __name__ == "__main__":
    dataset, condition, points, sampler, count, name, split = sys.argv[1:]
    main(dataset, condition, int(points), sampler, int(count), name, split)
