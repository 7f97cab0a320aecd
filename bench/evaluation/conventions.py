"""Conventions: the error that a benchmark reports, and the limits below which it counts a registration as a success.

All are computed from stored poses, so one run can be reported under any of them.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from bench.evaluation.loader import GROUP_COLUMNS, POSE_COLUMNS, RunData
from common.errors import InputError, unknown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Convention:
    """An error and the definition of success.

    Attributes:
        metric: column of `trials.csv` that tables and curves show as the error.
        label: name of the error in column heads.
        unit: unit of the error.
        limits: pairs (column, limit): a success has all these errors below their limits. If empty, success and recall are
            undefined.
        about: source and interpretation.
        missing: reason why a run may lack the error.
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
        """Name of the share of successes in column heads."""
        if not self.limits:
            return "recall"
        if len(self.limits) == 1 and self.limits[0][0] == self.metric:
            return f"recall@{self.limits[0][1]:g}"
        return "recall (" + ", ".join(f"{LABELS[name]} < {limit:g}" for name, limit in self.limits) + ")"

    @property
    def threshold(self) -> float | None:
        """Limit of the error itself, for the line in its CDF; None if it has none."""
        return dict(self.limits).get(self.metric)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of every error that the convention needs."""
        return (self.metric, *(name for name, _ in self.limits if name != self.metric))

    def success(self, trials: pd.DataFrame) -> NDArray[np.float64]:
        """Return 1 or 0 for each trial; NaN if it was skipped, its error is unknown, or success is undefined."""
        values = trials[list(self.columns)].to_numpy(dtype=np.float64)
        known = ~np.isnan(values).any(axis=1) & bool(self.limits)
        met = np.ones(len(trials), dtype=bool)
        for name, limit in self.limits:
            met &= trials[name].to_numpy(dtype=np.float64) < limit
        return np.where(known, met, np.nan)

    def with_limits(self, thresholds: Sequence[float]) -> Convention:
        """Return the convention with other limits, in the same order.

        Raises:
            InputError: the number of limits differs, or one is not a positive number.
        """
        names = [name for name, _ in self.limits] or [self.metric]
        if len(thresholds) != len(names) or not all(np.isfinite(t) and t > 0 for t in thresholds):
            raise InputError(
                f"--threshold: convention {self.name} takes {len(names)} positive values, of {' and '.join(names)}; "
                f"got {len(thresholds)}"
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
    "rmse_correspondences": "RMSE over correspondences",
    "mae_euler_deg": "MAE of Euler angles",
    "rmse_paper": "RMSE as printed",
    "rmse_symmetric": "RMSE up to symmetry",
}


def _packaged() -> dict[str, Convention]:
    content = tomllib.loads((files("bench.evaluation") / "conventions.toml").read_text(encoding="utf-8"))
    return {
        name: Convention(name, **(fields | {"limits": tuple(fields["limits"].items())}))
        for name, fields in content.items()
    }


CONVENTIONS = _packaged()
"""Conventions by name."""

DEFAULT = next(iter(CONVENTIONS.values()))
"""Convention of the CSVs of a run."""


def convention(name: str | None, thresholds: Sequence[float] | None = None) -> Convention:
    """Return a convention by name (None: the default), optionally with other limits.

    Raises:
        InputError: unknown name, or limits that do not fit.

    >>> convention("kitti").limits
    (('rre_deg', 5.0), ('rte', 2.0))
    >>> convention(None, [0.1]).recall_label
    'recall@0.1'
    """
    name = name or DEFAULT.name
    if name not in CONVENTIONS:
        raise unknown("convention", name, CONVENTIONS)
    return CONVENTIONS[name].with_limits(thresholds) if thresholds else CONVENTIONS[name]


def add_information_rmse(trials: pd.DataFrame, loaded: RunData) -> pd.DataFrame:
    """Add the column `rmse_information`: infinite for a failure, NaN for a problem without `gt.info`."""
    import pandas as pd

    row = pd.Index(loaded.problems["problem"]).get_indexer(pd.Index(trials["problem"]))
    has_information = np.isin(row, list(loaded.information))
    ok = (trials["status"] == "ok").to_numpy()
    errors = np.where(has_information & (trials["status"] != "skipped").to_numpy(), np.inf, np.nan)
    rows = np.flatnonzero(has_information & ok)
    if len(rows):
        poses = loaded.outcomes.loc[(loaded.outcomes["phase"] == "accuracy").to_numpy(), POSE_COLUMNS].to_numpy()[rows]
        infos = np.stack([loaded.information[int(r)] for r in row[rows]])
        errors[rows] = metrics.information_rmse(poses.reshape(-1, 4, 4), loaded.scenes.truth[row[rows]], infos)
    return trials.assign(rmse_information=errors)


def by_convention(trials: pd.DataFrame, conventions: Sequence[Convention]) -> pd.DataFrame:
    """Evaluate a run under several conventions.

    Columns: convention, method, dataset, condition, points, kind, metric, problems, error, recall. `error` is the mean over
    answered problems, `recall` the share of successes among the problems run. Both are NaN where the metric is missing.
    """
    import pandas as pd

    keys = [*GROUP_COLUMNS, "kind"]
    needed = {name for criterion in conventions for name in criterion.columns} & set(trials.columns)
    evaluated = trials.loc[(trials["status"] != "skipped").to_numpy(), [*keys, "status", *sorted(needed)]]
    ok = evaluated["status"] == "ok"
    values: dict[str, Any] = {}
    for criterion in conventions:
        available = set(criterion.columns) <= needed
        values[f"error {criterion.name}"] = evaluated[criterion.metric].where(ok) if available else np.nan
        values[f"recall {criterion.name}"] = criterion.success(evaluated) if available else np.nan
    groups = evaluated[keys].assign(**values).groupby(keys, observed=True, sort=True)
    counts, means = groups.size(), groups.mean()
    tables = []
    for criterion in conventions:
        columns = {name: means[f"{name} {criterion.name}"] for name in ("error", "recall")}
        table = pd.DataFrame({"problems": counts, **columns}).reset_index()
        tables.append(table.assign(convention=criterion.name, metric=criterion.metric))
    return pd.concat(tables, ignore_index=True)[["convention", *keys, "metric", "problems", "error", "recall"]]
