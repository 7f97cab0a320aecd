"""Compare two runs on the same problems: which quantities changed, by how much, and whether significantly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bench.evaluation import statistics
from bench.evaluation.aggregate import ENDED, add_success
from bench.evaluation.clusters import clusters_of
from bench.evaluation.conventions import Convention
from bench.evaluation.loader import GROUP_COLUMNS, RunData
from bench.evaluation.problem_groups import rows_of_groups
from common.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MARGIN = 0.01
"""Smallest relative change of a mean error that counts; rounding differs between processors."""


@dataclass(frozen=True)
class Change:
    """One quantity of one method on one problem group (data set/condition/points), in runs A and B.

    `difference` is B - A. `p` is adjusted by Holm's method over all tests of the comparison; NaN for what is not tested: times,
    which depend on the machine, and fewer than `statistics.MIN_SHARED` problems. `verdict` is better, worse, same (not
    separable) or not tested.
    """

    method: str
    group: str
    quantity: str
    problems: int
    a: float
    b: float
    difference: statistics.Difference
    p: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """All changes, and remarks on what is only in one of the runs."""

    changes: list[Change]
    remarks: list[str]

    @property
    def regressions(self) -> list[Change]:
        """Changes that are significantly worse."""
        return [c for c in self.changes if c.verdict == "worse"]


def compare(a: RunData, b: RunData, names: tuple[str, str], criterion: Convention) -> Comparison:
    """Compare run B with run A.

    Raises:
        InputError: the runs share no problem group, or differ in the problems of one.
    """
    common = check_same_problems(a, b, names)
    trials = [_evaluated_trials(add_success(run, criterion), common) for run in (a, b)]
    changes: list[Change] = []
    remarks = [
        *_only_in_first(trials[0], trials[1], names[0], a, common),
        *_only_in_first(trials[1], trials[0], names[1], b, common),
    ]
    shared = trials[0].merge(trials[1], on=["key", "problem", "repeat"], suffixes=("_a", "_b"))
    for key, rows in shared.groupby("key", sort=True):
        changes += _changes(str(key).split("\t"), rows, criterion)
    adjusted = iter(statistics.holm([c.difference.p for c in changes if _is_tested(c)]))
    verdicts = [
        _with_verdict(c, float(next(adjusted))) if _is_tested(c) else replace(c, p=np.nan, verdict="not tested")
        for c in changes
    ]
    return Comparison(verdicts, remarks)


def check_same_problems(a: RunData, b: RunData, names: tuple[str, str]) -> list[str]:
    """Return the problem groups (data set/condition/points) that both runs have, with identical problems.

    Raises:
        InputError: see `compare`.
    """
    sets = [run.run["problem_sets"] for run in (a, b)]
    common = sorted(set(sets[0]) & set(sets[1]))
    if not common:
        what = " and ".join(f"{name} has {', '.join(sorted(s)) or 'none'}" for name, s in zip(names, sets, strict=True))
        raise InputError(f"{names[0]} and {names[1]} share no problem set: {what}")
    for group in common:
        if sets[0][group] != sets[1][group]:
            raise InputError(
                f"{names[0]} and {names[1]}: {_describe_difference(a, b, group)}; a paired comparison needs the same problems"
            )
    return common


def _describe_difference(a: RunData, b: RunData, group: str) -> str:
    counts = [len(rows_of_groups(run).get(group, [])) for run in (a, b)]
    keys = [k for k in ("seed", "sampler", "angles") if a.run["config"].get(k) != b.run["config"].get(k)]
    facts = [f"{k} is {a.run['config'].get(k)} and {b.run['config'].get(k)}" for k in keys]
    if counts[0] != counts[1]:
        facts.append(f"{counts[0]} and {counts[1]} problems")
    return f"the problems of {group} differ ({'; '.join(facts) or 'other data'})"


def _evaluated_trials(trials: pd.DataFrame, common: list[str]) -> pd.DataFrame:
    """Return the trials of the common groups that were run, with method and group as one text `key`."""
    text = {name: trials[name].astype(str) for name in GROUP_COLUMNS}
    group = text["dataset"] + "/" + text["condition"] + "/" + text["points"]
    kept = trials.assign(key=text["method"] + "\t" + group, cluster=clusters_of(trials))
    return kept[group.isin(common) & (trials["status"] != "skipped")]


def _only_in_first(
    first: pd.DataFrame, second: pd.DataFrame, name: str, run: RunData, common: list[str]
) -> Iterable[str]:
    """Yield a remark on each method and problem group that only the first run has."""
    for key in sorted(set(first["key"]) - set(second["key"])):
        yield f"only in {name}: {' on '.join(key.split(chr(9)))}"
    for group in sorted(set(run.run["problem_sets"]) - set(common)):
        yield f"only in {name}: problems of {group}"


def _changes(key: list[str], rows: pd.DataFrame, criterion: Convention) -> Iterable[Change]:
    """Yield changes of recall, answers, error where both answered, and time where both returned, of a method and group."""
    method, group = key
    m, seed_key = criterion.metric, ("compare", *key)
    by_problem = rows.groupby("problem", sort=True)  # repeats of a problem are not independent
    objects = by_problem["cluster_a"].first()
    ok = {s: (rows[f"status_{s}"] == "ok").groupby(rows["problem"]).mean() > 0.5 for s in "ab"}
    if criterion.limits:
        success = {s: by_problem[f"success_{s}"].mean().dropna() for s in "ab"}
        if len(success["a"]) == len(success["b"]) > 0:
            share = success["a"] > 0.5, success["b"] > 0.5
            yield _share_change(method, group, criterion.recall_label, *share, objects)
    yield _share_change(method, group, "answered", ok["a"], ok["b"], objects)
    answered = rows[(rows["status_a"] == "ok") & (rows["status_b"] == "ok")]
    error = answered.groupby("problem", sort=True)[[f"{m}_a", f"{m}_b"]].mean().dropna()
    if len(error):
        x, y = error[f"{m}_a"].to_numpy(), error[f"{m}_b"].to_numpy()
        difference = statistics.paired_difference(y, x, *seed_key, cluster=objects[error.index].to_numpy())
        quantity = f"{criterion.label}, both answered"
        yield Change(method, group, quantity, len(x), x.mean(), y.mean(), difference, difference.p, "same")
    ended = rows[rows["status_a"].isin(ENDED) & rows["status_b"].isin(ENDED)]
    times = ended[["time_ms_a", "time_ms_b", "cluster_a"]].dropna()
    if len(times):
        x, y = times["time_ms_a"].to_numpy(), times["time_ms_b"].to_numpy()
        interval = statistics.bootstrap_mean(y - x, "time", *seed_key, cluster=times["cluster_a"].to_numpy())
        difference = statistics.Difference(float((y - x).mean()), *interval, np.nan)
        yield Change(method, group, "time (ms)", len(x), x.mean(), y.mean(), difference, np.nan, "not tested")


def _share_change(
    method: str, group: str, quantity: str, x: pd.Series[bool], y: pd.Series[bool], objects: pd.Series[int]
) -> Change:
    """Return the change of a share from successes by problem."""
    cluster = objects[x.index].to_numpy()
    difference = statistics.share_difference(y.to_numpy(), x.to_numpy(), "compare", method, group, cluster=cluster)
    return Change(method, group, quantity, len(x), x.mean(), y.mean(), difference, difference.p, "same")


def _is_tested(change: Change) -> bool:
    return change.problems >= statistics.MIN_SHARED and not np.isnan(change.difference.p)


def _with_verdict(change: Change, p: float) -> Change:
    """Set the adjusted p value and the verdict; larger is better for shares, smaller for errors."""
    d, share = change.difference.mean, change.quantity.startswith(("recall", "answered"))
    relevant = abs(d) > (0 if share else MARGIN * max(abs(change.a), abs(change.b)))
    verdict = "same"
    if p < statistics.ALPHA and relevant:
        verdict = "better" if (d > 0) == share else "worse"
    return replace(change, p=p, verdict=verdict)
