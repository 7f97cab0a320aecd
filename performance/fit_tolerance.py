"""Choose the tolerance of `bench.evaluation.fit` on training shapes: how much the fit of the ground truth varies by sampling.

Each shape is sampled twice at the same pose, and the ground truth is refined and its distance measured in both samples. The
tolerance is the 95 % quantile of the larger distance over the smaller, less 1: a pose that fits worse by less than
this differs from the truth by no more than another sample of the same surface at the same pose does.

Printed beside it: the share of symmetric poses (truth times a declared rotation, off by 10 degrees) and of wrong ones (off by
40 to 180 degrees, shapes without symmetry) within each tolerance. They check the choice and take no part in it.

    python -m performance.fit_tolerance 120
"""

from __future__ import annotations

import dataclasses
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


def ratio(problem: Problem, fit: Fit, g: np.ndarray) -> float:
    """Return the fit of the truth times a rotation g (4, 4) of the object, relative to that of the truth."""
    A = problem.source_pose
    return float(fit.ratios((problem.T_target_source @ A @ g @ inverse(A))[None], FAR)[0])


def spread(one: Fit, two: Fit) -> float:
    """Return the larger distance of the truth over the smaller, less 1, of two samples of a shape at the same pose."""
    return max(one.limit, two.limit) / min(one.limit, two.limit) - 1


def main(count: int) -> None:
    """Print the tolerance, and the shares for several."""
    data = DataRegistry.at(None, None).spec("shapes40").build()
    spreads, symmetric, wrong = [], [], []
    for index in range(count):
        key = ProblemKey("shapes40", "resampled", 512, index, 1, split="train")
        problem = make_problem(data, key)
        fit = Fit(problem)
        # the smallest noise that is another condition: the same object and poses, other samples
        other = make_problem(data, dataclasses.replace(key, condition="resampled[sigma=0.010000001]"))
        spreads.append(spread(fit, Fit(other)))
        draw = rng_of("tolerance", index)
        group = members(problem.tags["symmetry"], 7)
        if len(group) > 1:
            g = np.eye(4)
            g[:3, :3] = group[draw.integers(1, len(group))]
            symmetric.append(ratio(problem, fit, g @ turned(10, direction(draw))))
        else:
            wrong.append(ratio(problem, fit, turned(draw.uniform(40, 180), direction(draw))))
    quantiles = ", ".join(f"{q:.0%} {np.quantile(spreads, q):.4f}" for q in (0.5, 0.9, 0.95, 0.99))
    print(f"spread of the truth over {count} shapes: {quantiles}")
    print(f"{len(symmetric)} symmetric poses, {len(wrong)} wrong poses")
    for tolerance in TOLERANCES:
        shares = (float(np.mean(np.array(r) <= 1 + tolerance)) for r in (symmetric, wrong))
        print(f"tolerance {tolerance:.2f}: symmetric {next(shares):.3f}, wrong {next(shares):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
