"""Regenerate the problems of a finished run, for pictures and for errors that need the clouds; poses are not recomputed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.loader import POSE_COLUMNS, RunData
from bench.evaluation.metrics import rmse_of_moments
from bench.planning.catalog import Catalog
from bench.storage.seeds import split_seed
from common.errors import InputError
from common.moments import moments
from datasets.base import DataSet, NotEnoughPoints, PairSet
from datasets.conditions import condition
from datasets.problems import Problem, ProblemKey, make_problem

if TYPE_CHECKING:
    import pandas as pd

ALL_POINTS = 2**62
"""Number of points above that of every scan."""
CLEAN_POINTS = 2048
"""Points of the clean clouds of the Chamfer distance, if the object has that many."""


@dataclass
class ProblemReplay:
    """Problems of a run by id.

    Attributes:
        catalog: methods and data sets that can be named here.
        missing: by data set, why its problems could not be generated; filled on use.
    """

    loaded: RunData
    catalog: Catalog
    missing: dict[str, str] = dataclasses.field(default_factory=dict)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {str(p): i for i, p in enumerate(self.loaded.problems["problem"])}

    def key(self, problem: str) -> ProblemKey:
        """Return the key of a problem of the run."""
        row = self.loaded.problems.iloc[self._rows[problem]]
        alone, seed = split_seed(problem, int(row["seed"]))
        *bounds, index = alone.removeprefix(f"{row['dataset']}/{row['condition']}/{row['points']}/").split("/")
        low, high = map(float, bounds[0].split("-")) if bounds else (0.0, 180.0)
        sampler = "none" if condition(row["condition"]).real else row["sampler"]
        where = row["dataset"], row["condition"], int(row["points"]), int(index), seed
        return ProblemKey(*where, sampler=sampler, angles=(low, high))

    def problem(self, problem: str) -> Problem | None:
        """Return a problem with the clouds of the run; None if they are unavailable, with the reason in `missing`."""
        key = self.key(problem)
        problem_again = self.generate(problem)
        digest = self.loaded.problems["digest"].iloc[self._rows[problem]]
        if problem_again is not None and problem_again.sha256() != digest:
            self.missing[key.dataset] = "the data on this machine give other clouds than those of the run"
            return None
        return problem_again

    def generate(self, problem: str) -> Problem | None:
        """Return what the key of a problem gives here, be it equal or not; None if that is unavailable."""
        return self._generate(self.key(problem))

    def _generate(self, key: ProblemKey) -> Problem | None:
        if key.dataset in self._unavailable:
            return None
        try:
            return make_problem(self.opened(key.dataset), key)
        except InputError as error:  # holds for every problem of the data set
            self._unavailable.add(key.dataset)
            self.missing[key.dataset] = str(error)
        except NotEnoughPoints as error:
            self.missing[key.dataset] = str(error)
        return None

    @cached_property
    def _unavailable(self) -> set[str]:
        return set()

    def opened(self, name: str) -> DataSet | PairSet:
        """Open a data set of the run by name, once."""
        return self.catalog.data.spec(name).open()

    def licence(self, name: str) -> str:
        """Return the licence of a data set."""
        try:
            return self.opened(name).licence
        except InputError:
            return "unknown"

    def clean(self, problem: str) -> Problem | None:
        """Return the complete, noise-free object of a problem at the same poses; None for scans."""
        key = self.key(problem)
        if condition(key.condition).real:
            self.missing[key.dataset] = "real scans have no clean clouds"
            return None
        noiseless = f"{key.condition.split('[')[0]}[sigma=0]" if condition(key.condition).unseen_half else "clean"
        try:
            dataset = self.opened(key.dataset)
            most = dataset.fixed_points if isinstance(dataset, DataSet) else None
        except InputError as error:
            self.missing[key.dataset] = str(error)
            return None
        return self._generate(
            dataclasses.replace(key, condition=noiseless, points=min(CLEAN_POINTS, most or CLEAN_POINTS))
        )

    def complete(self, problem: str) -> Problem | None:
        """Return the pair of a problem with all points of its scans; None for objects."""
        key = self.key(problem)
        if not condition(key.condition).real:
            self.missing[key.dataset] = "objects have no true correspondences; only pairs of scans have"
            return None
        return self._generate(dataclasses.replace(key, points=ALL_POINTS))

    def near(self, problem: str) -> float | None:
        """Return the distance up to which two points of a problem's pair correspond; None if its data set has none."""
        name = self.key(problem).dataset
        distance = getattr(self.opened(name), "near", None)
        if distance is None:
            self.missing[name] = "the data set has no parameter near, the distance of corresponding points"
        return distance


def poses_of(loaded: RunData, trials: pd.DataFrame) -> NDArray[np.float64]:
    """Return the poses (B, 4, 4) of trials (rows of `aggregate.trials`, by index), NaN where missing."""
    accuracy = np.flatnonzero(loaded.outcomes["phase"] == "accuracy")
    rows = loaded.outcomes[POSE_COLUMNS].take(accuracy[trials.index.to_numpy()])
    poses = np.array(rows, dtype=np.float64, order="C")
    poses[(trials["status"] != "ok").to_numpy()] = np.nan
    return poses.reshape(-1, 4, 4)


def label_of(name: str, problem: Problem) -> str:
    """Return category and number of a problem by its id, in two lines."""
    return "\n".join(" ".join(text.split()) for text in (problem.tags["category"], name.rsplit("/", 1)[-1]))


def upright(problem: Problem) -> NDArray[np.float64]:
    """Return the motion (4, 4) from the target's frame to one in which the y axis of the object points up.

    Objects have their z axis up before they are posed; for scans, whose up is not known, it is the identity.
    """
    if condition(problem.key.condition).real:
        return np.eye(4)
    z_to_y = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    return np.asarray(z_to_y @ np.linalg.inv(problem.T_target_source @ problem.source_pose))


def subsample(cloud: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Subsample evenly to at most `most` points."""
    rows = np.unique(np.linspace(0, len(cloud) - 1, min(most, len(cloud))).astype(int))
    return cloud[rows]


def chamfer(loaded: RunData, replay: ProblemReplay, trials: pd.DataFrame) -> NDArray[np.float64]:
    """Compute RPMNet's modified Chamfer distance of each trial (n,), in squared units.

    CD = mean_x min_y ‖x - y‖² + mean_y min_x ‖y - x‖² (Yew and Lee 2020, Eq. 12) between the moved source and the clean
    target, and between the target moved back and the clean source. Infinite for a failure, NaN without clean clouds.
    """
    from scipy.spatial import cKDTree

    distances = np.where(trials["status"] == "skipped", np.nan, np.inf)
    poses = poses_of(loaded, trials)
    rows = np.flatnonzero((trials["status"] != "skipped").to_numpy())
    problems = trials["problem"].astype(str).to_numpy()
    for name in dict.fromkeys(problems[rows]):
        own = rows[problems[rows] == name]
        noisy, clean = replay.problem(name), replay.clean(name)
        if noisy is None or clean is None:
            distances[own] = np.nan
            continue
        trees = cKDTree(clean.target), cKDTree(clean.source)
        for row in own:
            pose = poses[row]
            if np.isfinite(pose).all():
                R, t = pose[:3, :3], pose[:3, 3]
                forward = np.asarray(trees[0].query(noisy.source @ R.T + t)[0])
                backward = np.asarray(trees[1].query((noisy.target - t) @ R)[0])
                distances[row] = (forward**2).mean() + (backward**2).mean()
    return distances


def correspondence_rmse(loaded: RunData, replay: ProblemReplay, trials: pd.DataFrame) -> NDArray[np.float64]:
    """Compute the RMSE of each trial (n,) over the true correspondences of its pair, as Zhou, Park and Koltun 2016.

    The correspondences are the points of the complete source whose nearest target point under the ground truth is within
    `near` of the data set. Infinite for a failure, NaN if the clouds are unavailable or no point corresponds.
    """
    from scipy.spatial import cKDTree

    errors = np.where(trials["status"] == "skipped", np.nan, np.inf)
    poses = poses_of(loaded, trials)
    rows = np.flatnonzero((trials["status"] != "skipped").to_numpy())
    problems = trials["problem"].astype(str).to_numpy()
    for name in dict.fromkeys(problems[rows]):
        own = rows[problems[rows] == name]
        pair = replay.complete(name)
        near = None if pair is None else replay.near(name)
        matched = np.zeros((0, 3), dtype=np.float32)
        if pair is not None and near is not None:
            R, t = pair.T_target_source[:3, :3], pair.T_target_source[:3, 3]
            gaps, _ = cKDTree(pair.target).query(pair.source @ R.T + t, distance_upper_bound=near)
            matched = pair.source[np.isfinite(gaps)]
        if pair is None or not len(matched):
            errors[own] = np.nan
            continue
        known = own[np.isfinite(poses[own]).all(axis=(1, 2))]
        errors[known] = rmse_of_moments(poses[known], pair.T_target_source, moments(matched))
    return errors
