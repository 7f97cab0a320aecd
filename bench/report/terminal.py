"""The summary at the end of a run, for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from bench.report import style

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table


def terminal_summary(summary: pd.DataFrame) -> Group:
    """What to print of `bench.export.summary`, at most 100 columns wide: a table a data set, condition and size."""
    from rich.console import Group

    places = summary.groupby(["dataset", "condition", "points"], sort=True)
    return Group(*(_table(f"{place[0]} · {place[1]} · {place[2]} points", group) for place, group in places))


def _table(title: str, group: pd.DataFrame) -> Table:
    """One place's methods; names are plain text, whatever markup they look like."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), width=100)
    table.title, table.title_justify = Text(title, style="bold"), "left"
    table.add_column("method", overflow="ellipsis", no_wrap=True, ratio=1)
    for head in HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    for row in sorted(group.to_dict("records"), key=lambda r: style.order(r["method"], r["kind"])):
        dim = "dim" if row["kind"] == "control" else ""
        table.add_row(*(Text(cell, style=dim) for cell in _cells(row)))
    return table


def _cells(row: dict[Hashable, Any]) -> list[str]:
    recall = "–"
    if row["problems"]:
        recall = f"{row['recall']:.2f} [{row['recall_low']:.2f},{row['recall_high']:.2f}]"
    numbers = [style.number(row[name], digits) for name, digits in COLUMNS]
    return [row["method"], f"{row['answered']}/{row['problems']}", recall, *numbers]


HEADS = ["answered", "recall [95 %]", "RMSE ans.", "RMSE med.", "RRE °", "RTE", "ms", "p95 ms"]
COLUMNS = [
    ("rmse_mean_answered", 3),
    ("rmse_median", 3),
    ("rre_deg_median", 2),
    ("rte_median", 3),
    ("time_ms_median", 1),
    ("time_ms_p95", 1),
]
