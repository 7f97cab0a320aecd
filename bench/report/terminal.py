"""Terminal output: the summary of a run and the comparison of two; tables drop columns until they fit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.statistics import ALPHA, MIN_SHARED
from bench.report import ranking, style
from bench.report import table as report_table
from bench.report.recommendation import recommend
from bench.report.selection import by_rank
from common.devices import CPU

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from bench.evaluation.compare import Change, Comparison
    from bench.evaluation.conventions import Convention

NAME, LONGEST_NAME = 18, 40
"""Characters of a method's name that are always shown, and at most where a terminal has room for them."""

HEADS = ("answered", "recall [95 %]", "{error} ans.", "{error} med.", "RRE °", "RTE", "ms", "p95 ms")
"""Heads of the columns after that of the methods."""
DROPPED = (7, 5, 3, 4, 0, 2, 6)
"""Columns that are left out until a table fits, by number in `HEADS`, the first first."""


def terminal_summary(
    frames: Mapping[str, pd.DataFrame],
    errors: Mapping[ranking.GroupKey, ranking.Errors],
    criterion: Convention,
    width: int = 80,
) -> Group:
    """Format the summary of `aggregate.tables` for a terminal: a table and a verdict per group; see `errors_by_group`.

    A table has the method and its recall even if the terminal is too narrow for both; print it without cropping.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[Table | Text] = []
    for group, own in errors.items():
        rows = ranking.select_group(frames["summary"], group).to_dict("records")
        evaluated: list[Mapping[Any, Any]] = [row for row in rows if row["problems"]]
        recommendation = recommend(evaluated, own, frames["timing"])
        order = by_rank(evaluated, recommendation.ranking)
        parts.append(_summary_table(ranking.group_title(group), order, criterion, width, recommendation.devices))
        parts.append(Text(recommendation.sentence(criterion.recall_label) + "\n"))
    run = frames["summary"].groupby("method", observed=True)["problems"].sum()
    missing = style.not_run([{"method": method, "problems": count} for method, count in run.items()])
    parts.append(Text(style.device_note(style.devices_of(frames["timing"]).values()) + "\n", style="dim"))
    return Group(*parts, *([Text(missing + "\n", style="dim")] if missing else []))


def table_for_terminal(table: report_table.Table, width: int = 80) -> Group:
    """Format a table of the report for a terminal of at least 80 columns: its first columns, as many as fit, and its caption."""
    from rich.console import Group
    from rich.text import Text

    shown, left = _new_table(table.title), max(width, 80) - 2  # the blank edges of the table
    for number, head in enumerate(table.heads):
        cells = [row[number].whole if number else style.shorten_name(row[0].whole, NAME + 10) for row in table.rows]
        least = max(map(len, [*head.split(), *cells]))
        left -= least + 2
        if left < 0:
            break
        shown.add_column(Text(head), justify="right" if number else "left", no_wrap=not number, min_width=least)
    for row in table.rows:
        texts = [cell.whole for cell in row[: len(shown.columns)]]
        texts[0] = style.shorten_name(texts[0], NAME + 10)
        shown.add_row(*(Text(text, style="dim" if cell.faint else "") for text, cell in zip(texts, row, strict=False)))
    return Group(shown, Text(table.caption + "\n", style="dim"))


def json_summary(
    frames: Mapping[str, pd.DataFrame],
    errors: Mapping[ranking.GroupKey, ranking.Errors],
    criterion: Convention,
    places: Mapping[str, Path],
) -> str:
    """Format the summary as one JSON object: convention, a list of groups with their rows and verdicts, and the files."""
    groups = []
    for group in errors:
        rows = ranking.select_group(frames["summary"], group)
        advice = recommend(rows.to_dict("records"), errors[group], frames["timing"])
        names = dict(zip(ranking.GROUP_KEY_COLUMNS, group, strict=True))
        tied = list(advice.ranking.tied) if advice.ranking else []
        verdict = {"tied": tied, "recommended": advice.method, "sentence": advice.sentence(criterion.recall_label)}
        own = [{n: _plain(v) for n, v in row.items()} for row in rows.to_dict("records")]
        groups.append({n: _plain(v) for n, v in names.items()} | verdict | {"methods": own})
    content = {"convention": criterion.name, "groups": groups, "files": {n: str(p) for n, p in places.items()}}
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Return a value for JSON: "inf" for infinity, None for NaN."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else "inf"
    return str(value)


def _new_table(title: str, **settings: Any) -> Table:
    """Create an empty table with a left-aligned title; the title is plain text."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), **settings)
    table.title, table.title_justify = Text(title, style="bold"), "left"
    return table


def _summary_table(
    title: str,
    rows: Sequence[Mapping[Any, Any]],
    criterion: Convention,
    width: int,
    devices: Mapping[str, str] | None = None,
) -> Table:
    """Build the table of one problem group; names of methods are plain text, never markup.

    `devices` has the device of each method's times; by default all are of the CPU.
    """
    from rich.text import Text

    error = {"rmse": "RMSE", "rte": "RTE"}.get(criterion.metric, "error")
    lines = [
        ["method", *(head.format(error=error) for head in HEADS)],
        *(_summary_cells(r, criterion, (devices or {}).get(str(r["method"]), CPU)) for r in rows),
    ]
    left = width - 4 - sum(max(map(len, column)) + 2 for column in list(zip(*lines, strict=True))[1:])
    for row, line in zip(rows, lines[1:], strict=True):
        line[0] = _name(row, min(max(NAME, left), LONGEST_NAME))
    shown, needed = _fitting(lines, width)
    table = _new_table(title, width=needed if needed > width else None)
    table.add_column("method", no_wrap=True, min_width=NAME)
    for i in shown[1:]:
        table.add_column(lines[0][i], justify="right", no_wrap=True)
    for row, line in zip(rows, lines[1:], strict=True):
        dim = "dim" if row["kind"] == "control" or ranking.below_floor(row) else ""
        table.add_row(*(Text(line[i], style=dim) for i in shown))
    return table


def _fitting(lines: Sequence[Sequence[str]], width: int) -> tuple[list[int], int]:
    """Return the columns of a table that fit in a width, each with two spaces behind it, and the width that they need."""
    needs = [max(NAME if i == 0 else 0, *(len(line[i]) for line in lines)) + 2 for i in range(len(lines[0]))]
    shown, needed = list(range(len(needs))), sum(needs) + 2  # the blank edges of the table
    for drop in DROPPED:
        if needed <= width:
            break
        shown.remove(drop + 1)
        needed -= needs[drop + 1]
    return shown, needed


def _summary_cells(row: Mapping[Any, Any], criterion: Convention, device: str = CPU) -> list[str]:
    recall = "–"
    if row["problems"] and row["recall"] == row["recall"]:
        recall = f"{row['recall']:.2f} [{row['recall_low']:.2f},{row['recall_high']:.2f}]"
    names = {f"{criterion.metric}_mean_answered": 3, f"{criterion.metric}_median": 3}
    shown = [*names.items(), ("rre_deg_median", 2), ("rte_median", 3), ("time_ms_median", 1), ("time_ms_p95", 1)]
    numbers = [style.number(row[name], digits) for name, digits in shown]
    numbers[-2] += style.gpu_mark(device)
    return [_name(row), f"{row['answered']}/{row['problems']}", recall, *numbers]


def _name(row: Mapping[Any, Any], width: int = NAME) -> str:
    """Shorten a row's name in the middle, since variants of a method differ at the end; its number of problems is kept."""
    name = str(row["method"])
    count = ranking.display_name(row)[len(name) :]
    return style.shorten_name(name, width - len(count)) + count


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
