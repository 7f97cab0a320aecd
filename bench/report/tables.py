"""The tables of a report: summary, coverage, failures, categories, times, stages, conventions, duels, and headlines in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.aggregate import FAILURES
from bench.evaluation.conventions import Convention
from bench.report import ranking, style
from bench.report.ranking import GROUP_KEY_COLUMNS, CategoryTable, Duel, Errors, GroupKey, Ranking, group_title
from bench.report.table import Table, TableCell, count, num

if TYPE_CHECKING:
    import pandas as pd


Row = Mapping[Any, Any]
"""A row of `bench.evaluation.aggregate.summary`, by column."""


def groups_of(frame: pd.DataFrame) -> list[GroupKey]:
    """Every data set, condition and number of points of a frame, sorted."""
    return sorted({tuple(p) for p in frame[GROUP_KEY_COLUMNS].drop_duplicates().itertuples(index=False, name=None)})


def group_records(frame: pd.DataFrame, group: GroupKey) -> list[Row]:
    """The rows of a group as dicts, in the order of methods."""
    rows: list[Row] = ranking.select_group(frame, group).to_dict("records")  # type: ignore[assignment]
    return sorted(rows, key=lambda row: style.order(str(row["method"]), str(row["kind"])))


def summary_table(
    group: GroupKey, rows: list[Row], errors: Errors, criterion: Convention, beside: Mapping[tuple[str, str], str]
) -> Table:
    """The summary of one group. `beside` holds the paper's numbers by method and metric; empty if they are not asked for."""
    order = ranking.by_recall(errors)
    winners = order.winner if order else None, ranking.lowest_error(errors.error, errors.methods)
    heads = ["method", "kind", "answered", f"{criterion.recall_label} [95\u00a0%]"]
    heads += [f"{criterion.label} mean over answered [95\u00a0%]", f"{criterion.label} median"]
    heads += ["recall sym.", "RMSE sym. mean", "RRE median (°)", "RTE median", "time median (ms)", "p95 (ms)"]
    heads += ["seed SD", "problem SD"]
    asked = [row for row in rows if row["problems"]]
    body = [_summary_row(row, winners, criterion, beside) for row in asked]
    return Table(group_title(group), heads, body, caption=style.not_run(rows))


def _summary_row(
    row: Row, winners: tuple[str | None, str | None], criterion: Convention, beside: Mapping[tuple[str, str], str]
) -> list[TableCell]:
    m, method = criterion.metric, str(row["method"])
    mean = style.number(row[f"{m}_mean_answered"])
    if not np.isnan(row[f"{m}_mean_low"]):
        mean += f" [{style.number(row[f'{m}_mean_low'])}, {style.number(row[f'{m}_mean_high'])}]"
    return [
        TableCell(method),
        TableCell(str(row["kind"])),
        TableCell(f"{row['answered']}/{row['problems']}", row["answer_rate"]),
        TableCell(recall_text(row), row["recall"], method == winners[0], beside.get((method, "recall"), "")),
        TableCell(mean, row[f"{m}_mean_answered"], method == winners[1], beside.get((method, "rmse"), "")),
        num(row[f"{m}_median"]),
        num(row["recall_symmetric"], 2),
        num(row["rmse_symmetric_mean_answered"]),
        num(row["rre_deg_median"], 2),
        num(row["rte_median"]),
        num(row["time_ms_median"], 1),
        num(row["time_ms_p95"], 1),
        num(row[f"{m}_seed_sd"]),
        num(row[f"{m}_problem_sd"]),
    ]


def recall_text(row: Row) -> str:
    """Recall with its interval, such as `0.98 [0.93, 0.99]`; – where nothing was asked or success is not defined."""
    if np.isnan(row["recall"]):
        return "–"
    return f"{row['recall']:.2f} [{row['recall_low']:.2f}, {row['recall_high']:.2f}]"


def coverage_table(summary: pd.DataFrame) -> Table:
    """Asked, answered, failed by kind (the kinds that occur) and skipped, for every method and group."""
    counted = ["problems", "answered", *(s for s in (*FAILURES, "skipped") if (summary[s] > 0).any())]
    rows: list[Row] = summary.to_dict("records")  # type: ignore[assignment]
    ordered = sorted(
        rows, key=lambda r: (style.order(str(r["method"]), str(r["kind"])), *map(r.get, GROUP_KEY_COLUMNS))
    )
    body = [
        [
            TableCell(str(r["method"])),
            TableCell(group_title(tuple(r[n] for n in GROUP_KEY_COLUMNS))),
            *(count(r[n]) for n in counted),
        ]
        for r in ordered
    ]
    heads = ["method", "problems", "asked", *(name.replace("_", " ") for name in counted[1:])]
    return Table("Asked, answered, failed, skipped", heads, body)


def failure_table(outcomes: pd.DataFrame) -> Table:
    """Every way of not answering with its message and how often it came, the most frequent first; at most 300 rows."""
    columns = ["method", *GROUP_KEY_COLUMNS, "status", "message"]
    bad = outcomes.loc[(outcomes["phase"] == "accuracy") & (outcomes["status"] != "ok"), [*columns, "problem"]]
    if bad.empty:
        return Table("Failures and their messages", FAILURE_HEADS, [])
    by_message = bad.groupby(columns, observed=True, sort=True)["problem"]
    counts = by_message.agg(["size", "first"]).reset_index()
    counts = counts.sort_values("size", ascending=False, kind="stable").head(MAX_FAILURE_ROWS)
    rows = []
    for r in counts.to_dict("records"):
        what = [
            TableCell(str(r["method"])),
            TableCell(group_title(tuple(r[n] for n in GROUP_KEY_COLUMNS))),
            TableCell(str(r["status"])),
            count(r["size"]),
        ]
        rows.append([*what, TableCell(style.shorten(str(r["message"]), 300)), TableCell(str(r["first"]))])
    return Table("Failures and their messages", FAILURE_HEADS, rows)


FAILURE_HEADS = ["method", "problems", "status", "times", "message", "first problem"]
MAX_FAILURE_ROWS = 300
"""Longest list of failure messages in a report."""


def category_table(
    group: GroupKey, table: CategoryTable, criterion: Convention, beside: Mapping[tuple[str, str], str]
) -> Table:
    """Categories by methods: mean error over answered, * where some were not; `beside`: the paper's, by category and method."""
    mean = table.mean.to_numpy(dtype=float)
    methods = [str(m) for m in table.mean.columns]
    rows = [[TableCell(str(name))] for name in table.mean.index]
    for i, j in np.ndindex(*mean.shape):
        cell = num(mean[i, j], 2, bool(table.best.iat[i, j]), "*" if table.partly.iat[i, j] else "")
        theirs = beside.get((rows[i][0].text, methods[j]), "")
        rows[i].append(TableCell(cell.text, cell.value, cell.bold, theirs))
    title = f"{criterion.label} by category: {group_title(group)}"
    return Table(title, ["category", *methods], rows, caption=CATEGORY_NOTE)


CATEGORY_NOTE = (
    "Mean error over answered problems; * where some were not answered. Bold: lowest of the methods that answered everything, "
    "controls aside, if paired tests on the same problems separate it from every other (p < 0.05 with Holm's correction; never "
    "with fewer than six problems)."
)


def timing_table(timing: pd.DataFrame) -> Table:
    """Times of all magnitudes by method and number of points."""
    whole = timing[(timing["angle_low"] == 0) & (timing["angle_high"] == 180)]
    records: list[Row] = whole.to_dict("records")  # type: ignore[assignment]
    extra = {name: head for name, head in TIMED_SOMETIMES.items() if whole[name].notna().any()}
    rows = [
        [TableCell(str(r["method"])), count(r["points"]), TableCell(str(r["device"])), count(r["threads"])]
        + [TableCell(r["status"] if r["ended"] == r["problems"] else f"{r['status']} ({r['problems'] - r['ended']} ×)")]
        + [num(r[name], 1) for name in ("time_ms_median", "time_ms_p95", "throughput_per_s", "peak_mb")]
        + [count(r["ended"])]
        + [num(r[name], 0 if name == "batch" else 1) for name in extra]
        for r in sorted(records, key=lambda r: (style.order(str(r["method"]), str(r["kind"])), r["points"]))
    ]
    heads = ["method", "points", "device", "threads", "status", "time median (ms)", "p95 (ms)"]
    heads += ["pairs/s, one at a time", "peak (MB)", "timed"]
    return Table("Time for one pair", [*heads, *extra.values()], rows)


TIMED_SOMETIMES = {
    "pairs_per_s": "pairs/s in batches",
    "batch": "pairs a batch",
    "gpu_memory_mb": "GPU memory, peak (MB)",
}
"""Columns of the timing table that stand there if any method has a value, by their name in timing.csv."""


def stage_table(stages: pd.DataFrame) -> Table:
    """Median time of each stage a method names."""
    rows = [
        [TableCell(str(r["method"])), count(r["points"]), TableCell(str(r["stage"])), num(r["time_ms_median"], 1)]
        for r in stages.to_dict("records")
    ]
    return Table("Where the time goes", ["method", "points", "stage", "time median (ms)"], rows)


def convention_table(found: pd.DataFrame, criteria: Mapping[str, Convention]) -> Table:
    """Tabulate the run under every convention: mean error over answered problems and recall (`conventions.by_convention`)."""
    rows, order = [], {name: i for i, name in enumerate(criteria)}
    records: list[Row] = found.to_dict("records")  # type: ignore[assignment]
    for r in sorted(
        records,
        key=lambda r: (
            *(r[n] for n in GROUP_KEY_COLUMNS),
            style.order(str(r["method"]), str(r["kind"])),
            order[r["convention"]],
        ),
    ):
        criterion = criteria[r["convention"]]
        none = np.isnan(r["error"]) and np.isnan(r["recall"])
        remark = criterion.missing if none else ("" if criterion.limits else "no success is defined")
        cells = [
            num(r["error"]),
            num(r["recall"], 2),
            TableCell(criterion.recall_label if criterion.limits else "–"),
            TableCell(remark),
        ]
        rows.append(
            [
                TableCell(str(r["method"])),
                TableCell(group_title(tuple(r[n] for n in GROUP_KEY_COLUMNS))),
                TableCell(criterion.name),
                TableCell(criterion.label),
                *cells,
            ]
        )
    heads = ["method", "problems", "convention", "error", "mean over answered", "recall", "success is", "remark"]
    return Table("The same run under every convention", heads, rows)


def duel_table(group: GroupKey, found: Mapping[tuple[str, str], Duel], methods: list[str]) -> Table:
    """Wins / ties / losses of the method of the row against that of the column; bold where a sign test separates them."""
    rows = []
    for one in methods:
        cells = [TableCell(one)]
        for other in methods:
            duel = found.get((one, other))
            n = (duel.wins + duel.ties + duel.losses) if duel else 0
            value = (duel.wins - duel.losses) / n if duel and n else np.nan
            cells.append(
                TableCell(
                    f"{duel.wins}/{duel.ties}/{duel.losses}" if duel else "–", value, bool(duel and duel.separable)
                )
            )
        rows.append(cells)
    return Table(group_title(group), ["wins/ties/losses of", *methods], rows)


def headline(group: GroupKey, rows: list[Row], errors: Errors, criterion: Convention) -> str | None:
    """A sentence or two on a group, computed: who is best, whether that is separable, what failed; None if nothing was asked."""
    order = ranking.by_recall(errors)
    if order is None:
        return None
    return f"{group_title(group)}: {_best(order, {str(r['method']): r for r in rows}, criterion)}{_failed(rows)}"


def _best(order: Ranking, rows: Mapping[str, Row], criterion: Convention) -> str:
    first = order.methods[0]
    text = f"highest {criterion.recall_label} is {first} with {recall_text(rows[first])}"
    if order.winner:
        second = order.methods[1]
        return f"{text}, above {second} with {rows[second]['recall']:.2f} (McNemar with Holm's correction, p = {order.p:.1g})."
    named = ", ".join(order.tied[:4]) + (f" and {len(order.tied) - 4} more" if len(order.tied) > 4 else "")
    return f"{text}{f'; not separable from it: {named}' if named else ''}."


def _failed(rows: list[Row]) -> str:
    """How many of the asked were not answered, and by whom most."""
    asked, answered = (int(sum(r[n] for r in rows)) for n in ("problems", "answered"))
    if asked == answered:
        return f" All {asked} asked were answered."
    worst = max(rows, key=lambda row: row["problems"] - row["answered"])
    lost = int(worst["problems"] - worst["answered"])
    most = f"{worst['method']} ({lost} of {int(worst['problems'])})"
    return f" {asked - answered} of {asked} asked were not answered; most by {most}."
