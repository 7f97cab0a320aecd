"""Choose the tolerance of `bench.evaluation.fit` on training shapes of shapes40, whose symmetries are declared.

Prints, for several tolerances, the share of symmetric poses (truth times a declared rotation, off by 10 degrees) that count
as fitting as well, and the share of poses off by a rotation of 40 to 180 degrees on shapes without symmetry that do. The
choice is the smallest tolerance at which 99 % of the symmetric poses count.

    python -m performance.fit_tolerance 120
"""

from __future__ import annotations

import sys

import numpy as np

from bench.evaluation.fit import FAR, Fit
from common.keys import rng as rng_of
from common.rigid import inverse
from datasets.poses import axis_rotation, direction
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from datasets.symmetry import members

TOLERANCES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)


def turned(angle_deg: float, axis: np.ndarray) -> np.ndarray:
    """Return a rotation as a pose (4, 4)."""
    T = np.eye(4)
    T[:3, :3] = axis_rotation(axis, angle_deg)
    return T


def ratio(problem: Problem, g: np.ndarray) -> float:
    """Return the fit of the truth times a rotation g (4, 4) of the object, relative to that of the truth."""
    A = problem.source_pose
    return Fit(problem).ratio(problem.T_target_source @ A @ g @ inverse(A), FAR)


def main(count: int) -> None:
    """Print the shares for each tolerance."""
    data = DataRegistry.at(None, None).spec("shapes40").build()
    symmetric, wrong = [], []
    for index in range(count):
        problem = make_problem(data, ProblemKey("shapes40", "resampled", 512, index, 1, split="train"))
        draw = rng_of("tolerance", index)
        group = members(problem.tags["symmetry"], 7)
        if len(group) > 1:
            g = np.eye(4)
            g[:3, :3] = group[draw.integers(1, len(group))]
            symmetric.append(ratio(problem, g @ turned(10, direction(draw))))
        else:
            wrong.append(ratio(problem, turned(draw.uniform(40, 180), direction(draw))))
    print(f"{len(symmetric)} symmetric poses, {len(wrong)} wrong poses")
    for tolerance in TOLERANCES:
        shares = (float(np.mean(np.array(r) <= 1 + tolerance)) for r in (symmetric, wrong))
        print(f"tolerance {tolerance:.2f}: symmetric {next(shares):.3f}, wrong {next(shares):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
