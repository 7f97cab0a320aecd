"""Separate the causes of DeepGMR's error on noisy clouds: noise in the features, or noise in the points of the mixtures.

    python -m performance.feature_noise [PROBLEMS [DATASET FOLDER]]

Noise as in `noisy` is added to both clouds of clean problems. The network's assignments are then computed from noisy or
clean clouds, and the mixtures from noisy or clean points; the order of the points is the same. Mean and median RMSE, in
float32.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from numpy.typing import NDArray

from bench.evaluation.metrics import rmse
from common.keys import rng
from datasets.conditions import condition
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry
from methods.deepgmr import DeepGMR
from methods.nn.gmm import align, mixture

METHODS = ("deepgmr", "deepgmr_k64")
CASES = {"both noisy": (True, True), "noisy features": (True, False), "noisy points": (False, True)}
POINTS = 1024


def clouds(problem: Problem, index: int) -> dict[bool, list[torch.Tensor]]:
    """Return source and target (1, N, 3) float32 of a clean problem, with and without noise."""
    noisy, draws = condition("noisy"), rng("feature noise", index)
    clean = [problem.source, problem.target]
    both = {True: [noisy.disturb(cloud.copy(), draws) for cloud in clean], False: clean}
    return {key: [torch.from_numpy(np.asarray(c, dtype=np.float32))[None] for c in pair] for key, pair in both.items()}


def errors(method: DeepGMR, drawn: list[Problem]) -> dict[str, NDArray[np.float64]]:
    """Return the RMSE of each case on the same problems."""
    net, rmse_of_case = method.state["net"], {case: np.empty(len(drawn)) for case in CASES}
    for i, problem in enumerate(drawn):
        pairs = clouds(problem, i)
        with torch.inference_mode():
            gamma = {key: [net(net.features(cloud)).double() for cloud in pair] for key, pair in pairs.items()}
            for case, (features, points) in CASES.items():
                mixtures = [mixture(g, c.double()) for g, c in zip(gamma[features], pairs[points], strict=True)]
                T = align(*mixtures, net.config.centring)[0].numpy()
                rmse_of_case[case][i] = rmse(T, problem.T_target_source, problem.evaluation_points)
    return rmse_of_case


def main(count: int = 150, dataset: str = "shapes40", data: str | None = None) -> None:
    """Print one row per method."""
    source = DataRegistry.at(data).spec(dataset).objects()
    drawn = [make_problem(source, ProblemKey(dataset, "clean", POINTS, i)) for i in range(count)]
    print(f"| method | {' | '.join(CASES)} |\n|---|{'---|' * len(CASES)}")
    for name in METHODS:
        method = MethodRegistry().spec(f"{name}[precision=float32]").build()
        assert isinstance(method, DeepGMR)
        method.begin(0)
        method.setup("cpu", 0, dataset)
        cells = [f"{values.mean():.4f} ({np.median(values):.4f})" for values in errors(method, drawn).values()]
        print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*(int(a) if i == 0 else a for i, a in enumerate(sys.argv[1:])))  # type: ignore[arg-type]
