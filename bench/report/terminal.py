"""The summary at the end of a run, for a terminal of 100 columns."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from bench.report import ranking, recommendation, style

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from bench.evaluation.conventions import Convention

NAME = 18
"""Characters of a method's name that fit beside the numbers."""


def terminal_summary(summary: pd.DataFrame, timing: pd.DataFrame, view: Convention) -> Group:
    """Format `aggregate.summary` and `timing` for a terminal, at most 100 columns wide: one table per group and a verdict."""
    from rich.console import Group
    from rich.text import Text

    alone = recommendation.alone(timing, "time_ms_median")
    parts: list[Table | Text] = []
    for place, group in summary.groupby(ranking.GROUP_KEY_COLUMNS, sort=True, observed=True):
        rows = group.to_dict("records")
        asked = {str(row["method"]): row for row in rows if row["problems"]}
        methods = [_standing(row) for row in asked.values() if row["kind"] != "control"]
        controls = [_standing(row) for row in asked.values() if row["kind"] == "control"]
        order = [asked[s.method] for s in recommendation.ranked(methods) + recommendation.ranked(controls)]
        parts.append(_table(ranking.group_title(place), order, style.not_run(rows), view))
        parts.append(Text(_verdict(methods, alone, int(rows[0]["points"])) + "\n"))
    return Group(*parts)


def _standing(row: dict[Hashable, Any]) -> recommendation.Standing:
    names = ("recall", "recall_low", "recall_high", "time_ms_median")
    return recommendation.Standing(str(row["method"]), int(row["problems"]), *(float(row[name]) for name in names))


def _verdict(methods: list[recommendation.Standing], alone: dict[tuple[str, int], float], points: int) -> str:
    """The advice by the times of methods timed alone, if there are any at this size; else by those in the table."""
    timed = [s._replace(ms=alone.get((s.method, points), math.nan)) for s in methods]
    if all(math.isnan(s.ms) for s in timed):
        return recommendation.advice(recommendation.ranked(methods))
    return recommendation.advice(recommendation.ranked(timed), how=", timed alone")


def _table(title: str, rows: list[dict[Hashable, Any]], caption: str, view: Convention) -> Table:
    """One place's methods; names are plain text, whatever markup they look like."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), width=100)
    table.title, table.title_justify = Text(title, style="bold"), "left"
    table.caption, table.caption_justify = Text(caption, style="dim"), "left"
    table.add_column("method", overflow="ellipsis", no_wrap=True, ratio=1, min_width=NAME)
    error = {"rmse": "RMSE", "rte": "RTE"}.get(view.metric, "error")
    for head in ("answered", "recall [95 %]", f"{error} ans.", f"{error} med.", "RRE °", "RTE", "ms", "p95 ms"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        dim = "dim" if row["kind"] == "control" else ""
        table.add_row(*(Text(cell, style=dim) for cell in _cells(row, view)))
    return table


def _cells(row: dict[Hashable, Any], view: Convention) -> list[str]:
    recall = "–"
    if row["problems"] and row["recall"] == row["recall"]:
        recall = f"{row['recall']:.2f} [{row['recall_low']:.2f},{row['recall_high']:.2f}]"
    names = {f"{view.metric}_mean_answered": 3, f"{view.metric}_median": 3}
    shown = [*names.items(), ("rre_deg_median", 2), ("rte_median", 3), ("time_ms_median", 1), ("time_ms_p95", 1)]
    numbers = [style.number(row[name], digits) for name, digits in shown]
    return [_squeezed(str(row["method"])), f"{row['answered']}/{row['problems']}", recall, *numbers]


def _squeezed(name: str) -> str:
    """A name cut in the middle: variants of one method differ at the end."""
    return name if len(name) <= NAME else f"{name[: NAME // 2]}…{name[-(NAME - NAME // 2 - 1) :]}"
