"""Fill the trial columns of estimated symmetries, for objects whose data set declares none; the cache folder keeps estimates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from bench.evaluation.loader import RunData
from bench.evaluation.protocols import is_real
from bench.report.replay import ProblemReplay, poses_of
from datasets import cache
from datasets.poses import inverse, move
from datasets.problems import problem_set_sha256
from datasets.symmetry_estimate import MIN_POINTS, estimate

if TYPE_CHECKING:
    import pandas as pd

MOST_OBJECTS = 400
"""Number of objects of a data set, the first ones, whose symmetry is estimated."""
_VERSION = 1
"""Part of the key of the cache, increased when the estimate changes."""
CORRECT, CORRECT_1024 = 0.93, 0.87
"""Shares of estimated groups that are correct with 2048 and with 1024 points, on shapes of known symmetry, by
`python -m performance.symmetry_estimate 3 2048`, see docs/symmetry.md."""
NOTE = (
    f"Estimated symmetries are those of up to 2048 points of the object. On shapes of known symmetry {CORRECT:.0%} of the groups "
    f"are correct ({CORRECT_1024:.0%} with 1024 points) and most others too large, so that this recall is rather too high."
)


def add_estimated_symmetry(loaded: RunData, replay: ProblemReplay, trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials (of `aggregate.add_success`) with `symmetry_estimated` and `rmse_symmetric_estimated`.

    Both are missing for skipped trials, real pairs, declared symmetries, objects of fewer than `MIN_POINTS` points, and where
    the problem's clouds are unavailable; the error of a failure is infinite.
    """
    import pandas as pd

    names, errors = np.full(len(trials), "", dtype=object), np.full(len(trials), np.nan)
    ids, answered = trials["problem"].cat, (trials["status"] == "ok").to_numpy()
    place = pd.Index(loaded.problems["problem"]).get_indexer(ids.categories)[ids.codes]
    for group, frame, rows in _estimated_objects(loaded, replay, trials):
        names[rows], errors[rows] = group, np.inf
        for part in metrics.chunks(len(rows)):
            own = rows[part][answered[rows[part]]]
            scenes = loaded.scenes.take(place[own])
            A = scenes.source_pose @ frame
            poses = poses_of(loaded, trials.iloc[own])
            errors[own] = metrics.rmse_symmetric_of_moments(poses, scenes.truth, A, scenes.moments, group)
    return trials.assign(symmetry_estimated=names, rmse_symmetric_estimated=errors)


def _estimated_objects(
    loaded: RunData, replay: ProblemReplay, trials: pd.DataFrame
) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.intp]]]:
    """Yield for each object with an estimate its group, the group's frame (4, 4), and the positions (n,) of its trials."""
    real = trials["condition"].map(is_real).to_numpy(dtype=bool)
    unknown = ~real & (trials["status"] != "skipped").to_numpy() & trials["symmetry"].isna().to_numpy()
    work = trials.loc[unknown, ["dataset", "object"]].assign(
        code=trials["problem"].cat.codes[unknown], row=np.flatnonzero(unknown)
    )
    ids = trials["problem"].cat.categories  # in alphabetical order
    for _, rows in work.groupby("dataset", sort=True, observed=True):
        objects = rows.groupby("object", sort=True, observed=True)
        first = objects["code"].min().sort_values(kind="stable").iloc[:MOST_OBJECTS]
        groups, frames = _estimates(loaded, replay, [str(ids[code]) for code in first])
        for name, group, frame in zip(first.index, groups, frames, strict=True):
            if group:
                yield str(group), frame, objects.get_group(name)["row"].to_numpy(np.intp)


def _estimates(
    loaded: RunData, replay: ProblemReplay, problems: list[str]
) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Return the groups (n,) of the objects of problems, "" where unknown, and their frames (n, 4, 4)."""
    if replay.problem(problems[0]) is None:
        return np.full(len(problems), ""), np.tile(np.eye(4), (len(problems), 1, 1))
    digests = dict(zip(loaded.problems["problem"].astype(str), loaded.problems["digest"], strict=True))
    key = f"estimated symmetries version {_VERSION} {problem_set_sha256(digests[name] for name in problems)}"

    def compute() -> dict[str, NDArray[Any]]:
        estimates = [_estimate(replay, name) for name in problems]
        return {"groups": np.array([g for g, _ in estimates]), "frames": np.array([frame for _, frame in estimates])}

    stored = cache.load_or_compute(key, (), compute)
    return stored["groups"], stored["frames"]


def _estimate(replay: ProblemReplay, problem: str) -> tuple[str, NDArray[np.float64]]:
    """Return the group of a problem's object, "" where it is unknown, and its frame (4, 4) in the object's frame."""
    clean = replay.clean(problem)
    if clean is None or len(clean.source) < MIN_POINTS:
        return "", np.eye(4)
    estimated = estimate(move(inverse(clean.source_pose), clean.source))
    return estimated.name, estimated.frame
