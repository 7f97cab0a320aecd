"""The rule for the best method of a problem group, by paired tests on the same problems; see docs/metrics.md.

Everything that names or marks a best method uses this module: the terminal, the sentences and bold numbers of the report, Pareto
fronts, pairwise wins and `docs/choosing.md`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import statistics
from bench.evaluation.clusters import clusters_of
from bench.report import style

if TYPE_CHECKING:
    import pandas as pd

    from bench.evaluation.conventions import Convention

GROUP_KEY_COLUMNS = ["dataset", "condition", "points"]
"""Columns that identify a problem group."""
MIN_PROBLEMS = statistics.MIN_SHARED
"""Number of problems below which a method is not ranked, and of shared problems below which two methods are not compared."""
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


def groups_of(frame: pd.DataFrame) -> list[GroupKey]:
    """Return the problem groups of a frame, sorted."""
    return sorted(set(frame[GROUP_KEY_COLUMNS].itertuples(index=False, name=None)))


def below_floor(row: Mapping[Any, Any]) -> bool:
    """Return whether a row of `aggregate.summary` is of a method with too few problems to be ranked."""
    return 0 < row["distinct_problems"] < MIN_PROBLEMS


def display_name(row: Mapping[Any, Any]) -> str:
    """Return the name of a row's method, with its number of problems if these are too few: `method, n = 2`."""
    return f"{row['method']}, n = {row['distinct_problems']}" if below_floor(row) else str(row["method"])


def display_order(row: Mapping[Any, Any]) -> tuple[bool, tuple[int, str]]:
    """Return the sort key of a row: methods with too few problems last, then by kind and name."""
    return below_floor(row), style.order(str(row["method"]), str(row["kind"]))


def display_rows(summary: pd.DataFrame) -> list[Mapping[Any, Any]]:
    """Return the rows of a group of `aggregate.summary` in the order of tables and legends."""
    return sorted(summary.to_dict("records"), key=display_order)


def named_rows(trials: pd.DataFrame) -> dict[str, Mapping[Any, Any]]:
    """Return a row per method that was run, for the three functions above, in the order of tables and legends."""
    evaluated = trials[trials["status"] != "skipped"]
    counts = evaluated.groupby(["method", "kind"], observed=True, sort=True)["problem"].nunique()
    rows = display_rows(counts.rename("distinct_problems").reset_index())
    return {str(row["method"]): row for row in rows}


class Errors(NamedTuple):
    """Errors of M methods on the P problems of one group, without controls; means over repeats.

    Attributes:
        methods: names (M,), in alphabetical order.
        error: (P, M), infinite for a failure, NaN where not run.
        success: (P, M) share of successful repeats, NaN where not run or undefined.
        category: category of each problem (P,), "" if it has none.
        cluster: number of each problem's object (P,).
    """

    methods: list[str]
    error: NDArray[np.float64]
    success: NDArray[np.float64]
    category: NDArray[np.object_]
    cluster: NDArray[np.intp]

    def in_category(self, name: str) -> Errors:
        """Return the errors on the problems of a category."""
        rows = self.category == name
        fields = (self.error[rows], self.success[rows], self.category[rows], self.cluster[rows])
        return Errors(self.methods, *fields)

    @property
    def ranked(self) -> NDArray[np.bool_]:
        """Whether each method (M,) was run on enough problems to be ranked."""
        return np.asarray((~np.isnan(self.error)).sum(axis=0) >= MIN_PROBLEMS)


def errors_by_group(frames: Mapping[str, pd.DataFrame], criterion: Convention) -> dict[GroupKey, Errors]:
    """Compute the errors of each group of `aggregate.tables` from its trials."""
    names = [
        *GROUP_KEY_COLUMNS,
        "method",
        "kind",
        "problem",
        "object",
        "category",
        "status",
        criterion.metric,
        "success",
    ]
    needed = frames["trials"][names]  # copies of all columns would take longer than the rest
    return {g: errors_of(select_group(needed, g), criterion) for g in groups_of(frames["summary"])}


def errors_of(trials: pd.DataFrame, criterion: Convention) -> Errors:
    """Compute the errors from the trials of one group."""
    evaluated = trials[(trials["status"] != "skipped") & (trials["kind"] != "control")]
    columns = [criterion.metric, "success"]
    if evaluated.empty:
        empty = np.zeros((0, 0))
        return Errors([], empty, empty, np.zeros(0, dtype=object), np.zeros(0, dtype=np.intp))
    both = evaluated.groupby(["problem", "method"], observed=True, sort=True)[columns].mean()
    error, success = both[criterion.metric].unstack(), both["success"].unstack()
    problems = evaluated.assign(cluster=clusters_of(evaluated)).drop_duplicates("problem").set_index("problem")
    problems = problems.reindex(error.index)
    category = problems["category"].astype(object).fillna("").to_numpy()
    numbers = error.to_numpy(float), success.to_numpy(float)
    return Errors(list(map(str, error.columns)), *numbers, category, problems["cluster"].to_numpy(np.intp))


def lowest_error(errors: Errors) -> str | None:
    """Return the method with the lowest mean error if it differs significantly from all others, else None.

    Only ranked methods that answered all their problems count. Each mean is over all problems of the method, each test over the
    problems of both methods, at least `MIN_PROBLEMS`; p values are adjusted by Holm's method.
    """
    error, methods = errors.error, errors.methods
    full = np.flatnonzero(errors.ranked & ~np.isinf(error).any(axis=0))
    if len(full) < 2:
        return None
    first, *others = full[np.argsort(np.nanmean(error[:, full], axis=0), kind="stable")]
    p_values: list[float] = []
    for other in others:
        d = error[:, first] - error[:, other]
        shared = ~np.isnan(d)
        if shared.sum() < MIN_PROBLEMS or d[shared].sum() >= 0:
            return None
        names = methods[first], methods[other]
        p_values.append(statistics.sign_flip_p(d[shared], *names, cluster=errors.cluster[shared]))
        if p_values[-1] >= statistics.ALPHA:
            return None
    return methods[first] if (statistics.holm(p_values) < statistics.ALPHA).all() else None


class Ranking(NamedTuple):
    """Methods of a group by recall, and which of them are tied for the best.

    Attributes:
        methods: ranked methods, best first: by the lower end of Wilson's interval, then mean error, then name. For methods with
            equally many problems this is the order of recall.
        few: methods on fewer than `MIN_PROBLEMS` problems, in the same order; they take no part.
        tied: the first method and all that the paired test with Holm's correction does not separate from it, best first.
        worse: tied methods that lose a paired test to a ranked method if p is not corrected; they are not recommended.
        p: largest adjusted p value of the tests of the first method against another.
    """

    methods: list[str]
    few: list[str]
    tied: list[str]
    worse: list[str]
    p: float

    @property
    def winner(self) -> str | None:
        """The best method if it is separable from every other, else None."""
        return self.methods[0] if len(self.tied) == 1 and len(self.methods) > 1 else None

    def recommended(self, ms: Mapping[str, float]) -> str | None:
        """Return the fastest tied method, by time in ms, that is not in `worse`; the first method if no time is known."""
        known = [m for m in self.tied if m not in self.worse and np.isfinite(ms.get(m, np.nan))]
        return min(known, key=lambda m: ms[m]) if known else next(iter(self.tied), None)


def by_recall(errors: Errors) -> Ranking | None:
    """Rank the methods of a group by recall; None without methods or if success is undefined."""
    known = ~np.isnan(errors.success)
    if not errors.methods or not known.any():
        return None
    count, evaluated = known.sum(axis=0), ~np.isnan(errors.error)
    low = statistics.wilson(np.nansum(errors.success, axis=0), count)[0]
    mean = np.where(evaluated, errors.error, 0).sum(axis=0) / np.maximum(evaluated.sum(axis=0), 1)
    order = sorted(range(len(errors.methods)), key=lambda m: (-low[m], mean[m], errors.methods[m]))
    ranked = [m for m in order if count[m] >= MIN_PROBLEMS]
    few = [errors.methods[m] for m in order if count[m] < MIN_PROBLEMS]
    if not ranked:
        return Ranking([], few, [], [], 1.0)
    tests = {m: test for m in ranked[1:] if (test := _compare_recall(errors, ranked[0], m))}
    adjusted = dict(zip(tests, map(float, statistics.holm([test.p for test in tests.values()])), strict=True))
    lost = {m for m, test in tests.items() if adjusted[m] < statistics.ALPHA and test.lead > 0}
    tied = [m for m in ranked if m not in lost]
    worse = [m for m in tied[1:] if any(_loses(errors, m, other) for other in ranked)]
    names = [[errors.methods[m] for m in some] for some in (ranked, tied, worse)]
    return Ranking(names[0], few, names[1], names[2], max(adjusted.values(), default=1.0))


class _RecallTest(NamedTuple):
    """Paired test of two methods: successes that the first has more than the second, and the p value."""

    lead: float
    p: float


def _compare_recall(errors: Errors, a: int, b: int) -> _RecallTest | None:
    """Compare two methods by McNemar's test; None with too few shared problems."""
    shared = ~np.isnan(errors.success[:, [a, b]]).any(axis=1)
    if shared.sum() < MIN_PROBLEMS:
        return None
    x, y = (errors.success[shared, m] > 0.5 for m in (a, b))
    names = errors.methods[a], errors.methods[b]
    return _RecallTest(float(x.sum()) - y.sum(), statistics.mcnemar(x, y, *names, cluster=errors.cluster[shared]))


def _loses(errors: Errors, a: int, b: int) -> bool:
    """Return whether method a has significantly lower recall than b in one test without correction."""
    test = None if a == b else _compare_recall(errors, a, b)
    return test is not None and test.lead < 0 and test.p < statistics.ALPHA


def pareto_front(
    rows: Iterable[Mapping[Any, Any]], ms: Mapping[str, float], best: str | None
) -> list[Mapping[Any, Any]]:
    """Return the rows of the Pareto front of recall over time, fastest first; it ends at the recommended method `best`.

    Slower methods have no significantly higher recall. Controls and methods with too few problems are not on the front.
    """
    timed = [r for r in rows if r["kind"] != "control" and not below_floor(r) and str(r["method"]) in ms]
    last = next((r for r in timed if str(r["method"]) == best), None)
    if last is None:
        return []
    order = sorted(timed, key=lambda r: (ms[str(r["method"])], -r["recall"]))
    front: list[Mapping[Any, Any]] = []
    for row in order[: order.index(last)]:
        if (front[-1]["recall"] if front else -1.0) < row["recall"] < last["recall"]:
            front.append(row)
    return [*front, last]


class CategoryTable(NamedTuple):
    """Frames category × method: mean error over answered, whether problems were left unanswered, and whether to print it bold.

    `problems` is the number of problems of each category, of the method with most of them.
    """

    mean: pd.DataFrame
    partly: pd.DataFrame
    best: pd.DataFrame
    problems: pd.Series[int]


def category_table(rows: pd.DataFrame, errors: Errors, criterion: Convention) -> CategoryTable:
    """Build the category table of one group.

    `rows` are those of `aggregate.per_category` with the columns kind and distinct_problems of the method's summary.
    """
    import pandas as pd

    text = rows.astype({"category": str, "method": str})
    text["partly"] = text["answered"] < text["problems"]
    names = [str(row["method"]) for row in display_rows(text.drop_duplicates("method"))]
    axes = {"index": "category", "columns": "method"}
    mean = text.pivot(**axes, values=f"{criterion.metric}_mean_answered").reindex(columns=names)
    partly = text.pivot(**axes, values="partly").reindex(columns=names).fillna(True).astype(bool)
    winners = {c: lowest_error(errors.in_category(c)) for c in mean.index}
    best = [[winners[category] == method for method in names] for category in mean.index]
    bold = pd.DataFrame(best, index=mean.index, columns=mean.columns, dtype=bool)
    return CategoryTable(mean, partly, bold, text.groupby("category")["problems"].max().reindex(mean.index))


class Duel(NamedTuple):
    """Counts of problems where a method's error is lower, tied, or higher than another's, and their significance.

    `tested` is false, and the pair in no family of tests, if a method or the pair has too few problems. `p` is the p value of
    the sign test, `adjusted` that with Holm's correction; NaN if not tested.
    """

    wins: int
    ties: int
    losses: int
    separable: bool
    tested: bool
    p: float = float("nan")
    adjusted: float = float("nan")


def duels(errors: Errors) -> dict[tuple[str, str], Duel]:
    """Compare every ordered pair of methods by a sign test with Holm's correction; two failures are a tie."""
    names, ranked = errors.methods, errors.ranked
    duel_of: dict[tuple[int, int], Duel] = {}
    p_values: dict[tuple[int, int], float] = {}
    for i, j in itertools.combinations(range(len(names)), 2):
        shared = ~np.isnan(errors.error[:, [i, j]]).any(axis=1)
        a, b = errors.error[shared, i], errors.error[shared, j]
        signs = (a < (1 - TIE) * b).astype(np.float64) - (b < (1 - TIE) * a)
        tested = bool(ranked[i] and ranked[j] and shared.sum() >= MIN_PROBLEMS)
        if tested:
            p_values[i, j] = statistics.paired_signs_p(signs, names[i], names[j], cluster=errors.cluster[shared])
        wins, ties, losses = (int((signs == s).sum()) for s in (1, 0, -1))
        duel_of[i, j] = Duel(wins, ties, losses, False, tested)
    adjusted = dict(zip(p_values, map(float, statistics.holm(list(p_values.values()))), strict=True))
    result = {}
    for (i, j), duel in duel_of.items():
        here = duel
        if (i, j) in adjusted:
            separable = adjusted[i, j] < statistics.ALPHA
            here = duel._replace(separable=separable, p=p_values[i, j], adjusted=adjusted[i, j])
        result[names[i], names[j]] = here
        result[names[j], names[i]] = here._replace(wins=here.losses, losses=here.wins)
    return result
