"""Terminal output: the summary of a run and the comparison of two, for 100 columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from bench.evaluation.statistics import ALPHA, MIN_SHARED
from bench.report import ranking, style
from bench.report import table as report_table
from bench.report.recommendation import recommend
from bench.report.tables import groups_of

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from bench.evaluation.compare import Change, Comparison
    from bench.evaluation.conventions import Convention

NAME = 18
"""Width of the column of methods in characters."""
TERMINAL_COLUMNS = 8
"""Columns of a table of the report that fit into a terminal."""


def terminal_summary(frames: Mapping[str, pd.DataFrame], criterion: Convention) -> Group:
    """Format the summary of `aggregate.tables` for a terminal, at most 100 columns wide: one table and verdict per group."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Table | Text] = []
    for group in groups_of(frames["summary"]):
        rows = ranking.select_group(frames["summary"], group).to_dict("records")
        evaluated = [row for row in rows if row["problems"]]
        errors = ranking.errors_of(ranking.select_group(frames["trials"], group), criterion)
        recommendation = recommend(evaluated, errors, frames["timing"])
        order = sorted(evaluated, key=lambda row: _order(row, recommendation.ranking))
        parts.append(_summary_table(ranking.group_title(group), order, style.not_run(rows), criterion))
        parts.append(Text(recommendation.sentence(criterion.recall_label) + "\n"))
    return Group(*parts)


def table_for_terminal(table: report_table.Table) -> Group:
    """Format a table of the report for a terminal of 100 columns, without what does not fit: its first columns and caption."""
    from rich.console import Group
    from rich.text import Text

    shown = _new_table(table.title)
    for number, head in enumerate(table.heads[:TERMINAL_COLUMNS]):
        first = number == 0
        width = NAME + 10 if first else None
        shown.add_column(Text(head), justify="left" if first else "right", no_wrap=first, min_width=width)
    for row in table.rows:
        cells = row[:TERMINAL_COLUMNS]
        shown.add_row(*(Text(cell.whole, style="dim" if cell.faint else "") for cell in cells))
    return Group(shown, Text(table.caption + "\n", style="dim"))


def _order(row: dict[Hashable, Any], order: ranking.Ranking | None) -> tuple[bool, bool, int, float, str]:
    """Return the sort key of a row: by the ranking; controls after the others, too few problems last."""
    ranked = [*order.methods, *order.few] if order else []
    method, recall = str(row["method"]), float(row["recall"])
    place = ranked.index(method) if method in ranked else len(ranked)
    return ranking.below_floor(row), row["kind"] == "control", place, 0.0 if math.isnan(recall) else -recall, method


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
        dim = "dim" if row["kind"] == "control" or ranking.below_floor(row) else ""
        table.add_row(*(Text(cell, style=dim) for cell in _summary_cells(row, criterion)))
    return table


def _summary_cells(row: dict[Hashable, Any], criterion: Convention) -> list[str]:
    recall = "–"
    if row["problems"] and row["recall"] == row["recall"]:
        recall = f"{row['recall']:.2f} [{row['recall_low']:.2f},{row['recall_high']:.2f}]"
    names = {f"{criterion.metric}_mean_answered": 3, f"{criterion.metric}_median": 3}
    shown = [*names.items(), ("rre_deg_median", 2), ("rte_median", 3), ("time_ms_median", 1), ("time_ms_p95", 1)]
    numbers = [style.number(row[name], digits) for name, digits in shown]
    return [_name(row), f"{row['answered']}/{row['problems']}", recall, *numbers]


def _name(row: dict[Hashable, Any]) -> str:
    """Shorten a row's name in the middle, since variants of a method differ at the end; its number of problems is kept."""
    name = str(row["method"])
    count = ranking.display_name(row)[len(name) :]
    width = NAME - len(count)
    return (name if len(name) <= width else f"{name[: width // 2]}…{name[-(width - width // 2 - 1) :]}") + count


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
    test = f"Holm over {tested} tests, α = {ALPHA:g}; not tested: times, and fewer than {MIN_SHARED} problems"
    return Group(*tables, *remarks, Text(f"{verdict} ({test})"))


def _comparison_table(quantity: str, changes: list[Change], names: tuple[str, str]) -> Table:
    from rich.text import Text

    table = _new_table(quantity)
    table.add_column("method")
    table.add_column("problems", overflow="fold")
    for head in ("n", names[0], names[1], "difference [95 %]", "p", "verdict"):
        table.add_column(Text(head), justify="right")
    for c in changes:
        d = c.difference
        interval = f"{d.mean:+.3g}" + ("" if math.isnan(d.low) else f" [{d.low:+.3g}, {d.high:+.3g}]")
        p = "–" if math.isnan(c.p) else f"{c.p:.2g}"
        colour = {"better": "green", "worse": "red"}.get(c.verdict, "")
        row = (c.method, c.group, str(c.problems), style.number(c.a), style.number(c.b), interval, p, c.verdict)
        table.add_row(*(Text(cell, style=colour) for cell in row))
    return table
