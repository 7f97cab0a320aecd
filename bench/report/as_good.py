"""Fill the trial columns `as_good` and `rival_ratio`, which need the clouds; results are kept in the cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import fit
from bench.evaluation.conventions import DEFAULT, Convention
from bench.evaluation.fit import Fit
from bench.evaluation.loader import RunData
from bench.report.replay import ProblemReplay, poses_of
from datasets import cache
from datasets.problems import problem_set_sha256

if TYPE_CHECKING:
    import pandas as pd

CEILING_PROBLEMS = 400
"""Number of problems of a group, the first ones, that are searched for its ceiling."""

_SETTINGS = (
    fit.TOLERANCE,
    fit.FAR,
    fit.STEPS,
    fit.KEEP,
    fit.MAX_POINTS,
    *(fit.ROTATIONS, fit.CANDIDATES, fit.SEPARATION, fit.CELLS, fit.HALF_WIDTH, fit.CAP, fit.SEARCH_POINTS),
    *(fit.FIRST_POINTS, fit.FIRST_STEPS, fit.FINALISTS),
)


def add_fits(
    loaded: RunData,
    replay: ProblemReplay,
    trials: pd.DataFrame,
    criterion: Convention,
    begin: Callable[[], None] = lambda: None,
) -> pd.DataFrame:
    """Return trials (of `aggregate.add_success`) with `as_good` and `rival_ratio`.

    A right pose is as good, and a failure without a pose is not. Other values are NaN where the problem's clouds are
    unavailable, and all values of `as_good` after the first `fit.COMPARED` problems of a group. `rival_ratio` is computed for
    the default limit of success. `begin` is called before each part that is not in the cache, which can take seconds.
    """
    ids, code = trials["problem"].cat.categories, trials["problem"].cat.codes.to_numpy()
    far = dict(criterion.limits).get("rmse", fit.FAR)
    is_wrong = ((trials["success"] == 0) & (trials["status"] == "ok")).to_numpy()
    as_good = np.where(is_wrong, np.nan, trials["success"])
    ratios = np.full(len(trials), np.nan)
    digests = dict(zip(loaded.problems["problem"].astype(str), loaded.problems["digest"], strict=True))
    evaluated = trials.loc[trials["status"] != "skipped", ["dataset", "condition", "points", "problem"]]
    for _, rows in evaluated.groupby(["dataset", "condition", "points"], observed=True, sort=True):
        own = np.unique(rows["problem"].cat.codes)
        as_good[np.isin(code, own[fit.COMPARED :])] = np.nan
        compared = np.flatnonzero(is_wrong & np.isin(code, own[: fit.COMPARED]))
        fits = _Fits(replay, digests, begin)
        names = ids[code[compared]].astype(str).to_numpy(dtype=object)
        as_good[compared] = fits.as_good(names, poses_of(loaded, trials.iloc[compared]), far)
        if criterion.limits == DEFAULT.limits:
            searched = own[:CEILING_PROBLEMS]
            inside = np.isin(code, searched)
            lowest = fits.rivals(list(ids[searched]))
            ratios[inside] = lowest[np.searchsorted(searched, code[inside])]
    return trials.assign(as_good=as_good, rival_ratio=ratios)


class _Fits:
    """Fits of the problems of one group; results are cached by problem digests and poses."""

    def __init__(self, replay: ProblemReplay, digests: dict[str, bytes], begin: Callable[[], None]) -> None:
        self.replay, self.digests, self.begin = replay, digests, begin

    def as_good(self, names: NDArray[np.object_], poses: NDArray[np.float64], far: float) -> NDArray[np.float64]:
        """Return for poses (n, 4, 4) of the named problems (n,) whether they are as good (1 or 0); NaN without clouds."""
        import pandas as pd

        def compute() -> NDArray[np.float64]:
            values = np.full(len(names), np.nan)
            for name, rows in pd.Series(np.arange(len(names))).groupby(names, sort=False):
                own = self._fit(str(name))
                if own is not None:
                    values[rows] = fit.as_good(own, poses[rows], far)
            return values

        content = hashlib.sha256(np.ascontiguousarray(poses).tobytes()).hexdigest()
        return self._cached(f"as good {far!r} {content}", names, compute)

    def rivals(self, names: list[str]) -> NDArray[np.float64]:
        """Return for problems (n,) the distance of the best other pose over that of the truth; NaN without clouds."""

        def compute() -> NDArray[np.float64]:
            fits = (self._fit(name) for name in names)
            return np.array([np.nan if own is None else fit.rival(own) for own in fits], dtype=np.float64)

        return self._cached("rivals", names, compute)

    def _fit(self, name: str) -> Fit | None:
        problem = self.replay.problem(name)
        return None if problem is None else Fit(problem)

    def _cached(
        self, what: str, names: Sequence[str] | NDArray[np.object_], compute: Callable[[], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the values from the cache, or compute and store them; NaN, not stored, if the clouds are unavailable."""
        if not len(names):
            return np.zeros(0)
        if self.replay.problem(names[0]) is None:
            return np.full(len(names), np.nan)
        key = f"{what} {_SETTINGS} {problem_set_sha256(self.digests[name] for name in names)}"

        def computed() -> dict[str, NDArray[np.float64]]:
            self.begin()
            return {"values": compute()}

        return np.array(cache.load_or_compute(key, (), computed)["values"])
