"""Terminal output: the summary of a run and the comparison of two, for 100 columns."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from bench.evaluation.statistics import ALPHA
from bench.report import ranking, recommendation, style

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from bench.evaluation.compare import Change, Comparison
    from bench.evaluation.conventions import Convention

NAME = 18
"""Width of the column of methods in characters."""


def terminal_summary(summary: pd.DataFrame, timing: pd.DataFrame, criterion: Convention) -> Group:
    """Format `aggregate.summary` and `timing` for a terminal, at most 100 columns wide: one table per group and a verdict."""
    from rich.console import Group
    from rich.text import Text

    alone = recommendation.alone(timing, "time_ms_median")
    parts: list[Table | Text] = []
    for group, members in summary.groupby(ranking.GROUP_KEY_COLUMNS, sort=True, observed=True):
        rows = members.to_dict("records")
        evaluated = {str(row["method"]): row for row in rows if row["problems"]}
        methods = [_standing(row) for row in evaluated.values() if row["kind"] != "control"]
        controls = [_standing(row) for row in evaluated.values() if row["kind"] == "control"]
        order = [evaluated[s.method] for s in recommendation.ranked(methods) + recommendation.ranked(controls)]
        parts.append(_summary_table(ranking.group_title(group), order, style.not_run(rows), criterion))
        parts.append(Text(_verdict(methods, alone, int(rows[0]["points"])) + "\n"))
    return Group(*parts)


def _standing(row: dict[Hashable, Any]) -> recommendation.Standing:
    names = ("recall", "recall_low", "recall_high", "time_ms_median")
    return recommendation.Standing(str(row["method"]), int(row["problems"]), *(float(row[name]) for name in names))


def _verdict(methods: list[recommendation.Standing], alone: dict[tuple[str, int], float], points: int) -> str:
    """Return the advice by the times of methods timed alone at this number of points, else by those in the table."""
    timed = [s._replace(ms=alone.get((s.method, points), math.nan)) for s in methods]
    if all(math.isnan(s.ms) for s in timed):
        return recommendation.advice(recommendation.ranked(methods))
    return recommendation.advice(recommendation.ranked(timed), how=", timed alone")


def _new_table(title: str, **settings: Any) -> Table:
    """Create an empty table with a left-aligned title; the title is plain text."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), **settings)
    table.title, table.title_justify = Text(title, style="bold"), "left"
    return table


def _summary_table(title: str, rows: list[dict[Hashable, Any]], caption: str, criterion: Convention) -> Table:
    """Build the table of one problem group; names of methods are plain text, never markup."""
    from rich.text import Text

    table = _new_table(title, width=100)
    table.caption, table.caption_justify = Text(caption, style="dim"), "left"
    table.add_column("method", overflow="ellipsis", no_wrap=True, ratio=1, min_width=NAME)
    error = {"rmse": "RMSE", "rte": "RTE"}.get(criterion.metric, "error")
    for head in ("answered", "recall [95 %]", f"{error} ans.", f"{error} med.", "RRE °", "RTE", "ms", "p95 ms"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        dim = "dim" if row["kind"] == "control" else ""
        table.add_row(*(Text(cell, style=dim) for cell in _summary_cells(row, criterion)))
    return table


def _summary_cells(row: dict[Hashable, Any], criterion: Convention) -> list[str]:
    recall = "–"
    if row["problems"] and row["recall"] == row["recall"]:
        recall = f"{row['recall']:.2f} [{row['recall_low']:.2f},{row['recall_high']:.2f}]"
    names = {f"{criterion.metric}_mean_answered": 3, f"{criterion.metric}_median": 3}
    shown = [*names.items(), ("rre_deg_median", 2), ("rte_median", 3), ("time_ms_median", 1), ("time_ms_p95", 1)]
    numbers = [style.number(row[name], digits) for name, digits in shown]
    return [_shorten_middle(str(row["method"])), f"{row['answered']}/{row['problems']}", recall, *numbers]


def _shorten_middle(name: str) -> str:
    """Shorten a name in the middle, since variants of a method differ at the end."""
    return name if len(name) <= NAME else f"{name[: NAME // 2]}…{name[-(NAME - NAME // 2 - 1) :]}"


def comparison_summary(comparison: Comparison, names: tuple[str, str]) -> Group:
    """Format the comparison of two runs for a terminal: one table per quantity, the remarks and the verdict."""
    from rich.console import Group
    from rich.text import Text

    changes = comparison.changes
    quantities = dict.fromkeys(c.quantity for c in changes)
    tables = [_comparison_table(q, [c for c in changes if c.quantity == q], names) for q in quantities]
    remarks = [Text(remark, style="dim") for remark in comparison.remarks]
    better, worse = (sum(c.verdict == verdict for c in changes) for verdict in ("better", "worse"))
    tested = sum(c.verdict != "not tested" for c in changes)
    verdict = (
        f"{names[1]} compared with {names[0]}: {better} better, {worse} worse, "
        f"{tested - better - worse} without significant change"
    )
    return Group(*tables, *remarks, Text(f"{verdict} (Holm over {tested} tests, α = {ALPHA:g}; times are not tested)"))


def _comparison_table(quantity: str, changes: list[Change], names: tuple[str, str]) -> Table:
    from rich.text import Text

    table = _new_table(quantity)
    table.add_column("method")
    table.add_column("problems", overflow="fold")
    for head in ("n", names[0], names[1], "difference [95 %]", "p", "verdict"):
        table.add_column(Text(head), justify="right")
    for c in changes:
        d = c.difference
        interval = f"{d.mean:+.3g} [{d.low:+.3g}, {d.high:+.3g}]"
        p = "–" if math.isnan(c.p) else f"{c.p:.2g}"
        colour = {"better": "green", "worse": "red"}.get(c.verdict, "")
        row = (c.method, c.group, str(c.problems), style.number(c.a), style.number(c.b), interval, p, c.verdict)
        table.add_row(*(Text(cell, style=colour) for cell in row))
    return table
