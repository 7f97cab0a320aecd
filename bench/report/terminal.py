"""The summary at the end of a run, for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from bench.report import style

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table

    from bench.conventions import Convention

NAME = 18
"""Characters of a method's name that fit beside the numbers."""


def terminal_summary(summary: pd.DataFrame, view: Convention) -> Group:
    """What to print of `bench.export.summary`, at most 100 columns wide: a table a data set, condition and size."""
    from rich.console import Group

    places = summary.groupby(["dataset", "condition", "points"], sort=True, observed=True)
    return Group(*(_table(f"{place[0]} · {place[1]} · {place[2]} points", group, view) for place, group in places))


def _table(title: str, group: pd.DataFrame, view: Convention) -> Table:
    """One place's methods; names are plain text, whatever markup they look like."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), width=100)
    table.title, table.title_justify = Text(title, style="bold"), "left"
    table.add_column("method", overflow="ellipsis", no_wrap=True, ratio=1, min_width=NAME)
    error = {"rmse": "RMSE", "rte": "RTE"}.get(view.metric, "error")
    for head in ("answered", "recall [95 %]", f"{error} ans.", f"{error} med.", "RRE °", "RTE", "ms", "p95 ms"):
        table.add_column(head, justify="right", no_wrap=True)
    rows = sorted(group.to_dict("records"), key=lambda r: style.order(str(r["method"]), str(r["kind"])))
    table.caption, table.caption_justify = Text(style.not_asked(rows), style="dim"), "left"
    for row in rows:
        if not row["problems"]:
            continue
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
