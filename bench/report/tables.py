"""Tables for people: cells that know their text, their value for sorting and whether they are bold; as Markdown and HTML rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.export import FAILURES
from bench.report import style
from bench.report.compare import PLACE, CategoryTable, Place, Ranking, by_recall, lowest_rmse, place_title

if TYPE_CHECKING:
    import pandas as pd


Row = Mapping[Any, Any]
"""A row of `bench.export.summary`, by column."""


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by (its text if None)."""

    text: str
    value: float | None = None
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A titled table. `columns` are heads with their units; a row has as many cells."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]

    def markdown(self) -> str:
        """GitHub Markdown; names are escaped, so that they stay text."""
        lines = [self.columns, ["---" if i == 0 else "--:" for i in range(len(self.columns))]]
        lines += [[f"**{escaped(c.text)}**" if c.bold else escaped(c.text) for c in row] for row in self.rows]
        return "\n".join([f"### {escaped(self.title)}", "", *("| " + " | ".join(line) + " |" for line in lines), ""])

    def csv(self) -> str:
        """The texts as CSV with `\\n` line ends."""
        import csv
        import io

        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([self.columns, *([c.text for c in row] for row in self.rows)])
        return file.getvalue()


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    for old, new in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("*", "\\*"),
        ("_", "\\_"),
        ("\n", " "),
    ):
        text = text.replace(old, new)
    return text


def num(value: Any, digits: int = 3, bold: bool = False, suffix: str = "") -> Cell:
    """A cell of a number."""
    value = float(value)
    return Cell(style.number(value, digits) + suffix, value, bold)


def count(value: Any) -> Cell:
    """A cell of a whole number."""
    return Cell(str(int(value)), float(value))


def paper_rows() -> pd.DataFrame:
    """The numbers of Yuan et al. 2020: dataset, condition, points, method, method_in_paper, rmse, recall."""
    import pandas as pd

    with (files("bench.report") / "paper.csv").open() as file:
        return pd.read_csv(file)


def summary_tables(summary: pd.DataFrame, trials: pd.DataFrame, threshold: float) -> list[Table]:
    """One table a data set, condition and number of points; beside the paper's numbers where it has that very problem."""
    paper = paper_rows()
    tables = []
    for place, group in summary.groupby(PLACE, sort=True):
        here = trials[(trials[PLACE] == list(place)).all(axis=1)]
        theirs = paper[(paper[PLACE] == list(place)).all(axis=1)].set_index("method")
        ranking = by_recall(here, threshold)
        winners = ranking.winner if ranking else None, lowest_rmse(here)
        rows = sorted(group.to_dict("records"), key=lambda row: style.order(row["method"], row["kind"]))
        beside = [_paper_cells(theirs, row["method"]) if len(theirs) else None for row in rows]
        body = [_summary_row(row, winners, cells) for row, cells in zip(rows, beside, strict=True)]
        columns = _summary_heads(threshold, len(theirs) > 0)
        tables.append(Table(place_title(place), columns, body))
    return tables


def _summary_heads(threshold: float, paper: bool) -> list[str]:
    """Heads of the summary, the paper's beside ours."""
    recall, rmse = f"recall@{threshold:g} [95\u00a0%]", "RMSE mean over answered [95\u00a0%]"
    first = [recall, "paper's recall", rmse, "paper's RMSE"] if paper else [recall, rmse]
    rest = [
        "RMSE median",
        "recall sym.",
        "RMSE sym. mean",
        "RRE median (°)",
        "RTE median",
        "time median (ms)",
        "p95 (ms)",
    ]
    return ["method", "kind", "answered", *first, *rest]


def _summary_row(row: Row, winners: tuple[str | None, str | None], paper: list[Cell] | None) -> list[Cell]:
    mean = style.number(row["rmse_mean_answered"])
    if not np.isnan(row["rmse_mean_low"]):
        mean += f" [{style.number(row['rmse_mean_low'])}, {style.number(row['rmse_mean_high'])}]"
    recall = Cell(recall_text(row), row["recall"], row["method"] == winners[0])
    rmse = Cell(mean, row["rmse_mean_answered"], row["method"] == winners[1])
    return [
        Cell(row["method"]),
        Cell(row["kind"]),
        Cell(f"{row['answered']}/{row['problems']}", row["answer_rate"]),
        *([recall, paper[0], rmse, paper[1]] if paper else [recall, rmse]),
        num(row["rmse_median"]),
        num(row["recall_symmetric"], 2),
        num(row["rmse_symmetric_mean_answered"]),
        num(row["rre_deg_median"], 2),
        num(row["rte_median"]),
        num(row["time_ms_median"], 1),
        num(row["time_ms_p95"], 1),
    ]


def recall_text(row: Row) -> str:
    """Recall with its interval, such as `0.98 [0.93, 0.99]`; – where nothing was asked."""
    if np.isnan(row["recall"]):
        return "–"
    return f"{row['recall']:.2f} [{row['recall_low']:.2f}, {row['recall_high']:.2f}]"


def _paper_cells(theirs: pd.DataFrame, method: str) -> list[Cell]:
    """The paper's recall and RMSE."""
    if method not in theirs.index:
        return [Cell("–", np.nan), Cell("–", np.nan)]
    printed = theirs[["recall", "rmse"]].astype("float64").loc[method].to_numpy()
    return [Cell(f"{value:.2f}", float(value)) for value in printed]  # as printed: 0.00 there is not our 0


def coverage_table(summary: pd.DataFrame, outcomes: pd.DataFrame) -> Table:
    """Asked, answered, failed by kind (the kinds that occur), skipped, and the commonest reasons, for every cell."""
    bad = outcomes[(outcomes["phase"] == "accuracy") & (outcomes["status"] != "ok")]
    reasons = {cell: _reasons(group) for cell, group in bad.groupby(["method", *PLACE])}
    counted = ["problems", "answered", *(s for s in (*FAILURES, "skipped") if (summary[s] > 0).any())]
    rows = []
    for row in sorted(
        summary.to_dict("records"), key=lambda r: (style.order(r["method"], r["kind"]), *map(r.get, PLACE))
    ):
        place = tuple(row[name] for name in PLACE)
        numbers = [count(row[name]) for name in counted]
        rows.append(
            [Cell(row["method"]), Cell(place_title(place)), *numbers, Cell(reasons.get((row["method"], *place), ""))]
        )
    heads = ["method", "problems", "asked", *(name.replace("_", " ") for name in counted[1:]), "why (commonest)"]
    return Table("Asked, answered, failed, skipped", heads, rows)


def _reasons(group: pd.DataFrame) -> str:
    """The two commonest statuses with their messages, and how often."""
    lines = group["status"] + ": " + group["message"].fillna("").map(lambda m: style.shorten(str(m), 110))
    counts = sorted(lines.value_counts().items(), key=lambda item: (-item[1], str(item[0])))
    return "; ".join(f"{str(text).removesuffix(': ')} ({times} ×)" for text, times in counts[:2])


def category_table(place: Place, table: CategoryTable) -> Table:
    """Categories by methods: mean RMSE over answered, * where some were not."""
    mean = table.mean.to_numpy(dtype=float)
    rows = [[Cell(str(name))] for name in table.mean.index]
    for i, j in np.ndindex(*mean.shape):
        rows[i].append(num(mean[i, j], 2, bool(table.best.iat[i, j]), "*" if table.partly.iat[i, j] else ""))
    return Table(place_title(place), ["category", *map(str, table.mean.columns)], rows)


def timing_table(timing: pd.DataFrame) -> Table:
    """Times of all magnitudes by method and number of points."""
    whole = timing[(timing["angle_low"] == 0) & (timing["angle_high"] == 180)]
    rows = [
        [
            Cell(row["method"]),
            count(row["points"]),
            Cell(str(row["device"])),
            Cell(str(row["threads"]), _float(row["threads"])),
        ]
        + [
            Cell(
                row["status"]
                if row["ended"] == row["problems"]
                else f"{row['status']} ({row['problems'] - row['ended']} ×)"
            )
        ]
        + [num(row[name], 1) for name in ("time_ms_median", "time_ms_p95", "throughput_per_s", "peak_mb")]
        + [count(row["ended"])]
        for row in sorted(whole.to_dict("records"), key=lambda r: (style.order(r["method"], r["kind"]), r["points"]))
    ]
    heads = [
        "method",
        "points",
        "device",
        "threads",
        "status",
        "median (ms)",
        "p95 (ms)",
        "pairs/s, one at a time",
        "peak (MB)",
        "timed",
    ]
    return Table("Time for one pair", heads, rows)


def _float(value: Any) -> float:
    return float(value) if value is not None else np.nan


def stage_table(stages: pd.DataFrame) -> Table:
    """Median time of each stage a method names."""
    rows = [
        [Cell(r["method"]), count(r["points"]), Cell(r["stage"]), num(r["time_ms_median"], 1)]
        for r in stages.to_dict("records")
    ]
    return Table("Where the time goes", ["method", "points", "stage", "median (ms)"], rows)


def headlines(summary: pd.DataFrame, trials: pd.DataFrame, threshold: float) -> list[str]:
    """A sentence or two for each place, computed: who is best, whether that is separable, what failed."""
    found = []
    for place, group in summary.groupby(PLACE, sort=True):
        here = trials[(trials[PLACE] == list(place)).all(axis=1)]
        ranking = by_recall(here, threshold)
        if ranking is not None:
            rows = group.set_index("method").to_dict("index")
            found.append(f"{place_title(place)}: {_best(ranking, rows, threshold)}{_failed(group)}")
    return found


def _best(ranking: Ranking, rows: Mapping[Any, Row], threshold: float) -> str:
    first = ranking.methods[0]
    text = f"highest recall@{threshold:g} is {first} with {recall_text(rows[first])}"
    if ranking.winner:
        return f"{text}, above {ranking.methods[1]} with {rows[ranking.methods[1]]['recall']:.2f} (McNemar p = {ranking.p:.1g})."
    near = ranking.methods[1 : ranking.tied]
    named = ", ".join(near[:4]) + (f" and {len(near) - 4} more" if len(near) > 4 else "")
    timed = {
        m: rows[m]["time_ms_median"] for m in ranking.methods[: ranking.tied] if np.isfinite(rows[m]["time_ms_median"])
    }
    quick = min(timed, key=lambda m: timed[m]) if timed else None
    fastest = f" Fastest of these: {quick}, {style.number(timed[quick], 1)} ms." if near and quick else ""
    return f"{text}{f'; not separable from it: {named}' if named else ''}.{fastest}"


def _failed(group: pd.DataFrame) -> str:
    """How many of the asked were not answered, and by whom most."""
    asked, answered = int(group["problems"].sum()), int(group["answered"].sum())
    if asked == answered:
        return f" All {asked} asked were answered."
    worst = max(group.to_dict("records"), key=lambda row: row["problems"] - row["answered"])
    lost = int(worst["problems"] - worst["answered"])
    most = f"{worst['method']} ({lost} of {int(worst['problems'])})"
    return f" {asked - answered} of {asked} asked were not answered; most by {most}."
