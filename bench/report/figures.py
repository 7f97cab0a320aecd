"""Figures of a run: error CDFs, recall against time, errors by category; `trends` has those against a quantity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.report import style
from bench.report.cells import Cell, add_cells
from bench.report.jobs import FigureJob
from bench.report.panels import (
    CONTROLS_LEFT_OUT,
    CURVES,
    KindPanel,
    LineEnd,
    ceiling_of,
    columns_of,
    draw_ceiling,
    drawn,
    is_narrow,
    kind_panels,
    label_ends,
    label_lowest,
    label_points,
    left_out,
    lines_of_row,
    methods_shown,
    more_lines,
    new_figure,
    put_title,
    set_log_ticks,
)
from bench.report.ranking import (
    CategoryTable,
    GroupKey,
    group_title,
    groups_of,
    pareto_front,
    select_group,
)
from bench.report.recommendation import Recommendation
from bench.report.selection import by_rank
from bench.report.tables import CATEGORY_NOTE, Row, group_records

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CDF_CAPTION = (
    "Share of problems with an error up to the value on the axis; failures count, so a curve may end below 1. The number "
    "behind a name is the recall: the height of the curve at the vertical line, if any. Labels are in the order of the line "
    "ends, then of recall. Thick: learned. Dashed: refined. Dashed horizontal line: share of problems where no other pose "
    "fits better than the truth. " + CONTROLS_LEFT_OUT
)
RECALL_TIME_CAPTION = (
    "Recall against the median time for one pair, on a logarithmic axis; up and to the left is better. Bars are 95 % "
    "intervals of the recall. The dotted line joins the methods to which no faster method is superior (Pareto front) and "
    "ends at the recommended method. Half-filled markers: refined. " + CONTROLS_LEFT_OUT
)
SPAN = 30.0
"""Ratio of the 95th to the 5th percentile of the errors above which their axis is logarithmic."""
NARROW = 4
"""Most methods of a kind in heat maps and in recall against time at the width of a column."""
SMALLEST = 1e-4
"""Left end of a logarithmic error axis, as a share of its right end."""


def figures_of(
    frames: Mapping[str, pd.DataFrame],
    categories: Mapping[GroupKey, CategoryTable],
    recommended: Mapping[GroupKey, Recommendation],
    criterion: Convention,
    folder: Path,
) -> Iterator[FigureJob]:
    """Yield the CDF, recall against time and the categories of each group that was run."""
    evaluated = frames["summary"][frames["summary"]["problems"] > 0]
    for group in groups_of(evaluated):
        rows, suffix = group_records(evaluated, group), style.slug(*group)
        advice, where = recommended[group], group_title(group)
        yield cdf_job(rows, select_group(frames["cdf"], group), advice, criterion, where, folder / f"cdf_{suffix}")
        if criterion.limits and (
            job := recall_time_job(rows, advice, criterion, where, folder / f"recall_time_{suffix}")
        ):
            yield job
        if group in categories and any(panel.rows for panel in kind_panels(rows, None)):  # else nothing to draw
            yield _category_job(categories[group], rows, criterion, where, folder / f"categories_{suffix}")


def cdf_job(
    rows: list[Row],
    curves: pd.DataFrame,
    advice: Recommendation,
    criterion: Convention,
    where: str,
    stem: Path,
    methods: list[str] | None = None,
) -> FigureJob:
    """Build the figure of the error CDFs of a group: a panel per kind, or one panel of the given methods."""
    if methods is None:
        panels = kind_panels(rows, advice.ranking)
    else:
        ranked = by_rank([r for r in rows if r["method"] in methods], advice.ranking)
        panels = [KindPanel("", list(ranked), 0)]
    shown = [r for panel in panels for r in panel.rows]
    values = ", ".join(f"{r['method']} {style.number(r['recall'], 2)}" for r in by_rank(shown, advice.ranking))
    alt = f"{criterion.recall_label}, best first: {values}." if criterion.limits else f"Methods: {values}."
    curves = curves[curves["method"].isin([r["method"] for r in shown])]
    arguments = panels, curves, criterion, where, left_out(rows), ceiling_of(rows)
    return FigureJob(_cdf, arguments, "cdf", f"Share of problems solved · {where}", CDF_CAPTION, stem, alt)


def recall_time_job(
    rows: list[Row], advice: Recommendation, criterion: Convention, where: str, stem: Path
) -> FigureJob | None:
    """Build the figure of recall against time of a group; None if the time of no method is known."""
    timed = [r for r in drawn(rows) if r["kind"] != "control" and str(r["method"]) in advice.ms]
    if not timed:
        return None
    shown = timed
    if is_narrow():  # more names have no room
        panels, front = kind_panels(timed, advice.ranking, NARROW), pareto_front(timed, advice.ms, advice.method)
        kept = {str(row["method"]) for row in [*front, *(row for panel in panels for row in panel.rows)]}
        shown = [row for row in timed if str(row["method"]) in kept]
    some = methods_shown(len(shown), len(timed), "the best of each kind and the Pareto front")
    arguments = shown, advice, criterion, where, f"{some} {left_out(rows)}".strip()
    title, alt = f"Recall against time · {where}", _points_in_words(shown, advice)
    return FigureJob(_recall_time, arguments, "recall_time", title, RECALL_TIME_CAPTION, stem, alt)


class ErrorAxis(NamedTuple):
    """Ends of an error axis and whether it is logarithmic."""

    low: float
    high: float
    log: bool


def error_axis(errors: NDArray[np.float64], criterion: Convention) -> ErrorAxis:
    """Choose the error axis of CDFs: logarithmic where the errors span decades."""
    finite = errors[np.isfinite(errors) & (errors > 0)]
    bounded = criterion.metric in ("rmse", "mean_distance", "rmse_coordinate")
    high = (
        1.0
        if bounded
        else float(max(np.quantile(finite, 0.9), 1.5 * (criterion.threshold or 0)))
        if len(finite)
        else 1.0
    )
    if not len(finite) or np.quantile(finite, 0.95) < SPAN * np.quantile(finite, 0.05):
        return ErrorAxis(0.0, high, False)
    high = float(max(finite.max(), 1.5 * (criterion.threshold or 0)))
    return ErrorAxis(float(max(np.quantile(finite, 0.01), SMALLEST * high)), high, True)


def _cdf(
    panels: list[KindPanel], curves: pd.DataFrame, criterion: Convention, where: str, note: str, ceiling: float
) -> Figure:
    """Draw the error CDFs of a group, one panel per kind, with labels at the line ends."""
    axis = error_axis(curves[criterion.metric].to_numpy(dtype=float), criterion)
    columns, most = columns_of(len(panels)), max((len(p.rows) for p in panels), default=1)
    height = max(2.4, 0.115 * most + 0.9) + (0.6 if len(panels) == 1 else 0)
    figure, cells = new_figure(max(1, -(-len(panels) // columns)), columns, height, sharex=True, sharey=True)
    for panel, axes in zip(panels, cells.ravel(), strict=False):
        _frame_cdf(axes, criterion, axis, ceiling)
        axes.set_title(panel.title)
        ends = [_curve(axes, curves[curves["method"] == row["method"]], row, criterion, axis) for row in panel.rows]
        label_ends(axes, ends, 0.74 * height)
    for axes in cells.ravel()[len(panels) :]:
        axes.set_axis_off()
    label_lowest(cells, len(panels), f"{criterion.label} ({criterion.unit})")
    for line in cells:
        line[0].set_ylabel("share of problems")
    put_title(figure, "Share of problems solved to within an error", where, note)
    return figure


def _frame_cdf(axes: Axes, criterion: Convention, axis: ErrorAxis, ceiling: float) -> None:
    """Set limits of CDF axes, and draw lines at the threshold and at the ceiling."""
    axes.set(xlim=(axis.low, axis.high), ylim=(0, 1.02), xscale="log" if axis.log else "linear")
    if axis.log:
        set_log_ticks(axes.xaxis)
    if criterion.threshold is not None:
        axes.axvline(criterion.threshold, color=style.INK, linewidth=0.7, alpha=0.6)
        place: dict[str, Any] = {"xytext": (-2, 2), "textcoords": "offset points", "fontsize": 6, "ha": "right"}
        axes.annotate(f"recall@{criterion.threshold:g}", (criterion.threshold, 0), in_layout=False, **place)
    draw_ceiling(axes, ceiling)


def _curve(axes: Axes, curve: pd.DataFrame, row: Row, criterion: Convention, axis: ErrorAxis) -> LineEnd:
    """Draw a step curve, reduced to 400 steps; return its label."""
    x, y = curve[criterion.metric].to_numpy(), curve["fraction"].to_numpy()
    shown = np.flatnonzero(x <= axis.high)
    if len(shown) > 400:
        shown = shown[np.unique(np.linspace(0, len(shown) - 1, 400).astype(int))]
    last = float(y[shown[-1]]) if len(shown) else 0.0
    steps = np.concatenate([[axis.low], np.maximum(x[shown], axis.low), [axis.high]])
    lines = lines_of_row(row) | {"marker": ""}
    axes.step(steps, np.concatenate([[0.0], y[shown], [last]]), where="post", **lines)
    share = "" if np.isnan(row["recall"]) else f" {row['recall']:.2f}"
    return LineEnd(last, style.label(str(row["method"]), 22) + share, lines)


def _recall_time(rows: list[Row], advice: Recommendation, criterion: Convention, where: str, note: str) -> Figure:
    """Draw recall with its interval against time, with direct labels."""
    from matplotlib.figure import Figure

    width = style.figure_width()
    above, below = more_lines(where, note, width)
    plain, left, bottom = 0.2 * width + 2.3, 0.5 / width, 0.62 + below
    height = plain + above + below
    figure = Figure(figsize=(width, height), dpi=72)
    axes = figure.add_axes((left, bottom / height, 1 - 0.15 / width - left, (0.86 * plain - 0.62) / height))
    ms = {m: max(t, 1e-3) for m, t in advice.ms.items()}
    for row in rows:
        x, y, lines = ms[str(row["method"])], row["recall"], lines_of_row(row)
        interval = [[max(y - row["recall_low"], 0)], [max(row["recall_high"] - y, 0)]]
        axes.errorbar(x, y, yerr=interval, fmt="none", ecolor=lines["color"], elinewidth=0.7, alpha=0.55)
        axes.plot(x, y, **(lines | {"linestyle": "", "markersize": 5.5}))
    front = pareto_front(rows, ms, advice.method)
    axes.plot(
        [ms[str(r["method"])] for r in front],
        [r["recall"] for r in front],
        ":",
        color=style.SOFT,
        linewidth=0.9,
        zorder=0,
    )
    times = [ms[str(r["method"])] for r in rows]
    axes.set(xscale="log", xlim=(min(times) / 1.5, max(times) * 1.9), ylim=(-0.04, 1.06))
    set_log_ticks(axes.xaxis)
    how = "timed alone" if advice.alone else "median during the run"
    axes.set(xlabel=f"time for one pair, {how} (ms)", ylabel=criterion.recall_label)
    ranked = by_rank(rows, advice.ranking)
    points = [(ms[str(r["method"])], float(r["recall"])) for r in ranked]
    names = [style.label(str(r["method"]), 24) for r in ranked]
    label_points(axes, points, names, [lines_of_row(r)["color"] for r in ranked])
    put_title(figure, "Recall against time", where, note)
    return figure


def _points_in_words(rows: list[Row], advice: Recommendation) -> str:
    best = by_rank(rows, advice.ranking)
    parts = [
        f"{r['method']} {style.number(r['recall'], 2)} in {style.number(advice.ms[str(r['method'])], 0)} ms"
        for r in best
    ]
    return f"Recall and time, best first: {'; '.join(parts)}."


def _category_job(table: CategoryTable, rows: list[Row], criterion: Convention, where: str, stem: Path) -> FigureJob:
    """Build the heat map of categories: the hardest first, methods in the order of recall."""
    panels = kind_panels(rows, None, NARROW if is_narrow() else CURVES)
    shown, hidden = [r for panel in panels for r in panel.rows], sum(panel.hidden for panel in panels)
    methods = [str(r["method"]) for r in shown if r["method"] in table.mean.columns]
    mean = table.mean[methods]
    order = mean.median(axis=1).sort_values(ascending=False, kind="stable").index
    title = f"Mean {criterion.label} by category · {where}"
    hardest = ", ".join(f"{c} {style.number(float(mean.loc[c].median()), 2)}" for c in [*order[:3]])
    easiest = ", ".join(f"{c} {style.number(float(mean.loc[c].median()), 2)}" for c in [*order[::-1][:3]])
    alt = f"Median over the methods drawn. Hardest: {hardest}. Easiest: {easiest}."
    order_note = "Categories are sorted by difficulty, the median over the methods; n: problems."
    caption = f"{CATEGORY_NOTE} {order_note} {CONTROLS_LEFT_OUT}"
    sorted_table = CategoryTable(
        mean.loc[order], table.partly.loc[order, methods], table.best.loc[order, methods], table.problems.loc[order]
    )
    note = f"{methods_shown(len(shown), len(shown) + hidden)} {left_out(rows)}".strip()
    arguments = sorted_table, criterion, where, note
    return FigureJob(_categories, arguments, "category", title, caption, stem, alt)


def _categories(table: CategoryTable, criterion: Convention, where: str, note: str) -> Figure:
    """Draw the table of categories and methods, shaded by mean error from 0 to 1."""
    import matplotlib

    mean = table.mean.to_numpy(dtype=float)
    rows, columns = mean.shape
    height = max(1.3 + 0.135 * rows, 2.4)  # with few rows, high enough for the label of the colour bar
    figure, ((axes,),) = new_figure(1, 1, height)
    shades = matplotlib.colormaps["PuBu"].with_extremes(bad="#dddddd")
    image = axes.imshow(mean, cmap=shades, vmin=0, vmax=1, aspect="auto")
    cells = []
    for i, j in np.ndindex(rows, columns):
        text = style.number(float(mean[i, j]), 2) + ("*" if table.partly.iat[i, j] else "")
        weight = "bold" if table.best.iat[i, j] else "normal"
        cells.append(Cell(j, i, text, "#ffffff" if mean[i, j] > 0.6 else "#111111", weight))
    names, slope = [style.label(str(m), 22) for m in table.mean.columns], 90 if is_narrow() else 40
    axes.set_xticks(range(columns), names, rotation=slope, ha="left", rotation_mode="anchor", fontsize=6.5)
    labels = [f"{style.label(str(c), 16 if is_narrow() else 24)}  n {n}" for c, n in table.problems.items()]
    axes.set_yticks(range(rows), labels, fontsize=6)
    add_cells(axes, cells, 6)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 12 / max(rows, 1)), aspect=18, pad=0.01)
    bar.set_label(f"mean {criterion.label} over answered", fontsize=7)
    bar.outline.set_visible(False)
    put_title(figure, f"Mean {criterion.label} by category, the hardest first", where, note)
    return figure
