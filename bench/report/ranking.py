"""Who is better, and whether one may say so: comparisons of methods on the same problems."""

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
TIE = 0.05
"""Two errors are a tie if neither is below the other by more than this share of it."""

GroupKey = tuple[Any, ...]
"""A data set, condition and number of points: what one table or curve is about."""


def group_title(group: GroupKey) -> str:
    """How a group is named above its table or figure."""
    dataset, condition, points = group
    return f"{dataset} · {condition} · {points} points"


def select_group(frame: pd.DataFrame, group: GroupKey) -> pd.DataFrame:
    """The rows of a frame that are of a group."""
    dataset, condition, points = group
    return frame[
        (frame["dataset"] == dataset) & (frame["condition"] == condition) & (frame["points"] == points).to_numpy()
    ]


class Errors(NamedTuple):
    """What methods did on the problems of one group, controls aside; the mean over repeats.

    Attributes:
        methods: names (M,), in alphabetical order.
        error: (P, M), infinite for a failure, NaN where not asked.
        success: (P, M) share of repeats that succeeded, NaN where not asked or not defined.
        category: (P,) of each problem, "" where there is none.
    """

    methods: list[str]
    error: NDArray[np.float64]
    success: NDArray[np.float64]
    category: NDArray[np.object_]


def errors_of(trials: pd.DataFrame, criterion: Convention) -> Errors:
    """The errors of the trials of one group."""
    asked = trials[(trials["status"] != "skipped") & (trials["kind"] != "control")]
    by_pair = asked.groupby(["problem", "method"], observed=True, sort=True)
    both = by_pair[[criterion.metric, "success"]].mean() if len(asked) else asked[[criterion.metric, "success"]]
    if both.empty:
        none = np.zeros((0, 0))
        return Errors([], none, none, np.zeros(0, dtype=object))
    error, success = both[criterion.metric].unstack(), both["success"].unstack()
    kinds = asked.drop_duplicates("problem").set_index("problem")["category"].astype(object)
    category = kinds.reindex(error.index).fillna("").to_numpy()
    return Errors(list(map(str, error.columns)), error.to_numpy(float), success.to_numpy(float), category)


def lowest_error(error: NDArray[np.float64], methods: list[str]) -> str | None:
    """The method of lowest mean error (P, M) among those that answered all, if tests separate it from every other of them.

    Each mean is over all problems the method was asked, each test over those that both were asked; Holm's correction over the
    tests.
    """
    full = np.flatnonzero(np.isfinite(error).any(axis=0) & ~np.isinf(error).any(axis=0))
    if len(full) < 2:
        return None
    first, *others = full[np.argsort(np.nanmean(error[:, full], axis=0), kind="stable")]
    found = []
    for other in others:
        d = error[:, first] - error[:, other]
        d = d[~np.isnan(d)]
        found.append(statistics.sign_flip_p(d, methods[first], methods[other]) if d.sum() < 0 else 1.0)
        if found[-1] >= statistics.ALPHA:
            return None
    return methods[first] if (statistics.holm(found) < statistics.ALPHA).all() else None


class Ranking(NamedTuple):
    """Methods by recall, best first, and which of them are not separable from the best (McNemar, Holm over the others).

    `p` is the corrected one of the best against the next.
    """

    methods: list[str]
    tied: list[str]
    p: float

    @property
    def winner(self) -> str | None:
        """The best, if it is separable from every other."""
        return self.methods[0] if not self.tied and len(self.methods) > 1 else None


def by_recall(errors: Errors) -> Ranking | None:
    """Rank methods by recall, then mean error, then name; None if there are none or success is not defined.

    Methods that were asked fewer problems than others come last: a perfect score on five is no first group.
    """
    asked = ~np.isnan(errors.error)
    known = ~np.isnan(errors.success)
    if not errors.methods or not known.any():
        return None
    recall = np.nansum(errors.success, axis=0) / np.maximum(known.sum(axis=0), 1)
    mean = np.where(asked, errors.error, 0).sum(axis=0) / np.maximum(asked.sum(axis=0), 1)
    fewer = known.sum(axis=0) < known.sum(axis=0).max()
    order = sorted(range(len(errors.methods)), key=lambda m: (fewer[m], -recall[m], mean[m], errors.methods[m]))
    first, *others = order
    met = errors.success > 0.5
    both = [known[:, first] & known[:, other] for other in others]
    tests = [statistics.mcnemar(met[b, first], met[b, o]) for b, o in zip(both, others, strict=True)]
    found = statistics.holm(tests)
    names = [errors.methods[m] for m in order]
    return Ranking(
        names,
        [n for n, p in zip(names[1:], found, strict=True) if p >= statistics.ALPHA],
        float(found[0]) if others else 1.0,
    )


class CategoryTable(NamedTuple):
    """Frames category × method: mean error over answered, whether some were not answered, and whether to set it in bold."""

    mean: pd.DataFrame
    partly: pd.DataFrame
    best: pd.DataFrame


def category_table(cells: pd.DataFrame, errors: Errors, criterion: Convention) -> CategoryTable:
    """Build the category table of one group from its rows of `aggregate.per_category`; methods by kind, then name."""
    import pandas as pd

    text = cells.astype({"category": str, "method": str})
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
    """How often a method's error is below, as, and above another's on the same problems, and whether that is separable."""

    wins: int
    ties: int
    losses: int
    separable: bool


def duels(errors: Errors) -> dict[tuple[str, str], Duel]:
    """Every ordered pair of methods. Two failures are a tie. Sign test, Holm's correction over all pairs."""
    names = errors.methods
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    counts = []
    for i, j in pairs:
        both = errors.error[~np.isnan(errors.error[:, [i, j]]).any(axis=1)][:, [i, j]]
        wins, losses = (both[:, 0] < (1 - TIE) * both[:, 1]).sum(), (both[:, 1] < (1 - TIE) * both[:, 0]).sum()
        counts.append((int(wins), len(both) - int(wins) - int(losses), int(losses)))
    clear = statistics.holm([statistics.sign_test(w, lost) for w, _, lost in counts]) < statistics.ALPHA
    found = {}
    for (i, j), (w, t, lost), sure in zip(pairs, counts, clear, strict=True):
        found[names[i], names[j]] = Duel(w, t, lost, bool(sure))
        found[names[j], names[i]] = Duel(lost, t, w, bool(sure))
    return found
