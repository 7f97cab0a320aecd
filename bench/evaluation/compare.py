"""Compare two runs on the same problems: what got better or worse, by how much, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.evaluation import statistics
from bench.evaluation.aggregate import ENDED, add_success
from bench.evaluation.conventions import Convention
from bench.evaluation.loader import GROUP_COLUMNS, RunData
from common.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table

ALPHA = 0.05
MARGIN = 0.01
"""A mean error counts as changed only if it moved by more than this share of it: digits of another processor are no change."""


@dataclass(frozen=True)
class Change:
    """One quantity of one method in one place, in both runs.

    `difference` is B's minus A's. `p` is Holm's, over all changes of the comparison that are tested; NaN for times, which
    depend on the machine and are not judged. `verdict` is better, worse, or same (not separable).
    """

    method: str
    place: str
    quantity: str
    problems: int
    a: float
    b: float
    difference: statistics.Difference
    p: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """All changes, and what is only in one of the runs."""

    changes: list[Change]
    remarks: list[str]

    @property
    def regressions(self) -> list[Change]:
        """What got significantly worse."""
        return [c for c in self.changes if c.verdict == "worse"]


def compare(a: RunData, b: RunData, names: tuple[str, str], view: Convention) -> Comparison:
    """Compare run B with run A.

    Raises:
        InputError: they have no cell of problems in common, or differ in the problems of one.
    """
    common = check_same_problems(a, b, names)
    both = [_keyed(add_success(run, view), common) for run in (a, b)]
    found: list[Change] = []
    remarks = _only_in_one(both[0], both[1], names, a, b, common)
    shared = both[0].merge(both[1], on=["cell", "problem", "repeat"], suffixes=("_a", "_b"))
    for cell, rows in shared.groupby("cell", sort=True):
        found += _changes(str(cell).split("\t"), rows, view)
    tested = [i for i, c in enumerate(found) if not np.isnan(c.difference.p)]
    corrected = statistics.holm([found[i].difference.p for i in tested])
    for i, p in zip(tested, corrected, strict=True):
        found[i] = _test_difference(found[i], float(p))
    return Comparison(found, remarks)


def check_same_problems(a: RunData, b: RunData, names: tuple[str, str]) -> list[str]:
    """The cells (data set/condition/points) that both runs have, with the very same problems.

    Raises:
        InputError: see `compare`.
    """
    sets = [run.run["problem_sets"] for run in (a, b)]
    common = sorted(set(sets[0]) & set(sets[1]))
    if not common:
        what = " and ".join(f"{name} has {', '.join(sorted(s)) or 'none'}" for name, s in zip(names, sets, strict=True))
        raise InputError(f"{names[0]} and {names[1]} share no problem set: {what}")
    for cell in common:
        if sets[0][cell] != sets[1][cell]:
            raise InputError(
                f"{names[0]} and {names[1]}: {_why_different(a, b, cell)}; a paired comparison needs the same"
            )
    return common


def _why_different(a: RunData, b: RunData, cell: str) -> str:
    counts = [int((run.problems["problem"].str.rsplit("/", n=1).str[0] == cell).sum()) for run in (a, b)]
    keys = [k for k in ("seed", "sampler", "angles") if a.run["config"].get(k) != b.run["config"].get(k)]
    facts = [f"{k} is {a.run['config'].get(k)} and {b.run['config'].get(k)}" for k in keys]
    if counts[0] != counts[1]:
        facts.append(f"{counts[0]} and {counts[1]} problems")
    return f"the problems of {cell} differ ({'; '.join(facts) or 'other data'})"


def _keyed(trials: pd.DataFrame, common: list[str]) -> pd.DataFrame:
    """The asked trials of the common cells, with their cell as one text."""
    text = {name: trials[name].astype(str) for name in GROUP_COLUMNS}
    place = text["dataset"] + "/" + text["condition"] + "/" + text["points"]
    kept = trials.assign(cell=text["method"] + "\t" + place, place=place, problem=trials["problem"].astype(str))
    return kept[place.isin(common) & (trials["status"] != "skipped")]


def _only_in_one(
    one: pd.DataFrame, two: pd.DataFrame, names: tuple[str, str], a: RunData, b: RunData, common: list[str]
) -> list[str]:
    """What could not be compared, in words."""
    found = []
    for mine, theirs, name, run in ((one, two, names[0], a), (two, one, names[1], b)):
        lonely = sorted(set(mine["cell"]) - set(theirs["cell"]))
        found += [f"only in {name}: {' on '.join(cell.split(chr(9)))}" for cell in lonely]
        found += [f"only in {name}: problems of {cell}" for cell in sorted(set(run.run["problem_sets"]) - set(common))]
    return found


def _changes(cell: list[str], rows: pd.DataFrame, view: Convention) -> Iterable[Change]:
    """Recall, answers, error where both answered, and time where both ended, of one method in one place."""
    method, place = cell
    m, key = view.metric, ("compare", *cell)
    once = rows.groupby("problem", sort=True)  # repeats of a problem are no new evidence
    ok = {s: (rows[f"status_{s}"] == "ok").groupby(rows["problem"]).mean() > 0.5 for s in "ab"}
    if view.limits:
        success = {s: once[f"success_{s}"].mean().dropna() for s in "ab"}
        met = [(success[s] > 0.5).to_numpy() for s in "ab"]
        if len(met[0]) == len(met[1]) and len(met[0]):
            yield _share(method, place, view.recall_label, met[0], met[1])
    yield _share(method, place, "answered", ok["a"].to_numpy(), ok["b"].to_numpy())
    answered = rows[(rows["status_a"] == "ok") & (rows["status_b"] == "ok")]
    error = answered.groupby("problem", sort=True)[[f"{m}_a", f"{m}_b"]].mean().dropna()
    if len(error):
        x, y = error[f"{m}_a"].to_numpy(), error[f"{m}_b"].to_numpy()
        of = statistics.paired_difference(y, x, *key)
        yield Change(method, place, f"{view.label}, both answered", len(x), x.mean(), y.mean(), of, of.p, "same")
    ended = rows[rows["status_a"].isin(ENDED) & rows["status_b"].isin(ENDED)]
    times = ended[["time_ms_a", "time_ms_b"]].dropna()
    if len(times):
        x, y = times["time_ms_a"].to_numpy(), times["time_ms_b"].to_numpy()
        of = statistics.Difference(float((y - x).mean()), *statistics.bootstrap_mean(y - x, "time", *key), np.nan)
        yield Change(method, place, "time (ms)", len(x), x.mean(), y.mean(), of, np.nan, "not judged")


def _share(method: str, place: str, quantity: str, x: np.ndarray, y: np.ndarray) -> Change:
    of = statistics.share_difference(y, x)
    return Change(method, place, quantity, len(x), x.mean(), y.mean(), of, of.p, "same")


def _test_difference(change: Change, p: float) -> Change:
    """The change with its corrected p and the verdict; more is better for shares, less for errors."""
    d, share = change.difference.mean, change.quantity.startswith(("recall", "answered"))
    size = abs(d) > (0 if share else MARGIN * max(abs(change.a), abs(change.b)))
    verdict = "same"
    if p < ALPHA and size:
        verdict = "better" if (d > 0) == share else "worse"
    return Change(
        *(
            change.method,
            change.place,
            change.quantity,
            change.problems,
            change.a,
            change.b,
            change.difference,
            p,
            verdict,
        )
    )


def render(comparison: Comparison, names: tuple[str, str]) -> Group:
    """The comparison for a terminal: a table a quantity, then the remarks and the verdict."""
    from rich.console import Group
    from rich.text import Text

    tables = [_table(q, [c for c in comparison.changes if c.quantity == q], names) for q in _quantities(comparison)]
    lines = [Text(remark, style="dim") for remark in comparison.remarks]
    better, worse = (sum(c.verdict == v for c in comparison.changes) for v in ("better", "worse"))
    judged = sum(c.verdict != "not judged" for c in comparison.changes)
    end = f"{names[1]} against {names[0]}: {better} better, {worse} worse, {judged - better - worse} not separable from no change"
    return Group(*tables, *lines, Text(f"{end} (Holm over {judged} tests, α = {ALPHA:g}; times are not judged)"))


def _quantities(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(c.quantity for c in comparison.changes))


def _table(quantity: str, changes: list[Change], names: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from bench.report.style import number

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.title, table.title_justify = Text(quantity, style="bold"), "left"
    table.add_column("method")
    table.add_column("problems", overflow="fold")
    for head in ("n", names[0], names[1], "difference [95 %]", "p", "verdict"):
        table.add_column(Text(head), justify="right")
    for c in changes:
        d = c.difference
        interval = f"{d.mean:+.3g} [{d.low:+.3g}, {d.high:+.3g}]"
        p = "–" if np.isnan(c.p) else f"{c.p:.2g}"
        colour = {"better": "green", "worse": "red"}.get(c.verdict, "")
        row = (c.method, c.place, str(c.problems), number(c.a), number(c.b), interval, p, c.verdict)
        table.add_row(*(Text(cell, style=colour) for cell in row))
    return table
