"""Draw the problems of a finished run again, for pictures and for errors that need the clouds. Poses are never recomputed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.loader import POSE_COLUMNS, RunData
from common.errors import InputError
from datasets import registry
from datasets.base import DataSet, NotEnoughPoints, PairSet
from datasets.conditions import condition
from datasets.problems import Problem, ProblemKey, make_problem

if TYPE_CHECKING:
    import pandas as pd

CLEAN_POINTS = 2048
"""Points of a clean cloud that a Chamfer distance is taken to, where the object has so many."""


@dataclass
class ProblemReplay:
    """Problems by the id they have in a run.

    Attributes:
        data: the folder that holds one folder a data set.
        plugins: a folder with data sets of one's own.
        missing: why problems of a data set could not be drawn, by its name; filled while drawing.
    """

    loaded: RunData
    data: Path
    plugins: Path | None = None
    missing: dict[str, str] = dataclasses.field(default_factory=dict)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {str(p): i for i, p in enumerate(self.loaded.problems["problem"])}

    def key(self, problem: str) -> ProblemKey:
        """The key of a problem of the run."""
        row = self.loaded.problems.iloc[self._rows[problem]]
        *bounds, index = problem.removeprefix(f"{row['dataset']}/{row['condition']}/{row['points']}/").split("/")
        low, high = map(float, bounds[0].split("-")) if bounds else (0.0, 180.0)
        sampler = "none" if condition(row["condition"]).real else row["sampler"]
        where = row["dataset"], row["condition"], int(row["points"]), int(index), int(row["seed"])
        return ProblemKey(*where, sampler=sampler, angles=(low, high))

    def problem(self, problem: str) -> Problem | None:
        """The problem, with the very clouds of the run; None if they can't be had here, and then `missing` says why."""
        key = self.key(problem)
        found = self._made(key)
        digest = self.loaded.problems["digest"].iloc[self._rows[problem]]
        if found is not None and found.sha256() != digest:
            self.missing[key.dataset] = "the data here give other clouds than the run had"
            return None
        return found

    def _made(self, key: ProblemKey) -> Problem | None:
        if key.dataset in self._lost:
            return None
        try:
            return make_problem(self.opened(key.dataset), key)
        except InputError as error:  # then no other problem of it will do better
            self._lost.add(key.dataset)
            self.missing[key.dataset] = str(error)
        except NotEnoughPoints as error:
            self.missing[key.dataset] = str(error)
        return None

    @cached_property
    def _lost(self) -> set[str]:
        return set()

    def opened(self, name: str) -> DataSet | PairSet:
        """A data set of the run by its name; it is opened once."""
        if name not in self._sets:
            self._sets[name] = registry.open_data(name, self.data, self.plugins)
        return self._sets[name]

    @cached_property
    def _sets(self) -> dict[str, DataSet | PairSet]:
        return {}

    def licence(self, name: str) -> str:
        """What may be done with the points of a data set."""
        try:
            return self.opened(name).licence
        except InputError:
            return "unknown"

    def clean(self, problem: str) -> Problem | None:
        """The object of a problem without noise and whole, at the same two poses; None for scans, which have none."""
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
        return self._made(dataclasses.replace(key, condition=noiseless, points=min(CLEAN_POINTS, most or CLEAN_POINTS)))


def poses_of(loaded: RunData, trials: pd.DataFrame) -> NDArray[np.float64]:
    """The poses (B, 4, 4) of trials (all of a run, or rows of them by their index), NaN where there is none."""
    accuracy = np.flatnonzero(loaded.outcomes["phase"] == "accuracy")
    poses = loaded.outcomes[POSE_COLUMNS].to_numpy()[accuracy[trials.index.to_numpy()]]
    poses[(trials["status"] != "ok").to_numpy()] = np.nan
    return poses.reshape(-1, 4, 4)


def subsample(cloud: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """Every so-manieth point, `most` at most."""
    rows = np.unique(np.linspace(0, len(cloud) - 1, min(most, len(cloud))).astype(int))
    return cloud[rows]


def chamfer(loaded: RunData, replay: ProblemReplay, trials: pd.DataFrame) -> NDArray[np.float64]:
    """RPMNet's modified Chamfer distance of each trial, in squared units.

    CD = mean_x min_y ‖x - y‖² + mean_y min_x ‖y - x‖² (Yew and Lee 2020, Eq. 12), the moved source against
    the clean target, and the target moved back against the clean source. Infinite for a failure, NaN where the clean clouds
    cannot be had.
    """
    from scipy.spatial import cKDTree

    found = np.where(trials["status"] == "skipped", np.nan, np.inf)
    poses = poses_of(loaded, trials)
    rows = np.flatnonzero((trials["status"] != "skipped").to_numpy())
    problems = trials["problem"].astype(str).to_numpy()
    for name in dict.fromkeys(problems[rows]):
        mine = rows[problems[rows] == name]
        noisy, clean = replay.problem(name), replay.clean(name)
        if noisy is None or clean is None:
            found[mine] = np.nan
            continue
        trees = cKDTree(clean.target), cKDTree(clean.source)
        for row in mine:
            pose = poses[row]
            if np.isfinite(pose).all():
                R, t = pose[:3, :3], pose[:3, 3]
                there = np.asarray(trees[0].query(noisy.source @ R.T + t)[0])
                back = np.asarray(trees[1].query((noisy.target - t) @ R)[0])
                found[row] = (there**2).mean() + (back**2).mean()
    return found
