"""Who is better, and whether one may say so: comparisons of methods on the same problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench import stats
from bench.report import style

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.05
PLACE = ["dataset", "condition", "points"]

Place = tuple[Any, ...]
"""A data set, condition and number of points: what one table or curve is about."""


def place_title(place: Place) -> str:
    """How a place is named above its table or figure."""
    dataset, condition, points = place
    return f"{dataset} · {condition} · {points} points"


class CategoryTable(NamedTuple):
    """Frames category × method: mean rmse over answered, whether some were not answered, and whether to set it in bold."""

    mean: pd.DataFrame
    partly: pd.DataFrame
    best: pd.DataFrame


def category_table(trials: pd.DataFrame) -> CategoryTable:
    """The table of categories of one data set, condition and number of points; methods by kind, then name."""
    asked = trials[(trials["status"] != "skipped") & trials["category"].notna()]
    ok = asked["status"] == "ok"
    groups = asked.assign(ok=ok, finite=asked["rmse"].where(ok)).groupby(["category", "method"])
    mean, share = groups["finite"].mean().unstack(), groups["ok"].mean().unstack()
    kinds = asked.drop_duplicates("method").set_index("method")["kind"]
    columns = sorted(mean.columns, key=lambda m: style.order(str(m), str(kinds[m])))
    mean, partly = mean[columns], (share[columns] < 1)
    winners = _winners(asked)
    won = [[winners.get(str(category)) == method for method in columns] for category in mean.index]
    return CategoryTable(mean, partly, (mean.isna() & False) | np.array(won, dtype=bool).reshape(mean.shape))


def category_tables(trials: pd.DataFrame) -> dict[Place, CategoryTable]:
    """`category_table` of every place that has categories."""
    asked = trials[(trials["status"] != "skipped") & trials["category"].notna()]
    return {place: category_table(group) for place, group in asked.groupby(PLACE, sort=True)}


def _winners(asked: pd.DataFrame) -> dict[str, str | None]:
    """The method of lowest rmse of each category, if there is one that may be called so."""
    table = _by_problem(asked)
    categories = asked.drop_duplicates("problem").set_index("problem")["category"].reindex(table.index)
    return {str(category): _lowest(group) for category, group in table.groupby(categories)}


def _by_problem(trials: pd.DataFrame) -> pd.DataFrame:
    """rmse (problems × methods), the mean over repeats, of the methods that are no controls; NaN where not asked."""
    asked = trials[(trials["status"] != "skipped") & (trials["kind"] != "control")]
    return asked.groupby(["problem", "method"])["rmse"].mean().unstack()


def lowest_rmse(trials: pd.DataFrame) -> str | None:
    """The method of lowest mean rmse among those that answered all, if a paired test separates it from the next.

    Each mean is over all problems the method was asked, the test over those that both were asked.
    """
    return _lowest(_by_problem(trials))


def _lowest(table: pd.DataFrame) -> str | None:
    """`lowest_rmse` of rmse (problems × methods)."""
    values = table.to_numpy(dtype=float)
    full = np.flatnonzero(np.isfinite(values).any(axis=0) & ~np.isinf(values).any(axis=0))
    if len(full) < 2:
        return None
    first, second = full[np.argsort(np.nanmean(values[:, full], axis=0), kind="stable")[:2]]
    both = values[~np.isnan(values[:, [first, second]]).any(axis=1)]
    if not len(both):
        return None
    names = str(table.columns[first]), str(table.columns[second])
    found = stats.paired_difference(both[:, first], both[:, second], *names)
    return names[0] if found.p < ALPHA and found.mean < 0 else None


class Ranking(NamedTuple):
    """Methods by recall, best first, and how many of the first are not separable from the best (McNemar).

    `p` is of the best against the first that is separable from it, or against the last if none is.
    """

    methods: list[str]
    tied: int
    p: float

    @property
    def winner(self) -> str | None:
        """The best, if it is separable from the next."""
        return self.methods[0] if self.tied == 1 and len(self.methods) > 1 else None


def by_recall(trials: pd.DataFrame, threshold: float) -> Ranking | None:
    """Rank the methods that are no controls by recall, then mean rmse, then name; None if there are none."""
    table = _by_problem(trials)
    if table.empty:
        return None
    recall = (table < threshold).sum() / table.notna().sum()
    mean = table.mean()
    names = sorted(map(str, table.columns), key=lambda m: (-recall[m], mean[m], m))
    tied, p = 1, 1.0
    for other in names[1:]:
        both = table[[names[0], other]].dropna().to_numpy() < threshold
        p = stats.mcnemar(both[:, 0], both[:, 1])
        if p < ALPHA:
            break
        tied += 1
    return Ranking(names, tied, p)
