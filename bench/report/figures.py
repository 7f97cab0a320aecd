"""Figures of a run, drawn from the tables of `bench.evaluation.aggregate` and saved as PNG and SVG."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.evaluation.aggregate import all_angles
from bench.evaluation.conventions import Convention
from bench.report import style
from bench.report.ranking import (
    MIN_PROBLEMS,
    CategoryTable,
    GroupKey,
    below_floor,
    display_name,
    display_rows,
    group_title,
    select_group,
)
from bench.report.tables import groups_of
from common.files import write_atomically
from common.parallel import parallel_map

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class SavedFigure(NamedTuple):
    """A saved figure.

    Attributes:
        kind: "cdf", "density", "angle", "time", "category", "grid", "gaussians" or "risk".
        files: the PNG and the SVG file.
    """

    kind: str
    title: str
    caption: str
    files: tuple[Path, Path]


class FigureJob(NamedTuple):
    """A figure to draw: the function and its arguments, and the path of the files without suffix."""

    make: Callable[..., Figure]
    arguments: tuple[Any, ...]
    kind: str
    title: str
    caption: str
    stem: Path

    def draw(self) -> SavedFigure:
        """Draw the figure and write both files."""
        import matplotlib

        with matplotlib.rc_context(style.RC):
            return _save(self.make(*self.arguments), self)


DPI = 140
"""Resolution of PNGs, and of rasterised clouds in SVGs."""

MAX_SERIAL_FIGURES = 10
"""Number of figures above which they are drawn by several processes."""


def draw_all(jobs: Iterable[FigureJob]) -> Iterator[SavedFigure]:
    """Draw figures, in several processes if there are many; see `common.parallel.parallel_map`."""
    jobs = [
        job._replace(stem=job.stem.absolute()) for job in jobs
    ]  # worker processes may have another working directory
    for folder in {job.stem.parent for job in jobs}:
        folder.mkdir(parents=True, exist_ok=True)
    return parallel_map(FigureJob.draw, jobs, len(jobs) > MAX_SERIAL_FIGURES)


def figures_of(
    frames: dict[str, pd.DataFrame], categories: dict[GroupKey, CategoryTable], criterion: Convention, folder: Path
) -> Iterator[FigureJob]:
    """Yield every figure for which the tables have data."""
    yield from _curves(frames, criterion, folder)
    yield from _densities(frames, criterion, folder)
    yield from _timing(frames["timing"], folder)
    yield from _shades(frames["summary"], categories, criterion, folder)


CDF_CAPTION = (
    "Share of problems with an error up to the value on the axis; failures count, so a curve may end below 1. "
    "A diamond marks the point where a curve reaches 1. The number in the legend is the recall (at the vertical line, if any). "
    "Thick: learned. Thin: global. Dash-dotted: local. Dashed, half-filled markers: refined. "
    "Grey dots: controls. Dashed horizontal line: share of problems where no other pose fits as well as the truth. "
    f"Last and faint, with their number n: methods on fewer than {MIN_PROBLEMS} problems, which are not ranked."
)
DENSITY_CAPTION = "Error CDFs by number of points, one panel per method; recall in the legend."
ANGLE_CAPTION = (
    "Left: mean error over answered problems by rotation angle; hollow markers: some problems were not answered, so read it "
    "together with the recall on the right, where every failure counts. The error axis is linear below 0.01 and logarithmic "
    "above."
)
TIME_CAPTION = (
    "Median time from two raw clouds to a pose, one pair at a time. A cross at the top: no call returned "
    "(time-out, out of memory, …)."
)


def _curves(frames: dict[str, pd.DataFrame], criterion: Convention, folder: Path) -> Iterator[FigureJob]:
    """Yield the CDF and the errors by rotation angle of each group that was run."""
    evaluated = frames["summary"][frames["summary"]["problems"] > 0]
    for group in groups_of(evaluated):
        name, suffix, summary = group_title(group), style.slug(*group), select_group(evaluated, group)
        curves, bins = select_group(frames["cdf"], group), select_group(frames["by_angle"], group)
        yield FigureJob(_cdf, (curves, summary, criterion, name), "cdf", name, CDF_CAPTION, folder / f"cdf_{suffix}")
        if len(bins):
            yield FigureJob(
                _by_angle, (bins, summary, criterion, name), "angle", name, ANGLE_CAPTION, folder / f"angle_{suffix}"
            )


def _densities(frames: dict[str, pd.DataFrame], criterion: Convention, folder: Path) -> Iterator[FigureJob]:
    """Yield the CDFs by number of points of each data set and condition with several numbers of points."""
    evaluated = frames["summary"][(frames["summary"]["problems"] > 0) & (frames["summary"]["kind"] != "control")]
    for (dataset, condition), summary in evaluated.groupby(["dataset", "condition"], observed=True, sort=True):
        if summary["points"].nunique() > 1:
            title = f"{dataset} · {condition}"
            rows = (frames["cdf"]["dataset"] == dataset) & (frames["cdf"]["condition"] == condition)
            arguments, stem = (
                (frames["cdf"][rows], summary, criterion, title),
                folder / f"density_{style.slug(dataset, condition)}",
            )
            yield FigureJob(_density, arguments, "density", title, DENSITY_CAPTION, stem)


def _shades(
    summary: pd.DataFrame, categories: dict[GroupKey, CategoryTable], criterion: Convention, folder: Path
) -> Iterator[FigureJob]:
    """Yield the shaded table of categories of each group."""
    from bench.report.tables import CATEGORY_NOTE

    for group, table in categories.items():
        name, stem = group_title(group), folder / f"categories_{style.slug(*group)}"
        few = {str(r["method"]): display_name(r) for r in display_rows(select_group(summary, group)) if below_floor(r)}
        arguments = table, f"mean {criterion.label} over answered · {name}", few
        yield FigureJob(_categories, arguments, "category", name, CATEGORY_NOTE, stem)


def _save(figure: Figure, job: FigureJob) -> SavedFigure:
    """Write stem.png and stem.svg; equal data give equal SVG bytes.

    `Figure.savefig` is not used because it draws everything twice to recompute the layout.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")
    figure.dpi = DPI
    png, svg = io.BytesIO(), io.StringIO()
    FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(svg, metadata=no_metadata)  # type: ignore[no-untyped-call]
    files = [job.stem.with_name(f"{job.stem.name}.{end}") for end in ("png", "svg")]
    written = (write_atomically(files[0], png.getvalue()), write_atomically(files[1], svg.getvalue()))
    return SavedFigure(job.kind, job.title, job.caption, written)


def new_figure(methods: int, columns: int = 1, **settings: Any) -> tuple[Figure, list[Axes]]:
    """Create a figure with a row of axes, high enough for a legend of `methods` entries on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * columns + 2.9, max(4.0, 0.19 * methods + 0.7)), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False, **settings)[0]
    return figure, list(axes)


def place_legend(figure: Figure, axes: Axes) -> None:
    """Place the legend of the axes on the right of the figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", handlelength=3.2, labelspacing=0.35)


def label_of(row: Mapping[Any, Any]) -> str:
    """Format the name of a row's method for a legend, with its number of problems if these are too few."""
    method = str(row["method"])
    return style.label(method) + display_name(row)[len(method) :]


def lines_of_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return keyword arguments of `Axes.plot` for a row of the summary; faint with too few problems."""
    return lines_of(str(row["method"]), str(row["kind"])) | ({"alpha": style.FAINT} if below_floor(row) else {})


def lines_of(method: str, kind: str) -> dict[str, Any]:
    """Return keyword arguments of `Axes.plot` for a method."""
    look = style.look(method, kind)
    marks = {"marker": look.marker, "markersize": 5.5, "fillstyle": "left" if look.refined else "full"}
    return {
        "color": look.colour,
        "linestyle": look.line,
        "linewidth": look.width,
        "markerfacecoloralt": style.PAPER,
    } | marks


def _cdf(curves: pd.DataFrame, summary: pd.DataFrame, criterion: Convention, title: str) -> Figure:
    """Draw the error CDFs of a group, best recall first in the legend."""
    figure, (axes,) = new_figure(len(summary))
    right = _right_end(curves, criterion)
    by_recall = summary.sort_values(["recall", "method"], ascending=[False, True]).to_dict("records")
    for row in sorted(by_recall, key=below_floor):
        curve = curves[curves["method"] == row["method"]]
        lines = lines_of_row(row) | {"markersize": 4, "markevery": 0.21}
        share = "" if np.isnan(row["recall"]) else f"{row['recall']:.2f}  "
        _curve(axes, curve, criterion.metric, right, {"label": share + label_of(row)} | lines)
    _frame_cdf(axes, criterion, right)
    _draw_ceiling(axes, summary)
    axes.set_title(title, loc="left")
    place_legend(figure, axes)
    return figure


def _draw_ceiling(axes: Axes, summary: pd.DataFrame) -> None:
    """Draw a dashed line at the ceiling, if it is known; of the method with most problems."""
    known = summary[summary["ceiling_problems"] > 0].sort_values("ceiling_problems", kind="stable")
    if len(known):
        ceiling = float(known["ceiling"].iloc[-1])
        label = f"{ceiling:.2f}  ceiling"
        axes.axhline(ceiling, color=style.INK, linewidth=0.9, linestyle="--", alpha=0.6, label=label)


def _right_end(curves: pd.DataFrame, criterion: Convention) -> float:
    """Return the end of the error axis: 1 for distances on unit objects, else the 90th percentile of the errors."""
    if criterion.metric in ("rmse", "mean_distance", "rmse_coordinate") or curves.empty:
        return 1.0
    return float(max(np.quantile(curves[criterion.metric], 0.9), 1.5 * (criterion.threshold or 0), 1e-9))


def _frame_cdf(axes: Axes, criterion: Convention, right: float) -> None:
    """Set limits and labels of CDF axes, and draw a line at the threshold."""
    if criterion.threshold is not None:
        axes.axvline(criterion.threshold, color=style.INK, linewidth=0.8, alpha=0.6)
        offset: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "fontsize": 7.5}
        axes.annotate(f"recall@{criterion.threshold:g}", (criterion.threshold, 0.01), **offset)
    axes.set(xlim=(-0.01 * right, right), ylim=(0, 1.03))
    axes.set(xlabel=f"{criterion.label} ({criterion.unit})", ylabel="share of problems")


def _curve(axes: Axes, curve: pd.DataFrame, metric: str, right: float, lines: dict[str, Any]) -> None:
    """Draw a step curve from 0 to the right end, reduced to 400 steps, with a diamond where it reaches 1."""
    x, y = curve[metric].to_numpy(), curve["fraction"].to_numpy()
    shown = np.flatnonzero(x <= right)
    if len(shown) > 400:
        shown = shown[np.unique(np.linspace(0, len(shown) - 1, 400).astype(int))]
    last = y[shown[-1]] if len(shown) else 0.0
    steps = np.concatenate([[0.0], x[shown], [right]]), np.concatenate([[0.0], y[shown], [last]])
    axes.step(*steps, where="post", **lines)
    if last == 1:
        look = {"color": lines["color"], "alpha": lines.get("alpha")}
        axes.plot(x[shown[-1]], 1, marker="D", markersize=6, zorder=5, clip_on=False, **look)


def _density(curves: pd.DataFrame, summary: pd.DataFrame, criterion: Convention, title: str) -> Figure:
    """Draw one panel per method: its CDF at every number of points, dark to light."""
    import matplotlib
    from matplotlib.figure import Figure

    few = {
        method for method, rows in summary.groupby("method", observed=True) if all(map(below_floor, display_rows(rows)))
    }
    methods = sorted(style.ordered_methods(summary), key=lambda pair: pair[0] in few)
    right = _right_end(curves, criterion)
    columns = min(4, len(methods))
    rows = -(-len(methods) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.7 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    counts = sorted(summary["points"].unique())
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(counts)))
    dashes: list[Any] = ["-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))]
    for axes, (method, _) in zip(panels, methods, strict=False):
        for i, points in enumerate(counts):
            curve = curves[(curves["method"] == method) & (curves["points"] == points)]
            own = summary[(summary["method"] == method) & (summary["points"] == points)]
            for row in display_rows(own):
                share = "" if np.isnan(row["recall"]) else f"{row['recall']:.2f}  "
                look = {"color": shades[i], "linestyle": dashes[i % 4], "linewidth": 1.5}
                look |= {"alpha": style.FAINT} if below_floor(row) else {}
                count = display_name(row)[len(str(method)) :]
                _curve(axes, curve, criterion.metric, right, {"label": f"{share}N = {points}{count}"} | look)
        _frame_cdf(axes, criterion, right)
        axes.label_outer()
        axes.set_title(style.label(method), loc="left")
        axes.legend(loc="lower right", fontsize=7)
    for axes in panels[len(methods) :]:
        axes.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def _by_angle(bins: pd.DataFrame, summary: pd.DataFrame, criterion: Convention, title: str) -> Figure:
    """Draw mean error over answered and recall by rotation angle."""
    shown = [row for row in display_rows(summary) if row["method"] in set(bins["method"])]
    figure, (left, right) = new_figure(len(shown), columns=2)
    for row in shown:
        rows = bins[bins["method"] == row["method"]]
        middle = (rows["angle_low"] + rows["angle_high"]) / 2
        lines, mean = lines_of_row(row), rows[f"{criterion.metric}_mean_answered"]
        left.plot(middle, mean, **lines)
        partly = (rows["answered"] < rows["problems"]).to_numpy()
        hollow = {"linestyle": "", "fillstyle": "full", "markerfacecolor": style.PAPER}
        left.plot(middle[partly], mean[partly], **(lines | hollow))
        right.plot(middle, rows["recall"], label=label_of(row), **lines)
    edges = sorted({*bins["angle_low"], *bins["angle_high"]})
    for axes in (left, right):
        axes.set(xlabel="rotation angle (°)", xticks=edges, xlim=(edges[0], edges[-1]))
    left.set_yscale("symlog", linthresh=0.01)
    left.set(ylabel=f"mean {criterion.label} over answered ({criterion.unit})")
    left.set_title(title, loc="left")
    right.set(ylabel="recall (failures count)", ylim=(-0.03, 1.03))
    _draw_ceiling(right, summary)
    left.set_ylim(bottom=0)
    place_legend(figure, right)
    return figure


def _timing(timing: pd.DataFrame, folder: Path) -> Iterator[FigureJob]:
    """Yield time by number of points, and by rotation angle for each number of points."""
    whole = all_angles(timing)
    if whole.any():
        title = "Time by number of points"
        yield FigureJob(_times_by_points, (timing[whole], title), "time", title, TIME_CAPTION, folder / "time_points")
    for points, rows in timing[~whole].groupby("points", sort=True, observed=True):
        title = f"Time by rotation angle · {points} points"
        yield FigureJob(_times_by_angle, (rows, title), "time", title, TIME_CAPTION, folder / f"time_angle_{points}")


def _times_by_points(rows: pd.DataFrame, title: str) -> Figure:
    return _times(rows, rows["points"], "points per cloud", title, True)


def _times_by_angle(rows: pd.DataFrame, title: str) -> Figure:
    figure = _times(rows, (rows["angle_low"] + rows["angle_high"]) / 2, "rotation angle (°)", title, False)
    edges = sorted({*rows["angle_low"], *rows["angle_high"]})
    figure.axes[0].set(xticks=edges, xlim=(edges[0], edges[-1]))
    return figure


def _times(rows: pd.DataFrame, x: pd.Series[float], xlabel: str, title: str, log: bool) -> Figure:
    """Draw the median time of each method over x."""
    figure, (axes,) = new_figure(rows["method"].nunique())
    for method, kind in style.ordered_methods(rows):
        own = (rows["method"] == method).to_numpy()
        for i, (_, part) in enumerate(rows[own].groupby(["device", "threads"], observed=True)):
            positions, times = x.loc[part.index], part["time_ms_median"]
            lines = lines_of(method, kind)
            axes.plot(positions, times, label=style.label(method) if i == 0 else None, **lines)
            never = positions[times.isna()]
            top: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "in_layout": False}
            axes.plot(never, np.ones(len(never)), "x", color=lines["color"], **top)
    axes.set_yscale("log")
    axes.set(xlabel=xlabel, ylabel="median time for one pair (ms)")
    axes.set_title(title, loc="left")
    if log:
        _log_points(axes, sorted(set(x)))
    place_legend(figure, axes)
    return figure


def _log_points(axes: Axes, counts: list[float]) -> None:
    """Set up a logarithmic axis of points with a tick at each count."""
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{int(n)}" for n in counts])
    axes.xaxis.minorticks_off()
    axes.set_xlim(counts[0] / 1.15, counts[-1] * 1.15)


def _categories(table: CategoryTable, title: str, few: Mapping[str, str]) -> Figure:
    """Draw the table of categories and methods, shaded by mean error from 0 to 1.

    `few` holds the names with number of the methods with too few problems to be ranked; they are faint.
    """
    import matplotlib
    from matplotlib.figure import Figure

    mean = table.mean.to_numpy(dtype=float)
    rows, columns = mean.shape
    figure = Figure(figsize=(2.2 + 0.6 * columns, 1.8 + 0.2 * rows), layout="constrained")
    axes = figure.subplots()
    shades = matplotlib.colormaps["PuBu"].with_extremes(bad="#dddddd")
    opacity = np.array([style.FAINT if str(m) in few else 1.0 for m in table.mean.columns])
    axes.imshow(mean, cmap=shades, vmin=0, vmax=1, aspect="auto", alpha=np.tile(opacity, (rows, 1)))
    for i, j in np.ndindex(rows, columns):
        text = style.number(float(mean[i, j]), 2) + ("*" if table.partly.iat[i, j] else "")
        light = mean[i, j] > 0.6 and opacity[j] == 1
        look: dict[str, Any] = {"color": "#ffffff" if light else "#111111", "alpha": max(opacity[j], 0.6)}
        look["fontweight"] = "bold" if table.best.iat[i, j] else "normal"
        axes.text(j, i, text, ha="center", va="center", fontsize=7, in_layout=False, **look)
    names = [style.label(few.get(str(m), str(m)), 22) for m in table.mean.columns]
    axes.set_xticks(range(columns), names, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(rows), [style.label(str(c)) for c in table.mean.index])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set_title(title, loc="left")
    return figure
