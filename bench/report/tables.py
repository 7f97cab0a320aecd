"""Tables of a report: summary, coverage, failures, categories, times, stages, conventions, pairwise wins; and headlines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.aggregate import FAILURES, all_angles
from bench.evaluation.conventions import Convention
from bench.report import ranking, style
from bench.report.estimated_symmetry import NOTE
from bench.report.ranking import (
    GROUP_KEY_COLUMNS,
    CategoryTable,
    Duel,
    Errors,
    GroupKey,
    below_floor,
    display_name,
    display_order,
    display_rows,
    group_title,
)
from bench.report.recommendation import NAMED, Recommendation
from bench.report.selection import by_rank
from bench.report.table import Table, TableCell, count, fainted, num
from common.devices import CPU, is_gpu

if TYPE_CHECKING:
    import pandas as pd


Row = Mapping[Any, Any]
"""A row of `bench.evaluation.aggregate.summary`, by column."""


def group_records(frame: pd.DataFrame, group: GroupKey) -> list[Row]:
    """Return the rows of a group as dicts, in the order of methods; those with too few problems last."""
    return display_rows(ranking.select_group(frame, group))


def _records(frame: pd.DataFrame) -> list[Row]:
    rows: list[Row] = frame.to_dict("records")  # type: ignore[assignment]
    return rows


def _method_order(row: Row) -> tuple[int, str]:
    return style.order(str(row["method"]), str(row["kind"]))


def _group_of(row: Row) -> GroupKey:
    return tuple(row[name] for name in GROUP_KEY_COLUMNS)


def _method_and_group(row: Row, name: str | None = None) -> list[TableCell]:
    """Return the first two cells of a row: method (or another name) and title of the problem group."""
    return [TableCell(name or str(row["method"])), TableCell(group_title(_group_of(row)))]


def summary_table(
    group: GroupKey,
    rows: list[Row],
    errors: Errors,
    criterion: Convention,
    beside: Mapping[tuple[str, str], str],
    devices: Mapping[str, str] | None = None,
) -> Table:
    """Build the summary of a group.

    `beside` holds the paper's numbers by method and metric, or is empty; `devices` the device of each method's times, by default
    the CPU.
    """
    order = ranking.by_recall(errors)
    winners = order.winner if order else None, ranking.lowest_error(errors)
    heads = ["method", "kind", "answered", f"{criterion.recall_label} [95\u00a0%]"]
    heads += [f"{criterion.label} mean over answered [95\u00a0%]", f"{criterion.label} median"]
    fits = any(not np.isnan(row["recall_as_good"]) for row in rows)
    heads += ["recall as good"] * fits
    estimated = any(not np.isnan(row["recall_symmetric_estimated"]) for row in rows)
    heads += ["recall sym.", *["recall sym. (estimated)"] * estimated, "RMSE sym. mean"]
    heads += ["RRE median (°)", "RTE median", "time median (ms)", "p95 (ms)", "seed SD", "problem SD"]
    shown = by_rank([row for row in rows if row["problems"]], order)
    on = devices or {}
    extra = fits, estimated
    body = [_summary_row(row, winners, criterion, beside, extra, on.get(str(row["method"]), CPU)) for row in shown]
    notes = (
        ceiling_note(rows),
        NOTE if estimated else "",
        style.device_note(on.values()) if any(map(is_gpu, on.values())) else "",
    )
    return Table(group_title(group), heads, body, caption=" ".join(filter(None, notes)))


def ceiling_note(rows: list[Row]) -> str:
    """Describe the ceiling of a group and its ambiguous problems, from the method with most problems; empty if unknown."""
    known = [row for row in rows if row["ceiling_problems"]]
    if not known:
        return ""
    row = max(known, key=lambda row: row["ceiling_problems"])
    problems = int(row["ceiling_problems"])
    better, as_well = (round((1 - row[name]) * problems) for name in ("ceiling", "unambiguous"))
    return (
        f"In {better} of {problems} problems another pose fits better than the truth (ceiling {row['ceiling']:.2f}), "
        f"in {as_well} at least as well."
    )


def _summary_row(
    row: Row,
    winners: tuple[str | None, str | None],
    criterion: Convention,
    beside: Mapping[tuple[str, str], str],
    extra: tuple[bool, bool],
    device: str,
) -> list[TableCell]:
    """Return the cells of a row; `extra`: whether the columns of poses as good and of estimated symmetries are shown."""
    m, method = criterion.metric, str(row["method"])
    mean = style.number(row[f"{m}_mean_answered"])
    if not np.isnan(row[f"{m}_mean_low"]):
        mean += f" [{style.number(row[f'{m}_mean_low'])}, {style.number(row[f'{m}_mean_high'])}]"
    cells = [
        TableCell(display_name(row)),
        TableCell(str(row["kind"])),
        TableCell(f"{row['answered']}/{row['problems']}", row["answer_rate"]),
        TableCell(
            recall_text(row),
            row["recall"],
            method == winners[0],
            beside.get((method, "recall"), ""),
            heat=row["recall"],
        ),
        TableCell(mean, row[f"{m}_mean_answered"], method == winners[1], beside.get((method, "rmse"), "")),
        num(row[f"{m}_median"]),
        *([num(row["recall_as_good"], 2)] if extra[0] else []),
        num(row["recall_symmetric"], 2),
        *([num(row["recall_symmetric_estimated"], 2)] if extra[1] else []),
        num(row["rmse_symmetric_mean_answered"]),
        num(row["rre_deg_median"], 2),
        num(row["rte_median"]),
        num(row["time_ms_median"], 1, suffix=style.gpu_mark(device)),
        num(row["time_ms_p95"], 1),
        num(row[f"{m}_seed_sd"]),
        num(row[f"{m}_problem_sd"]),
    ]
    return fainted(cells, below_floor(row))


def recall_text(row: Row) -> str:
    """Format recall with its interval, such as `0.98 [0.93, 0.99]`; – if nothing was run or success is undefined."""
    if np.isnan(row["recall"]):
        return "–"
    return f"{row['recall']:.2f} [{row['recall_low']:.2f}, {row['recall_high']:.2f}]"


def recall_table(
    rows: Mapping[GroupKey, list[Row]], advice: Mapping[GroupKey, Recommendation], criterion: Convention
) -> Table:
    """Build the table of recall by method and problem group, sorted by the mean rank over the groups run; n: problems."""
    groups = [group for group, own in rows.items() if any(row["problems"] for row in own)]
    of = {group: {str(row["method"]): row for row in rows[group] if row["problems"]} for group in groups}
    kinds = {m: str(row["kind"]) for own in of.values() for m, row in own.items()}
    few = {m for m in kinds if all(below_floor(own[m]) for own in of.values() if m in own)}
    places: dict[str, list[float]] = {m: [] for m in kinds}
    for group in groups:
        order = by_rank(of[group].values(), advice[group].ranking)
        for place, row in enumerate(order):
            places[str(row["method"])].append(place / len(order))

    def key(method: str) -> tuple[bool, bool, float, str]:
        return method in few, kinds[method] == "control", float(np.mean(places[method])), method

    body = [
        _recall_row(m, kinds[m], m in few, [of[g].get(m) for g in groups], advice, groups)
        for m in sorted(kinds, key=key)
    ]
    heads = ["method", "kind", *(" · ".join(map(str, group)) for group in groups)]
    caption = f"{criterion.recall_label} by problem group, sorted by the mean rank; bold: separable from all others."
    return Table("Recall by problem group", heads, body, caption=caption)


def _recall_row(
    method: str,
    kind: str,
    few: bool,
    own: list[Row | None],
    advice: Mapping[GroupKey, Recommendation],
    groups: list[GroupKey],
) -> list[TableCell]:
    cells = [TableCell(method), TableCell(kind)]
    for group, row in zip(groups, own, strict=True):
        if row is None or np.isnan(row["recall"]):
            cells.append(TableCell("–", np.nan))
            continue
        ranking_of = advice[group].ranking
        best = ranking_of is not None and ranking_of.winner == method
        note = f"n {row['problems']}"
        cells.append(
            TableCell(
                f"{row['recall']:.2f}", row["recall"], best, heat=row["recall"], note=note, faint=below_floor(row)
            )
        )
    return fainted(cells, True) if few else cells


FAST_MS = 50.0
"""Time per pair in ms of a fast method."""


def verdict(rows: list[Row], advice: Recommendation, criterion: Convention) -> list[tuple[str, str]]:
    """Return statements on a group, each with its head: the best methods, the best fast one, what fails, what gives no pose."""
    order = advice.ranking.methods if advice.ranking else []
    quick = [m for m in order if advice.ms.get(m, np.inf) < FAST_MS and advice.recall[m] > 0]
    fast = min(quick, key=lambda m: (-advice.recall[m], advice.ms[m]), default=None)
    facts = advice.statements(criterion.recall_label)
    if order:
        limit = f"Best under {FAST_MS:.0f} ms"
        time = f" ({style.number(advice.ms[fast], 0)} ms)" if fast else ""
        facts.append((limit, f"{fast} {advice.recall[fast]:.2f}{time}" if fast else "none that succeeds is known"))
        low = [m for m in reversed(order) if advice.recall[m] < advice.recall[order[0]] / 2]
        names = [f"{m} {advice.recall[m]:.2f}" for m in low[:NAMED]] + [f"… ({len(low)} methods)"] * (len(low) > NAMED)
        facts.append(("Below half of the best", ", ".join(names) or "none"))
    lost = [row for row in rows if row["answered"] < row["problems"] and row["kind"] != "control"]
    if lost:
        worst = max(lost, key=lambda row: (not below_floor(row), 1 - row["answered"] / row["problems"]))
        facts.append(
            (
                "Most often without a pose",
                f"{worst['method']} ({worst['problems'] - worst['answered']} of {worst['problems']})",
            )
        )
    return facts


def coverage_table(summary: pd.DataFrame) -> Table:
    """Build the table of problems run, answered, failed by status (those that occur) and skipped, by method and group."""
    counted = ["problems", "answered", *(s for s in (*FAILURES, "skipped") if (summary[s] > 0).any())]
    ordered = sorted(_records(summary), key=lambda row: (display_order(row), *_group_of(row)))
    body = [
        fainted([*_method_and_group(row, display_name(row)), *(count(row[n]) for n in counted)], below_floor(row))
        for row in ordered
    ]
    heads = ["method", "problems", "run", *(name.replace("_", " ") for name in counted[1:])]
    return Table("Run, answered, failed, skipped", heads, body)


def failure_table(outcomes: pd.DataFrame) -> Table:
    """Build the table of failures by status and message with their counts, most frequent first."""
    columns = ["method", *GROUP_KEY_COLUMNS, "status", "message"]
    failures = outcomes.loc[(outcomes["phase"] == "accuracy") & (outcomes["status"] != "ok"), [*columns, "problem"]]
    if failures.empty:
        return Table("Failures and their messages", FAILURE_HEADS, [])
    by_message = failures.groupby(columns, observed=True, sort=True)["problem"]
    counts = by_message.agg(["size", "first"]).reset_index()
    counts = counts.sort_values("size", ascending=False, kind="stable").head(MAX_FAILURE_ROWS)
    rows = []
    for row in _records(counts):
        message = TableCell(style.shorten(str(row["message"]), 300))
        status, example = TableCell(str(row["status"])), TableCell(str(row["first"]))
        rows.append([*_method_and_group(row), status, count(row["size"]), message, example])
    return Table("Failures and their messages", FAILURE_HEADS, rows)


FAILURE_HEADS = ["method", "problems", "status", "times", "message", "first problem"]
MAX_FAILURE_ROWS = 300
"""Longest list of failure messages in a report."""


def category_table(
    group: GroupKey,
    table: CategoryTable,
    criterion: Convention,
    beside: Mapping[tuple[str, str], str],
    summary: list[Row],
) -> Table:
    """Build the table of mean errors over answered by category and method.

    `beside` holds the paper's numbers likewise, `summary` the rows of the group's summary.
    """
    mean = table.mean.to_numpy(dtype=float)
    methods, of = [str(m) for m in table.mean.columns], {str(row["method"]): row for row in summary}
    rows = [[TableCell(str(name))] for name in table.mean.index]
    for i, j in np.ndindex(*mean.shape):
        cell = num(mean[i, j], 2, bool(table.best.iat[i, j]), "*" if table.partly.iat[i, j] else "")
        theirs = beside.get((rows[i][0].text, methods[j]), "")
        rows[i].append(TableCell(cell.text, cell.value, cell.bold, theirs, faint=below_floor(of[methods[j]])))
    title = f"{criterion.label} by category: {group_title(group)}"
    return Table(title, ["category", *(display_name(of[m]) for m in methods)], rows, caption=CATEGORY_NOTE)


CATEGORY_NOTE = (
    "Mean error over answered problems; * if some were not answered. Bold: lowest mean of the methods that answered all "
    "problems, without controls, if paired tests on at least "
    f"{ranking.MIN_PROBLEMS} shared problems separate it from every other method (p < 0.05 with Holm's correction)."
)


def timing_table(timing: pd.DataFrame) -> Table:
    """Build the table of times over all angles by method and number of points."""
    whole = timing[all_angles(timing)]
    extra = {name: head for name, head in OPTIONAL_TIMING_COLUMNS.items() if whole[name].notna().any()}
    several = whole["machine"].nunique() > 1
    rows = [
        [TableCell(str(r["method"])), count(r["points"]), TableCell(str(r["device"])), count(r["threads"])]
        + [TableCell(r["status"] if r["ended"] == r["problems"] else f"{r['status']} ({r['problems'] - r['ended']} ×)")]
        + [num(r[name], 1) for name in ("time_ms_median", "time_ms_p95", "throughput_per_s", "peak_mb")]
        + [count(r["ended"])]
        + [num(r[name], 0 if name == "batch" else 1) for name in extra]
        + [TableCell(str(r["machine"]))] * several
        for r in sorted(_records(whole), key=lambda row: (_method_order(row), row["points"]))
    ]
    heads = ["method", "points", "device", "threads", "status", "time median (ms)", "p95 (ms)"]
    heads += ["pairs/s, one at a time", "peak (MB)", "timed calls"]
    return Table("Time for one pair", [*heads, *extra.values(), *["machine"] * several], rows)


OPTIONAL_TIMING_COLUMNS = {
    "pairs_per_s": "pairs/s in batches",
    "batch": "pairs per batch",
    "gpu_memory_mb": "GPU memory, peak (MB)",
}
"""Columns of the timing table that are shown if any method has a value, by their name in timing.csv."""


def stage_table(stages: pd.DataFrame) -> Table:
    """Build the table of median times of the stages that methods report."""
    places = [name for name in ("device", "machine") if stages[name].nunique() > 1]
    rows = [
        [TableCell(str(r["method"])), count(r["points"]), TableCell(str(r["stage"])), num(r["time_ms_median"], 1)]
        + [TableCell(str(r[name])) for name in places]
        for r in _records(stages)
    ]
    return Table("Time by stage", ["method", "points", "stage", "time median (ms)", *places], rows)


def convention_table(errors: pd.DataFrame, criteria: Mapping[str, Convention], summary: pd.DataFrame) -> Table:
    """Tabulate the run under every convention: mean error over answered problems and recall (`conventions.by_convention`)."""
    rows, names = [], list(criteria)
    counts = summary[[*GROUP_KEY_COLUMNS, "method", "distinct_problems"]]
    text = dict.fromkeys(("method", "dataset", "condition"), str)
    records = _records(errors.astype(text).merge(counts.astype(text), on=[*GROUP_KEY_COLUMNS, "method"]))

    def order(row: Row) -> tuple[Any, ...]:
        return (*_group_of(row), display_order(row), names.index(row["convention"]))

    for row in sorted(records, key=order):
        criterion = criteria[row["convention"]]
        unknown = np.isnan(row["error"]) and np.isnan(row["recall"])
        remark = criterion.missing if unknown else ("" if criterion.limits else "success is undefined")
        success = TableCell(criterion.recall_label if criterion.limits else "–")
        names_of_error = [TableCell(criterion.name), TableCell(criterion.label)]
        values = [num(row["error"]), num(row["recall"], 2), success, TableCell(remark)]
        cells = [*_method_and_group(row, display_name(row)), *names_of_error, *values]
        rows.append(fainted(cells, below_floor(row)))
    heads = ["method", "problems", "convention", "error", "mean over answered", "recall", "success is", "remark"]
    return Table("The same run under every convention", heads, rows)


def duel_table(group: GroupKey, duels: Mapping[tuple[str, str], Duel], summary: list[Row]) -> Table:
    """Build the table of wins/ties/losses of the row's method against the column's; bold if a sign test separates them.

    Pairs that are not tested have no value, and so no colour.
    """
    compared = {method for method, _ in duels}
    shown = [row for row in summary if row["method"] in compared]
    rows = []
    for row in shown:
        cells = [TableCell(display_name(row))]
        for other in shown:
            duel = duels.get((row["method"], other["method"]))
            n = (duel.wins + duel.ties + duel.losses) if duel else 0
            value = (duel.wins - duel.losses) / n if duel and duel.tested else np.nan
            text = f"{duel.wins}/{duel.ties}/{duel.losses}" if duel else "–"
            cell = TableCell(text, value, bool(duel and duel.separable), faint=below_floor(other))
            cells.append(cell)
        rows.append(fainted(cells, below_floor(row)))
    return Table(group_title(group), ["wins/ties/losses of", *map(display_name, shown)], rows)


def duel_list(duels: Mapping[GroupKey, Mapping[tuple[str, str], Duel]]) -> Table:
    """Build the table of all pairwise comparisons with their p values, one row per pair and group."""
    rows = []
    for group, compared in duels.items():
        for (a, b), duel in compared.items():
            if a < b:
                counts = [count(n) for n in (duel.wins, duel.ties, duel.losses)]
                ps = [TableCell("–" if np.isnan(p) else f"{p:.2g}", p) for p in (duel.p, duel.adjusted)]
                rows.append([TableCell(group_title(group)), TableCell(a), TableCell(b), *counts, *ps])
    heads = ["problems", "method", "other", "lower error", "tie", "higher error", "p", "p (Holm)"]
    few = f"Not tested (–): fewer than {ranking.MIN_PROBLEMS} problems."
    caption = f"Sign tests over objects; errors that differ by at most {ranking.TIE:.0%} are a tie. {few}"
    return Table("Pairwise comparisons", heads, rows, caption=caption)


def headline(group: GroupKey, rows: list[Row], recommendation: Recommendation, criterion: Convention) -> str | None:
    """Describe a group: the best methods, the recommended one, failures, ambiguous problems; None if success is undefined."""
    sentence, ceiling = recommendation.sentence(criterion.recall_label), ceiling_note(rows)
    return f"{group_title(group)}: {sentence}{_failed(rows)}{f' {ceiling}' if ceiling else ''}" if sentence else None


def _failed(rows: list[Row]) -> str:
    """Describe how many calls of all methods gave no answer, and the method with most of these."""
    problems, answered = (int(sum(r[n] for r in rows)) for n in ("problems", "answered"))
    if problems == answered:
        return f" All {problems} calls were answered."
    worst = max(rows, key=lambda row: row["problems"] - row["answered"])
    lost = int(worst["problems"] - worst["answered"])
    most = f"{worst['method']} ({lost} of {int(worst['problems'])})"
    return f" {problems - answered} of {problems} calls gave no answer; most of {most}."
