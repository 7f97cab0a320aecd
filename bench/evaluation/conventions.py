"""Conventions: which error a field of work looks at, and below which limit it calls a registration a success.

All are computed from stored poses, so one run can be read under any of them.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from bench.evaluation.loader import POSE_COLUMNS, RunData
from common.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Convention:
    """An error and what counts as success.

    Attributes:
        metric: the column of `trials.csv` that tables and curves show as the error.
        label: how that error is written above a column.
        unit: of the error.
        limits: pairs (column, limit): a success has every one of these errors below its limit. Empty: the convention knows no
            success, and recall is unknown.
        about: where it comes from and how to read it.
        missing: why a run may not have it.
    """

    name: str
    metric: str
    label: str
    unit: str
    limits: tuple[tuple[str, float], ...]
    about: str
    missing: str = ""

    @property
    def recall_label(self) -> str:
        """How the share of successes is written above a column."""
        if not self.limits:
            return "recall"
        if len(self.limits) == 1 and self.limits[0][0] == self.metric:
            return f"recall@{self.limits[0][1]:g}"
        return "recall (" + ", ".join(f"{LABELS[name]} < {limit:g}" for name, limit in self.limits) + ")"

    @property
    def threshold(self) -> float | None:
        """The limit of the error itself, for a line in its CDF."""
        return dict(self.limits).get(self.metric)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every error it needs."""
        return (self.metric, *(name for name, _ in self.limits if name != self.metric))

    def success(self, trials: pd.DataFrame) -> NDArray[np.float64]:
        """For each trial 1 or 0; NaN where it was skipped, the error could not be computed, or success is not defined."""
        values = trials[list(self.columns)].to_numpy(dtype=np.float64)
        known = ~np.isnan(values).any(axis=1) & bool(self.limits)
        met = np.ones(len(trials), dtype=bool)
        for name, limit in self.limits:
            met &= trials[name].to_numpy(dtype=np.float64) < limit
        return np.where(known, met, np.nan)

    def at(self, thresholds: Sequence[float]) -> Convention:
        """The same with other limits, in the order of its own.

        Raises:
            InputError: there are more or fewer than it has.
        """
        names = [name for name, _ in self.limits] or [self.metric]
        if len(thresholds) != len(names) or not all(np.isfinite(t) and t > 0 for t in thresholds):
            raise InputError(
                f"--threshold: convention {self.name} takes {len(names)} above 0, of {' and '.join(names)}; "
                f"{len(thresholds)} were given"
            )
        return dataclasses.replace(self, limits=tuple(zip(names, map(float, thresholds), strict=True)))


LABELS = {
    "rmse": "RMSE",
    "mean_distance": "mean distance",
    "rmse_coordinate": "RMSE per coordinate",
    "rre_deg": "RRE",
    "rte": "RTE",
    "chamfer": "modified Chamfer",
    "rmse_information": "RMSE by gt.info",
    "mae_euler_deg": "MAE of Euler angles",
    "rmse_paper": "RMSE as printed",
    "rmse_symmetric": "RMSE up to symmetry",
}


def _packaged() -> dict[str, Convention]:
    read = tomllib.loads((files("bench.evaluation") / "conventions.toml").read_text(encoding="utf-8"))
    return {
        name: Convention(name, **(fields | {"limits": tuple(fields["limits"].items())}))
        for name, fields in read.items()
    }


CONVENTIONS = _packaged()
"""Every convention by name."""

DEFAULT = next(iter(CONVENTIONS.values()))
"""The convention that drives the CSVs of a run."""


def convention(name: str | None, thresholds: Sequence[float] | None = None) -> Convention:
    """A convention (None: the default), with its own limits or others.

    Raises:
        InputError: there is no such convention, or the limits do not fit.
    """
    name = name or DEFAULT.name
    if name not in CONVENTIONS:
        raise unknown("convention", name, CONVENTIONS)
    return CONVENTIONS[name].at(thresholds) if thresholds else CONVENTIONS[name]


def add_information_rmse(trials: pd.DataFrame, loaded: RunData) -> pd.DataFrame:
    """The trials with a column `rmse_information`: infinite for a failure, NaN for a problem without `gt.info`."""
    import pandas as pd

    row = pd.Index(loaded.problems["problem"]).get_indexer(pd.Index(trials["problem"]))
    with_one = np.isin(row, list(loaded.information))
    ok = (trials["status"] == "ok").to_numpy()
    found = np.where(with_one & (trials["status"] != "skipped").to_numpy(), np.inf, np.nan)
    mine = np.flatnonzero(with_one & ok)
    if len(mine):
        poses = loaded.outcomes.loc[(loaded.outcomes["phase"] == "accuracy").to_numpy(), POSE_COLUMNS].to_numpy()[mine]
        infos = np.stack([loaded.information[int(r)] for r in row[mine]])
        found[mine] = metrics.information_rmse(poses.reshape(-1, 4, 4), loaded.scenes.truth[row[mine]], infos)
    return trials.assign(rmse_information=found)


def by_convention(trials: pd.DataFrame, conventions: Sequence[Convention]) -> pd.DataFrame:
    """The same run under every convention: convention, method, dataset, condition, points, kind, metric, asked, error, recall.

    `error` is the mean over answered, `recall` the share of successes among the asked. Where a metric is not there (its
    column is missing) or not known for any problem, both are NaN.
    """
    import pandas as pd

    asked = trials[trials["status"] != "skipped"]
    rows = []
    for one in conventions:
        have = set(one.columns) <= set(trials.columns)
        table = asked[["method", "dataset", "condition", "points", "kind"]].assign(
            error=asked[one.metric].where(asked["status"] == "ok") if have else np.nan,
            recall=one.success(asked) if have else np.nan,
        )
        groups = table.groupby(["method", "dataset", "condition", "points", "kind"], observed=True, sort=True)
        found = groups.agg(asked=("error", "size"), error=("error", "mean"), recall=("recall", "mean"))
        rows.append(found.reset_index().assign(convention=one.name, metric=one.metric))
    columns = ["convention", "method", "dataset", "condition", "points", "kind", "metric", "asked", "error", "recall"]
    return pd.concat(rows, ignore_index=True)[columns]
