"""Figures of recall, error and time against a quantity: rotation angle, overlap, number of points, noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.evaluation.aggregate import all_angles
from bench.evaluation.conventions import Convention
from bench.evaluation.statistics import wilson
from bench.report import style
from bench.report.jobs import FigureJob
from bench.report.panels import (
    CONTROLS_LEFT_OUT,
    KindPanel,
    LineEnd,
    ceiling_of,
    columns_of,
    draw_ceiling,
    is_narrow,
    kind_panels,
    label_ends,
    label_lowest,
    left_out,
    lines_of,
    lines_of_row,
    new_figure,
    put_title,
    set_log_ticks,
    wrapped,
)
from bench.report.ranking import GroupKey, Ranking, group_title, groups_of, select_group
from bench.report.tables import group_records
from common.errors import InputError
from common.text import counted
from datasets.conditions import condition

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 1.75
"""Height of a row of panels in inches."""

TREND_CAPTION = (
    "Left: recall, where every failure counts; bands are 95 % intervals{interval}. Right: mean error over answered problems; "
    "hollow markers: some problems were not answered, so read it together with the recall. The error axis is linear below "
    "0.01 and logarithmic above. One row of panels per kind of method, labels in the order of the line ends; n: problems "
    "per method. Thick: learned. Dashed, half-filled markers: refined. Dashed horizontal line: share of problems where no "
    "other pose fits better than the truth. " + CONTROLS_LEFT_OUT
)
TIME_CAPTION = (
    "Median time from two raw clouds to a pose, one pair at a time, on logarithmic axes; a straight line is a power law. A cross "
    "at the top: no call returned (time-out, out of memory, …). Controls are left out; the table of times contains all."
)


class Trend(NamedTuple):
    """Axis of a trend: its label, ticks with their texts, and whether it is logarithmic."""

    label: str
    ticks: Sequence[float]
    texts: Sequence[str]
    log: bool = False


def trends_of(
    frames: Mapping[str, pd.DataFrame], rankings: Mapping[GroupKey, Ranking | None], criterion: Convention, folder: Path
) -> Iterator[FigureJob]:
    """Yield the figures of recall and error against angle and overlap of each group, and against points and noise."""
    evaluated = frames["summary"][frames["summary"]["problems"] > 0]
    for group in groups_of(evaluated):
        rows, ranking = group_records(evaluated, group), rankings.get(group)
        for name, label in (("angle", "rotation angle (°)"), ("overlap", "overlap (share of the source)")):
            bins = select_group(frames[f"by_{name}"], group)
            if len(bins) and (bins[f"{name}_low"].nunique() > 1 or name == "angle"):
                data, trend = _binned(bins, name, label, criterion)
                stem = folder / f"{name}_{style.slug(*group)}"
                yield _job(name, data, trend, kind_panels(rows, ranking), rows, criterion, group_title(group), stem)
    yield from _over_groups("points", ["dataset", "condition"], evaluated, rankings, criterion, folder)
    sigmas = {str(c): _sigma(str(c)) for c in evaluated["condition"].unique()}
    noise = evaluated.assign(
        family=[sigmas[str(c)][0] for c in evaluated["condition"]],
        sigma=[sigmas[str(c)][1] for c in evaluated["condition"]],
    )
    yield from _over_groups("sigma", ["dataset", "family", "points"], noise, rankings, criterion, folder)


def _sigma(text: str) -> tuple[str, float]:
    """Return what a condition is but for its noise, and its noise; NaN if it has none."""
    try:
        value: Any = condition(text)
    except InputError:  # of a plug-in that is not here
        return text, float("nan")
    if not hasattr(value, "sigma"):
        return text, float("nan")
    others = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name != "sigma"}
    defaults = {f.name: f.default for f in dataclasses.fields(value)}
    given = ",".join(f"{n}={v}" for n, v in others.items() if v != defaults[n])
    return text.split("[")[0] + (f"[{given}]" if given else ""), float(value.sigma)


def _binned(bins: pd.DataFrame, name: str, label: str, criterion: Convention) -> tuple[pd.DataFrame, Trend]:
    """Return the data of a trend over bins, and its axis."""
    count = bins["problems"].to_numpy(dtype=float)
    low, high = wilson(bins["recall"].fillna(0).to_numpy(dtype=float) * count, count)
    low, high = (np.where(bins["recall"].notna(), values, np.nan) for values in (low, high))
    x = (bins[f"{name}_low"] + bins[f"{name}_high"]) / 2
    data = bins.assign(x=x, recall_low=low, recall_high=high, mean=bins[f"{criterion.metric}_mean_answered"])
    edges = data.groupby("x")[[f"{name}_low", f"{name}_high", "problems"]].max()
    texts = [f"{a:g}–{b:g}\nn {n:.0f}" for a, b, n in edges.itertuples(index=False)]
    return data.assign(mean_low=np.nan, mean_high=np.nan), Trend(label, list(edges.index), texts)


def _over_groups(
    column: str,
    same: list[str],
    summary: pd.DataFrame,
    rankings: Mapping[GroupKey, Ranking | None],
    criterion: Convention,
    folder: Path,
) -> Iterator[FigureJob]:
    """Yield the trends over a column of the summary with several values, a figure for each combination of the others."""
    m, name = criterion.metric, {"sigma": "noise"}.get(column, column)
    label = {"sigma": "noise σ (units of the cloud)"}.get(column, "points per cloud")
    for where, rows in summary[summary[column].notna()].groupby(same, observed=True, sort=True):
        if rows[column].nunique() < 2:
            continue
        renamed = {f"{m}_mean_answered": "mean", f"{m}_mean_low": "mean_low", f"{m}_mean_high": "mean_high"}
        data = rows.rename(columns=renamed).assign(x=rows[column])
        counts = data.groupby("x")["problems"].max()
        trend = Trend(label, list(counts.index), [f"{x:g}\nn {n}" for x, n in counts.items()], column == "points")
        # The methods are those of the middle value, where most differ.
        middle = groups_of(rows[rows[column] == sorted(rows[column].unique())[rows[column].nunique() // 2]])[0]
        shown = kind_panels(group_records(rows, middle), rankings.get(middle))
        stem = folder / f"{name}_{style.slug(*where)}"
        title = " · ".join(f"{w} points" if c == "points" else str(w) for c, w in zip(same, where, strict=True))
        yield _job(name, data, trend, shown, group_records(rows, middle), criterion, title, stem)


def _job(
    name: str,
    data: pd.DataFrame,
    trend: Trend,
    panels: list[KindPanel],
    rows: list[Mapping[Any, Any]],
    criterion: Convention,
    where: str,
    stem: Path,
) -> FigureJob:
    binned = " of the problems of a bin, as if each had its own object" if name in ("angle", "overlap") else ""
    caption = TREND_CAPTION.format(interval=binned)
    title = f"Recall and error against {trend.label.split(' (')[0]} · {where}"
    arguments = data, trend, panels, criterion, where, left_out(rows), ceiling_of(rows)
    return FigureJob(_trend_figure, arguments, name, title, caption, stem, _ends_in_words(data, panels, trend))


def _ends_in_words(data: pd.DataFrame, panels: list[KindPanel], trend: Trend) -> str:
    """Describe where each line starts and ends."""
    parts = []
    for method in (str(row["method"]) for panel in panels for row in panel.rows):
        own = data[data["method"] == method].sort_values("x")
        if len(own):
            parts.append(
                f"{method} {style.number(own['recall'].iloc[0], 2)} to {style.number(own['recall'].iloc[-1], 2)}"
            )
    first, last = (text.split("\n")[0] for text in (trend.texts[0], trend.texts[-1]))
    return f"Recall at {trend.label} {first} and at {last}: {'; '.join(parts)}." if parts else ""


def _trend_figure(
    data: pd.DataFrame,
    trend: Trend,
    panels: list[KindPanel],
    criterion: Convention,
    where: str,
    note: str,
    ceiling: float,
) -> Figure:
    """Draw recall and mean error over x, a row of panels per kind."""
    figure, cells = new_figure(max(len(panels), 1), 2, HEIGHT, sharex=True, sharey="col")
    for panel, (left, right) in zip(panels, cells, strict=False):
        left.set(title=panel.title, ylabel="recall", ylim=(-0.03, 1.03))
        right.set_ylabel(f"mean {criterion.label},{chr(10) if is_narrow() else ' '}answered")
        _set_up_x(left, trend)
        draw_ceiling(left, ceiling)
        for row in panel.rows:
            own = data[data["method"] == row["method"]].sort_values("x")
            _draw_trend(left, right, own, lines_of_row(row))
        right.set_yscale("symlog", linthresh=0.01)
        right.yaxis.set_major_formatter("{x:g}")
    cells[0, 1].set_ylim(bottom=0)  # after the lines of all panels, which share the axis: it ends automatic limits
    for panel, (_, right) in zip(panels, cells, strict=False):
        label_ends(right, _mean_ends(data, panel), 0.62 * HEIGHT)
    for axes in cells[-1]:
        axes.set_xlabel(wrapped(trend.label, style.figure_width() / 2 - 0.45, 8))
        size = 5 if is_narrow() or len(trend.ticks) > 6 else 6
        axes.tick_params(axis="x", labelsize=size, labelrotation=90 if is_narrow() else 0)
    put_title(figure, f"Recall and error against {trend.label.split(' (')[0]}", where, note)
    return figure


def _set_up_x(axes: Axes, trend: Trend) -> None:
    if trend.log:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(trend.ticks, [text.replace("\n", ", ") for text in trend.texts] if is_narrow() else trend.texts)


def _draw_trend(left: Axes, right: Axes, own: pd.DataFrame, lines: dict[str, Any]) -> None:
    band: dict[str, Any] = {"color": lines["color"], "alpha": 0.07, "linewidth": 0}
    left.fill_between(own["x"], own["recall_low"], own["recall_high"], **band)
    left.plot(own["x"], own["recall"], **lines)
    right.fill_between(own["x"], own["mean_low"], own["mean_high"], **band)
    right.plot(own["x"], own["mean"], **lines)
    partly = (own["answered"] < own["problems"]).to_numpy()
    hollow = {"linestyle": "", "fillstyle": "full", "markerfacecolor": style.PAPER}
    right.plot(own["x"][partly], own["mean"][partly], **(lines | hollow))


def _mean_ends(data: pd.DataFrame, panel: KindPanel) -> list[LineEnd]:
    """Return the labels of the lines of a panel at their mean error at the last x."""
    ends = []
    for row in panel.rows:
        own = data[(data["method"] == row["method"]) & data["mean"].notna()].sort_values("x")
        if len(own):
            ends.append(LineEnd(float(own["mean"].iloc[-1]), style.label(str(row["method"]), 22), lines_of_row(row)))
    return ends


def times_of(timing: pd.DataFrame, folder: Path) -> Iterator[FigureJob]:
    """Yield time by number of points if there are several, and by rotation angle for each; controls are left out."""
    timing = timing[timing["kind"] != "control"]
    whole = all_angles(timing)
    if timing["points"][whole].nunique() > 1:
        yield _time_job(timing[whole].assign(x=timing["points"][whole]), "number of points", "", folder / "time_points")
    for points, rows in timing[~whole].groupby("points", sort=True, observed=True):
        middle = rows.assign(x=(rows["angle_low"] + rows["angle_high"]) / 2)
        yield _time_job(middle, "rotation angle", f"{points} points", folder / f"time_angle_{points}")


def _time_job(rows: pd.DataFrame, quantity: str, where: str, stem: Path) -> FigureJob:
    devices = ", ".join(
        sorted({f"{d}, {counted(n, 'thread')}" for d, n in zip(rows["device"], rows["threads"], strict=True)})
    )
    where = " · ".join(filter(None, (where, devices)))
    last = rows[rows["x"] == rows["x"].max()].sort_values("time_ms_median")
    values = [f"{m} {style.number(t, 1)} ms" for m, t in zip(last["method"], last["time_ms_median"], strict=True)]
    alt = f"At the largest {quantity}, fastest first: {'; '.join(values)}."
    title = f"Time for one pair against {quantity}"
    return FigureJob(_times, (rows, quantity, where), "time", f"{title} · {where}", TIME_CAPTION, stem, alt)


def _times(rows: pd.DataFrame, quantity: str, where: str) -> Figure:
    """Draw the median time of each method over x, one panel per kind, labels at the line ends."""
    kinds = [k for k in style.KINDS if (rows["kind"] == k).any()]
    columns = columns_of(len(kinds))
    height, log = 2.6, quantity != "rotation angle"
    figure, cells = new_figure(-(-len(kinds) // columns), columns, height, sharex=True, sharey=True)
    ticks = sorted({*rows["x"]})
    for kind, axes in zip(kinds, cells.ravel(), strict=False):
        axes.set(yscale="log", title=kind)
        if log:
            axes.set(xscale="log", xlim=(ticks[0] / 1.15, ticks[-1] * 1.15))
            axes.minorticks_off()
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        for method, _ in style.ordered_methods(rows[rows["kind"] == kind]):
            _draw_times(axes, rows[rows["method"] == method], lines_of(method, kind))
    set_log_ticks(cells[0, 0].yaxis)  # all panels share it
    for kind, axes in zip(kinds, cells.ravel(), strict=False):
        label_ends(axes, _time_ends(rows[rows["kind"] == kind], kind), 0.75 * height)
    for axes in cells.ravel()[len(kinds) :]:
        axes.set_axis_off()
    label_lowest(cells, len(kinds), "points per cloud" if log else "rotation angle (°)")
    figure.supylabel("median time per pair (ms)", fontsize=8)
    put_title(figure, f"Time for one pair against {quantity}", where)
    return figure


def _draw_times(axes: Axes, rows: pd.DataFrame, lines: dict[str, Any]) -> None:
    for _, part in rows.groupby(["device", "threads"], observed=True):
        own = part.sort_values("x")
        axes.plot(own["x"], own["time_ms_median"], **lines)
        never = own["x"][own["time_ms_median"].isna()]
        top: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "in_layout": False}
        axes.plot(never, np.ones(len(never)), "x", color=lines["color"], markersize=5, **top)


def _time_ends(rows: pd.DataFrame, kind: str) -> list[LineEnd]:
    ends = []
    for method, _ in style.ordered_methods(rows):
        own = rows[(rows["method"] == method) & rows["time_ms_median"].notna()].sort_values("x")
        if len(own):
            ms = float(own["time_ms_median"].iloc[-1])
            ends.append(LineEnd(ms, f"{style.label(method, 22)} {style.number(ms, 0)}", lines_of(method, kind)))
    return ends
