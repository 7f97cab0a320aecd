"""Figures of a run, from the frames of `bench.export`. Each is drawn once and saved as PNG and SVG."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.export import write_atomically
from bench.report import style
from bench.report.compare import PLACE, CategoryTable, Place, place_title

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Drawn(NamedTuple):
    """A finished figure: kind ("cdf", "angle", "time", "category"), title, caption, SVG text and its two files."""

    kind: str
    title: str
    caption: str
    svg: str
    files: tuple[Path, Path]


def draw_all(
    frames: dict[str, pd.DataFrame], categories: dict[Place, CategoryTable], threshold: float, folder: Path
) -> list[Drawn]:
    """Draw every figure that the frames and the tables of categories have data for, into folder."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(style.RC):
        return [*_curves(frames, threshold, folder), *_timing(frames["timing"], folder), *_shades(categories, folder)]


CDF_CAPTION = (
    "Share of all asked problems with an RMSE up to the value below; failures count, so a curve may end below 1. "
    "A diamond marks where a curve reaches 1. The number in the legend is the recall at the vertical line. "
    "Thick: learned. Thin: global. Dash-dotted: local. Dashed, half-filled markers: refined. "
    "Grey dots: controls."
)
ANGLE_CAPTION = (
    "Left: mean RMSE over answered problems in each bin of rotation magnitude; a hollow marker says that some were not "
    "answered, so read it with the recall on the right, where every failure counts. The scale of RMSE is linear below 0.01 "
    "and logarithmic above."
)
TIME_CAPTION = (
    "Median time from two raw clouds to a pose, one pair at a time. A cross at the top: no call came to its end "
    "(time-out, memory, …)."
)
CATEGORY_CAPTION = (
    "Mean RMSE over answered problems; * where some were not answered. Bold: lowest of the methods that answered "
    "everything, controls aside, if a paired test on the same problems separates it from the next (p < 0.05; never with "
    "fewer than six problems)."
)


def _curves(frames: dict[str, pd.DataFrame], threshold: float, folder: Path) -> Iterator[Drawn]:
    """The CDF, and the errors against rotation magnitude, of each place where anything was asked."""
    asked = frames["summary"][frames["summary"]["problems"] > 0]
    for place, summary in asked.groupby(PLACE, sort=True):
        name, rest = place_title(place), style.slug(*place)
        curves, bins = (frames[f][(frames[f][PLACE] == list(place)).all(axis=1)] for f in ("cdf", "by_angle"))
        yield _save(_cdf(curves, summary, threshold, name), "cdf", name, CDF_CAPTION, folder / f"cdf_{rest}")
        if len(bins):
            yield _save(_by_angle(bins, summary, name), "angle", name, ANGLE_CAPTION, folder / f"angle_{rest}")


def _shades(categories: dict[Place, CategoryTable], folder: Path) -> Iterator[Drawn]:
    """The table of categories of each place."""
    for place, table in categories.items():
        name, stem = place_title(place), folder / f"categories_{style.slug(*place)}"
        yield _save(_categories(table, name), "category", name, CATEGORY_CAPTION, stem)


def _save(figure: Figure, kind: str, title: str, caption: str, stem: Path) -> Drawn:
    """Write stem.png and stem.svg; the same data give the same SVG bytes."""
    figure.draw_without_rendering()  # the layout is computed once, not again for each file
    figure.set_layout_engine("none")
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=140, metadata={"Software": None})
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(svg, format="svg", metadata=nothing)
    places = [stem.with_name(f"{stem.name}.{end}") for end in ("png", "svg")]
    written = (write_atomically(places[0], png.getvalue()), write_atomically(places[1], svg.getvalue()))
    return Drawn(kind, title, caption, svg.getvalue(), written)


def _new(methods: int, columns: int = 1, **settings: Any) -> tuple[Figure, list[Axes]]:
    """A figure with a row of axes, high enough for a legend of so many methods at its right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * columns + 2.9, max(4.0, 0.19 * methods + 0.7)), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False, **settings)[0]
    return figure, list(axes)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", handlelength=3.2, labelspacing=0.35)


def _lines(method: str, kind: str) -> dict[str, Any]:
    """Keyword arguments of `Axes.plot` for a method."""
    look = style.look(method, kind)
    marks = {"marker": look.marker, "markersize": 5.5, "fillstyle": "left" if look.refined else "full"}
    return {
        "color": look.colour,
        "linestyle": look.line,
        "linewidth": look.width,
        "markerfacecoloralt": style.PAPER,
    } | marks


def _ordered(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The methods of a frame and their kinds, in the order of legends."""
    kinds = frame.drop_duplicates("method").set_index("method")["kind"].to_dict()
    return sorted(((str(m), str(k)) for m, k in kinds.items()), key=lambda mk: style.order(*mk))


def _cdf(curves: pd.DataFrame, summary: pd.DataFrame, threshold: float, title: str) -> Figure:
    """RMSE CDFs of one place, best recall first in the legend."""
    figure, (axes,) = _new(len(summary))
    for row in summary.sort_values(["recall", "method"], ascending=[False, True]).to_dict("records"):
        curve = curves[curves["method"] == row["method"]]
        _curve(axes, curve["rmse"].to_numpy(), curve["fraction"].to_numpy(), row["method"], row["kind"], row["recall"])
    axes.axvline(threshold, color=style.INK, linewidth=0.8, alpha=0.6)
    beside: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "fontsize": 7.5}
    axes.annotate(f"recall@{threshold:g}", (threshold, 0.01), **beside)
    axes.set(xlim=(-0.01, 1), ylim=(0, 1.03), xlabel="RMSE (units of the cloud)", ylabel="share of asked problems")
    axes.set_title(title, loc="left")
    _legend(figure, axes)
    return figure


def _curve(axes: Axes, x: Any, y: Any, method: str, kind: str, recall: float) -> None:
    """One step curve over 0 to 1, thinned to 400 steps, with a diamond where it reaches 1."""
    shown = np.flatnonzero(x <= 1)
    if len(shown) > 400:
        shown = shown[np.unique(np.linspace(0, len(shown) - 1, 400).astype(int))]
    last = y[shown[-1]] if len(shown) else 0.0
    steps = np.concatenate([[0.0], x[shown], [1.0]]), np.concatenate([[0.0], y[shown], [last]])
    lines = _lines(method, kind) | {"markersize": 4, "markevery": 0.21}
    axes.step(*steps, where="post", label=f"{recall:.2f}  {style.label(method)}", **lines)
    if last == 1:
        axes.plot(
            x[shown[-1]], 1, marker="D", markersize=6, color=style.look(method, kind).colour, zorder=5, clip_on=False
        )


def _by_angle(bins: pd.DataFrame, summary: pd.DataFrame, title: str) -> Figure:
    """Mean RMSE over answered, and recall, against the bins of rotation magnitude."""
    kinds = [(m, k) for m, k in _ordered(summary) if m in set(bins["method"])]
    figure, (left, right) = _new(len(kinds), columns=2)
    for method, kind in kinds:
        mine = bins[bins["method"] == method]
        middle = (mine["angle_low"] + mine["angle_high"]) / 2
        lines = _lines(method, kind)
        left.plot(middle, mine["rmse_mean_answered"], **lines)
        partly = (mine["answered"] < mine["problems"]).to_numpy()
        left.plot(
            middle[partly],
            mine["rmse_mean_answered"][partly],
            **(lines | {"linestyle": "", "fillstyle": "full", "markerfacecolor": style.PAPER}),
        )
        right.plot(middle, mine["recall"], label=style.label(method), **lines)
    edges = sorted({*bins["angle_low"], *bins["angle_high"]})
    for axes in (left, right):
        axes.set(xlabel="rotation magnitude (°)", xticks=edges, xlim=(edges[0], edges[-1]))
    left.set_yscale("symlog", linthresh=0.01)
    left.set(ylabel="mean RMSE over answered (units of the cloud)")
    left.set_title(title, loc="left")
    right.set(ylabel="recall, failures counted", ylim=(-0.03, 1.03))
    left.set_ylim(bottom=0)
    _legend(figure, right)
    return figure


def _timing(timing: pd.DataFrame, folder: Path) -> Iterator[Drawn]:
    """Time against the number of points, and against rotation magnitude for each number of points."""
    whole = (timing["angle_low"] == 0) & (timing["angle_high"] == 180)
    if whole.any():
        figure = _times(
            timing[whole], timing.loc[whole, "points"], "points in a cloud", "Time against point count", True
        )
        yield _save(figure, "time", "Time against point count", TIME_CAPTION, folder / "time_points")
    for points, group in timing[~whole].groupby("points", sort=True):
        title = f"Time against rotation magnitude · {points} points"
        middle = (group["angle_low"] + group["angle_high"]) / 2
        figure = _times(group, middle, "rotation magnitude (°)", title, False)
        edges = sorted({*group["angle_low"], *group["angle_high"]})
        figure.axes[0].set(xticks=edges, xlim=(edges[0], edges[-1]))
        yield _save(figure, "time", title, TIME_CAPTION, folder / f"time_angle_{points}")


def _times(rows: pd.DataFrame, x: pd.Series[float], xlabel: str, title: str, log: bool) -> Figure:
    """Median milliseconds of each method against x."""
    figure, (axes,) = _new(rows["method"].nunique())
    for method, kind in _ordered(rows):
        mine = (rows["method"] == method).to_numpy()
        for i, (_, group) in enumerate(rows[mine].groupby(["device", "threads"], dropna=False)):
            here, times = x.loc[group.index], group["time_ms_median"]
            lines = _lines(method, kind)
            axes.plot(here, times, label=style.label(method) if i == 0 else None, **lines)
            never = here[times.isna()]
            top: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "in_layout": False}
            axes.plot(never, np.ones(len(never)), "x", color=lines["color"], **top)
    axes.set_yscale("log")
    axes.set(xlabel=xlabel, ylabel="median time for one pair (ms)")
    axes.set_title(title, loc="left")
    if log:
        _log_points(axes, sorted(set(x)))
    _legend(figure, axes)
    return figure


def _log_points(axes: Axes, counts: list[float]) -> None:
    """A logarithmic axis of points with a tick at each count there is."""
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{int(n)}" for n in counts])
    axes.xaxis.minorticks_off()
    axes.set_xlim(counts[0] / 1.15, counts[-1] * 1.15)


def _categories(table: CategoryTable, title: str) -> Figure:
    """The table of categories by methods, shaded by mean RMSE from 0 to 1."""
    import matplotlib
    from matplotlib.figure import Figure

    mean = table.mean.to_numpy(dtype=float)
    rows, columns = mean.shape
    figure = Figure(figsize=(2.2 + 0.6 * columns, 1.8 + 0.2 * rows), layout="constrained")
    axes = figure.subplots()
    shades = matplotlib.colormaps["PuBu"].with_extremes(bad="#dddddd")
    axes.imshow(mean, cmap=shades, vmin=0, vmax=1, aspect="auto")
    for i, j in np.ndindex(rows, columns):
        text = style.number(float(mean[i, j]), 2) + ("*" if table.partly.iat[i, j] else "")
        weight, ink = "bold" if table.best.iat[i, j] else "normal", "#ffffff" if mean[i, j] > 0.6 else "#111111"
        axes.text(j, i, text, ha="center", va="center", fontsize=7, color=ink, fontweight=weight, in_layout=False)
    names = [style.label(str(m), 22) for m in table.mean.columns]
    axes.set_xticks(range(columns), names, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(rows), [style.label(str(c)) for c in table.mean.index])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set_title(f"mean RMSE over answered · {title}", loc="left")
    return figure
