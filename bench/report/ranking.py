"""Rankings of methods and the significance of differences, by paired comparisons on the same problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import statistics
from bench.report import style

if TYPE_CHECKING:
    import pandas as pd

    from bench.evaluation.conventions import Convention

GROUP_KEY_COLUMNS = ["dataset", "condition", "points"]
"""Columns that identify a problem group."""
TIE = 0.05
"""Largest relative difference at which two errors count as a tie."""

GroupKey = tuple[Any, ...]
"""Data set, condition and number of points: the problem group of a table or figure."""


def group_title(group: GroupKey) -> str:
    """Format the title of a problem group."""
    dataset, condition, points = group
    return f"{dataset} · {condition} · {points} points"


def select_group(frame: pd.DataFrame, group: GroupKey) -> pd.DataFrame:
    """Return the rows of a problem group."""
    dataset, condition, points = group
    return frame[
        (frame["dataset"] == dataset) & (frame["condition"] == condition) & (frame["points"] == points).to_numpy()
    ]


class Errors(NamedTuple):
    """Errors of M methods on the P problems of one group, without controls; means over repeats.

    Attributes:
        methods: names (M,), in alphabetical order.
        error: (P, M), infinite for a failure, NaN where not run.
        success: (P, M) share of successful repeats, NaN where not run or undefined.
        category: category of each problem (P,), "" if it has none.
    """

    methods: list[str]
    error: NDArray[np.float64]
    success: NDArray[np.float64]
    category: NDArray[np.object_]


def errors_of(trials: pd.DataFrame, criterion: Convention) -> Errors:
    """Compute the errors from the trials of one group."""
    evaluated = trials[(trials["status"] != "skipped") & (trials["kind"] != "control")]
    by_pair = evaluated.groupby(["problem", "method"], observed=True, sort=True)
    both = by_pair[[criterion.metric, "success"]].mean() if len(evaluated) else evaluated[[criterion.metric, "success"]]
    if both.empty:
        empty = np.zeros((0, 0))
        return Errors([], empty, empty, np.zeros(0, dtype=object))
    error, success = both[criterion.metric].unstack(), both["success"].unstack()
    categories = evaluated.drop_duplicates("problem").set_index("problem")["category"].astype(object)
    category = categories.reindex(error.index).fillna("").to_numpy()
    return Errors(list(map(str, error.columns)), error.to_numpy(float), success.to_numpy(float), category)


def lowest_error(error: NDArray[np.float64], methods: list[str]) -> str | None:
    """Return the method with the lowest mean error (P, M) if it differs significantly from all others, else None.

    Only methods that answered all their problems count. Each mean is over all problems of the method, each test over the
    problems of both methods; p values are adjusted by Holm's method.
    """
    full = np.flatnonzero(np.isfinite(error).any(axis=0) & ~np.isinf(error).any(axis=0))
    if len(full) < 2:
        return None
    first, *others = full[np.argsort(np.nanmean(error[:, full], axis=0), kind="stable")]
    p_values: list[float] = []
    for other in others:
        d = error[:, first] - error[:, other]
        d = d[~np.isnan(d)]
        p_values.append(statistics.sign_flip_p(d, methods[first], methods[other]) if d.sum() < 0 else 1.0)
        if p_values[-1] >= statistics.ALPHA:
            return None
    return methods[first] if (statistics.holm(p_values) < statistics.ALPHA).all() else None


class Ranking(NamedTuple):
    """Methods by recall, best first, and those not separable from the best (McNemar's test with Holm's correction).

    `p` is the adjusted p value of the best against the second.
    """

    methods: list[str]
    tied: list[str]
    p: float

    @property
    def winner(self) -> str | None:
        """The best method if it is separable from every other, else None."""
        return self.methods[0] if not self.tied and len(self.methods) > 1 else None


def by_recall(errors: Errors) -> Ranking | None:
    """Rank methods by recall, then mean error, then name; None without methods or if success is undefined.

    Methods that were run on fewer problems than others come last, whatever their recall.
    """
    evaluated = ~np.isnan(errors.error)
    known = ~np.isnan(errors.success)
    if not errors.methods or not known.any():
        return None
    recall = np.nansum(errors.success, axis=0) / np.maximum(known.sum(axis=0), 1)
    mean = np.where(evaluated, errors.error, 0).sum(axis=0) / np.maximum(evaluated.sum(axis=0), 1)
    fewer = known.sum(axis=0) < known.sum(axis=0).max()
    order = sorted(range(len(errors.methods)), key=lambda m: (fewer[m], -recall[m], mean[m], errors.methods[m]))
    first, *others = order
    met = errors.success > 0.5
    both = [known[:, first] & known[:, other] for other in others]
    tests = [statistics.mcnemar(met[b, first], met[b, o]) for b, o in zip(both, others, strict=True)]
    p_values = statistics.holm(tests)
    names = [errors.methods[m] for m in order]
    return Ranking(
        names,
        [n for n, p in zip(names[1:], p_values, strict=True) if p >= statistics.ALPHA],
        float(p_values[0]) if others else 1.0,
    )


class CategoryTable(NamedTuple):
    """Frames category × method: mean error over answered, whether problems were left unanswered, and whether to print it bold."""

    mean: pd.DataFrame
    partly: pd.DataFrame
    best: pd.DataFrame


def category_table(rows: pd.DataFrame, errors: Errors, criterion: Convention) -> CategoryTable:
    """Build the category table of one group from its rows of `aggregate.per_category`; methods by kind, then name."""
    import pandas as pd

    text = rows.astype({"category": str, "method": str})
    text["partly"] = text["answered"] < text["problems"]
    kinds = text.drop_duplicates("method").set_index("method")["kind"]
    names = sorted(kinds.index, key=lambda m: style.order(m, str(kinds[m])))
    axes = {"index": "category", "columns": "method"}
    mean = text.pivot(**axes, values=f"{criterion.metric}_mean_answered").reindex(columns=names)
    partly = text.pivot(**axes, values="partly").reindex(columns=names).fillna(True).astype(bool)
    winners = {c: lowest_error(errors.error[errors.category == c], errors.methods) for c in mean.index}
    best = [[winners[category] == method for method in names] for category in mean.index]
    return CategoryTable(mean, partly, pd.DataFrame(best, index=mean.index, columns=mean.columns, dtype=bool))


class Duel(NamedTuple):
    """Counts of problems where a method's error is lower, tied, or higher than another's, and their significance."""

    wins: int
    ties: int
    losses: int
    separable: bool


def duels(errors: Errors) -> dict[tuple[str, str], Duel]:
    """Compare every ordered pair of methods by a sign test with Holm's correction; two failures are a tie."""
    names = errors.methods
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    counts = []
    for i, j in pairs:
        both = errors.error[~np.isnan(errors.error[:, [i, j]]).any(axis=1)][:, [i, j]]
        wins, losses = (both[:, 0] < (1 - TIE) * both[:, 1]).sum(), (both[:, 1] < (1 - TIE) * both[:, 0]).sum()
        counts.append((int(wins), len(both) - int(wins) - int(losses), int(losses)))
    significant = statistics.holm([statistics.sign_test(w, lost) for w, _, lost in counts]) < statistics.ALPHA
    result = {}
    for (i, j), (w, t, lost), separable in zip(pairs, counts, significant, strict=True):
        result[names[i], names[j]] = Duel(w, t, lost, bool(separable))
        result[names[j], names[i]] = Duel(lost, t, w, bool(separable))
    return result
