"""Tables in the layout of Yuan et al. 2020, optionally with the numbers printed in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.aggregate import all_angles
from bench.evaluation.conventions import Convention
from bench.report import ranking, recommendation, style
from bench.report.ranking import Errors, GroupKey, below_floor, display_name
from bench.report.table import Table, TableCell, fainted
from bench.report.tables import Row, group_records
from common.text import counted

if TYPE_CHECKING:
    import pandas as pd

EFFICIENT_MS = 1000.0
"""Mean runtime below which a global method counts as efficient, as in the paper."""

METHOD_CLASSES = ("local", "inefficient global", "efficient global")
CLASS_COLOURS = {"local": "red", "inefficient global": "orange", "efficient global": "blue"}


@cache
def printed() -> pd.DataFrame:
    """Read the paper's numbers: table, dataset, condition, points, method, method_in_paper, category, metric, value (text)."""
    import pandas as pd

    with (files("bench.report") / "paper.csv").open() as file:
        return pd.read_csv(file, dtype={"value": str, "category": str, "condition": str}, keep_default_na=False)


def beside(group: GroupKey, table: str = "accuracy") -> dict[tuple[str, str], str]:
    """Return the paper's numbers on a group by method and metric, or by category and method for the category table."""
    here = ranking.select_group(printed(), group)
    here = here[here["table"] == table]
    names = ("category", "method") if table == "category" else ("method", "metric")
    return {(str(r[names[0]]), str(r[names[1]])): r["value"] for r in here.to_dict("records")}


def method_class(kind: str, mean_ms: float) -> str:
    """Return local, or efficient or inefficient global by mean runtime; an unknown time counts as inefficient."""
    if kind == "local":
        return "local"
    return "efficient global" if mean_ms < EFFICIENT_MS else "inefficient global"


def main_groups(summary: pd.DataFrame) -> list[GroupKey]:
    """Return one group per data set and condition: the number of points closest to 1 024."""
    from bench.report.ranking import groups_of

    best: dict[tuple[Any, ...], GroupKey] = {}
    for group in groups_of(summary[summary["problems"] > 0]):
        closest = best.get(group[:2], group)
        best[group[:2]] = min(closest, group, key=lambda p: abs(p[2] - 1024))
    return list(best.values())


def accuracy_table(
    title: str,
    groups: list[GroupKey],
    summary: pd.DataFrame,
    errors: Mapping[GroupKey, Errors],
    criterion: Convention,
    against: bool,
    alone: Mapping[tuple[str, int], float],
) -> Table:
    """Build Table 1, or its version for partial views: mean error and recall by data set, methods in the paper's classes.

    `alone` holds the mean ms of methods timed alone (`recommendation.alone`); where known, it determines their class.
    """
    rows = {
        group: {str(r["method"]): r for r in group_records(summary, group) if r["kind"] != "control"}
        for group in groups
    }
    theirs = {group: beside(group) if against else {} for group in groups}
    kinds = {m: str(r["kind"]) for here in rows.values() for m, r in here.items()}
    missing = {m for t in theirs.values() for m, _ in t} - set(kinds)
    classes = {m: method_class(kind, _mean_runtime(m, rows, alone)) for m, kind in kinds.items()}
    few = {m: row for here in rows.values() for m, row in here.items() if below_floor(row)}
    names = sorted(kinds, key=lambda m: (m in few, METHOD_CLASSES.index(classes[m]), m)) + sorted(missing)
    body = [[TableCell(display_name(few[m]) if m in few else m), TableCell(classes.get(m, "not run"))] for m in names]
    for group in groups:
        order = ranking.by_recall(errors[group])
        best = ranking.lowest_error(errors[group]), order.winner if order else None
        for m, cells in zip(names, body, strict=True):
            cells += _error_and_recall(rows[group].get(m), m, best, criterion, theirs[group])
    body = [fainted(cells, m in few) for m, cells in zip(names, body, strict=True)]
    heads = [("", 1), *((_short(group), 2) for group in groups)]
    columns = ["method", "group", *([f"{criterion.label} ↓", f"{criterion.recall_label} ↑"] * len(groups))]
    colours = {i: CLASS_COLOURS[classes[m]] for i, m in enumerate(names) if m in classes}
    return Table(title, columns, body, heads, colours, ACCURACY_NOTE + (AGAINST_NOTE if against else ""))


ACCURACY_NOTE = (
    "Mean error over answered problems (* if some were not answered; then never bold) and share of successes among all "
    "problems. Efficient: mean runtime below 1 s, timed alone if available. Bold: significantly different from every other "
    f"method on the same problems, p < 0.05 with Holm's correction. Methods on fewer than {ranking.MIN_PROBLEMS} problems are "
    "last, with their number n, and are not ranked."
)
AGAINST_NOTE = " In brackets: the number printed in Yuan et al. 2020."


def _short(group: GroupKey) -> str:
    dataset, condition, points = group
    return f"{dataset} {condition}" + ("" if points == 1024 else f" {points}")


def _mean_runtime(
    method: str, groups: Mapping[GroupKey, Mapping[str, Row]], alone: Mapping[tuple[str, int], float]
) -> float:
    """Average a method's mean runtimes in ms, of those timed alone if available; infinite if unknown.

    Times measured beside other processes are longer, so that a class by them could change with `--jobs`.
    """
    sizes = {points for _, _, points in groups}
    times = [alone[method, points] for points in sizes if (method, points) in alone]
    times = times or [rows[method]["time_ms_mean"] for rows in groups.values() if method in rows]
    times = [ms for ms in times if not np.isnan(ms)]
    return float(np.mean(times)) if times else np.inf


def _error_and_recall(
    row: Row | None,
    method: str,
    best: tuple[str | None, str | None],
    criterion: Convention,
    theirs: Mapping[tuple[str, str], str],
) -> list[TableCell]:
    """Return the cells of error and recall of a method on a group."""
    rmse, recall = theirs.get((method, "rmse"), ""), theirs.get((method, "recall"), "")
    if row is None or not row["problems"]:
        return [TableCell("–", np.nan, beside=rmse), TableCell("–", np.nan, beside=recall)]
    error = row[f"{criterion.metric}_mean_answered"]
    star = "*" if row["answered"] < row["problems"] else ""
    share = "–" if np.isnan(row["recall"]) else f"{row['recall']:.2f}"
    return [
        TableCell(style.number(error, 2) + star, error, method == best[0], rmse),
        TableCell(share, row["recall"], method == best[1], recall),
    ]


SHORT = {"out_of_memory": "OOM"}
"""Abbreviations of statuses in the table of times."""


def time_table(timing: pd.DataFrame, against: bool) -> Table:
    """Build Table 2: mean milliseconds by number of points and method, or OOM, timeout and other failures.

    The fastest is bold if it leads by more than 5 %, the reproducibility of times.
    """
    whole = timing[all_angles(timing) & (timing["kind"] != "control")]
    names = [method for method, _ in style.ordered_methods(whole)]
    theirs = printed()[printed()["table"] == "timing"] if against else printed().head(0)
    paper = {(r["method"], r["points"]): r["value"] for r in theirs.to_dict("records")}
    ours = {(str(r["method"]), r["points"]): r for r in whole.to_dict("records")}
    body = []
    for points in sorted(whole["points"].unique()):
        results = {m: ours.get((m, points)) for m in names}
        times = sorted(r["time_ms_mean"] for r in results.values() if r and r["status"] == "ok")
        lead = times[0] if len(times) > 1 and times[0] < 0.95 * times[1] else None
        cells = [_time_cell(results[m], lead, paper.get((m, points), "")) for m in names]
        body.append([TableCell(str(points), float(points)), *cells])
    devices = ", ".join(sorted({f"{r['device']}, {counted(r['threads'], 'thread')}" for r in ours.values()}))
    caption = f"Mean milliseconds for one pair ({devices or 'no times'}); OOM: out of memory." + (
        AGAINST_NOTE if against else ""
    )
    return Table("Time by number of points", ["points", *names], body, caption=caption)


def _time_cell(row: Mapping[Any, Any] | None, lead: float | None, beside: str) -> TableCell:
    if row is None:
        return TableCell("–", np.nan, beside=beside)
    if row["status"] != "ok":
        return TableCell(SHORT.get(row["status"], row["status"]), np.inf, beside=beside)
    ms = row["time_ms_mean"]
    return TableCell(style.number(ms, 1), ms, ms == lead, beside)


def paper_tables(
    summary: pd.DataFrame, timing: pd.DataFrame, errors: Mapping[GroupKey, Errors], criterion: Convention, against: bool
) -> dict[str, Table]:
    """Build Table 1, its version for partial views and Table 2, if the run has their data, by file name."""
    groups = main_groups(summary)
    partial = [p for p in groups if str(p[1]).split("[")[0] == "partial"]
    whole = [p for p in groups if p not in partial]
    arguments = summary, errors, criterion, against, recommendation.alone(timing, "time_ms_mean")
    tables = {}
    if whole:
        tables["table1"] = accuracy_table("Accuracy", whole, *arguments)
    if partial:
        tables["partial"] = accuracy_table("Partial views", partial, *arguments)
    if len(timing):
        tables["table2"] = time_table(timing, against)
    return tables
