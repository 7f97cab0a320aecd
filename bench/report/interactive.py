"""Interactive charts of the page: data and layout for Plotly, aggregated before they are embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.aggregate import all_angles
from bench.evaluation.conventions import Convention
from bench.report import style
from bench.report.figures import error_axis
from bench.report.ranking import GroupKey, Ranking, below_floor, display_name, pareto_front, select_group
from bench.report.recommendation import Recommendation
from bench.report.selection import by_rank
from bench.report.tables import Row, group_records

if TYPE_CHECKING:
    import pandas as pd

Chart = dict[str, Any]

STEPS = 160
"""Most points of a curve."""
MIN_ERROR = 1e-6
"""Smaller errors are drawn at this value, so that a logarithmic axis can show exact poses."""

_SYMBOL = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "<": "triangle-left",
    ">": "triangle-right",
    "h": "hexagon",
    "p": "pentagon",
    "*": "star",
}


def _line_of(row: Row) -> dict[str, Any]:
    """Return name, line and marker of a row of the summary; faint with too few problems."""
    few = below_floor(row)
    look = _line(str(row["method"]), str(row["kind"])) | ({"opacity": style.FAINT} if few else {})
    return look | {"name": _escape(str(row["method"])) + display_name(row)[len(str(row["method"])) :]}


def _line(method: str, kind: str) -> dict[str, Any]:
    """Return name, line and marker of a method, as in the figures."""
    look = style.look(method, kind)
    symbol = _SYMBOL[look.marker] + ("-open" if look.refined else "")
    return {
        "name": _escape(method),
        "meta": method,
        "line": {"color": look.colour, "dash": look.dash, "width": look.width + 0.3},
        "marker": {"color": look.colour, "symbol": symbol, "size": 8},
    }


def _escape(text: str) -> str:
    """Escape a name for Plotly, which interprets some HTML tags, entities and dollar signs."""
    return (
        style.shorten_name(text, 28)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("$", "&#36;")
    )


def _rounded(values: Any) -> list[float | None]:
    """Round numbers to five digits, more than a screen shows; None if not finite."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def cdf(curves: pd.DataFrame, rows: list[Row], criterion: Convention, ranking: Ranking | None = None) -> Chart:
    """Build the error CDFs of a group, the best method first; a diamond where a curve reaches 1."""
    traces = []
    for row in by_rank(rows, ranking):
        mine = curves[curves["method"] == row["method"]]
        x, y = np.maximum(mine[criterion.metric].to_numpy(), MIN_ERROR), mine["fraction"].to_numpy()
        kept = _reduced_rows(y)
        look = _line_of(row)
        ends = [0] * (len(kept) - 1) + [10 if len(y) and y[-1] == 1 else 0]
        look["line"]["shape"] = "hv"
        look["marker"] = {"color": look["line"]["color"], "symbol": "diamond", "size": ends}
        share = "" if np.isnan(row["recall"]) else f"{row['recall']:.2f} "
        hover = "%{y:.1%} up to %{x:.4g}<extra>" + look["name"] + "</extra>"
        traces.append(
            look
            | {"name": share + look["name"], "mode": "lines+markers", "x": _rounded(x[kept]), "y": _rounded(y[kept])}
            | {"hovertemplate": hover}
        )
    lines = [] if criterion.threshold is None else [_vertical_line(criterion.threshold)]
    shown = curves[~curves["method"].isin([str(r["method"]) for r in rows if r["kind"] == "control"])]
    axis = error_axis(shown[criterion.metric].to_numpy(dtype=float), criterion)
    limits: list[float] = [float(np.log10(axis.low)), float(np.log10(axis.high))] if axis.log else [0.0, axis.high]
    x_axis = {"title": {"text": f"{criterion.label} ({criterion.unit})"}, "range": limits}
    layout = {
        "xaxis": x_axis | {"type": "log" if axis.log else "linear"},
        "yaxis": {"title": {"text": "share of problems"}, "range": [0, 1.03]},
        "shapes": lines,
    }
    return {"data": traces, "layout": layout, "log": "xaxis", "linear": [0, axis.high]}


def _reduced_rows(y: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the rows of a curve to keep: evenly spread over its height, with both ends."""
    if len(y) <= STEPS:
        return np.arange(len(y))
    return np.unique(np.searchsorted(y, np.linspace(y[0], y[-1], STEPS)).clip(max=len(y) - 1))


def _vertical_line(x: float) -> dict[str, Any]:
    """Build a vertical line over the full height."""
    line = {"width": 1, "color": "#888888"}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def pareto(rows: list[Row], recommendation: Recommendation) -> Chart:
    """Build recall over time of a group; a line joins the methods of the Pareto front, which ends at the recommended one."""
    ms = {m: max(value, 1e-3) for m, value in recommendation.ms.items()}
    known = [r for r in rows if str(r["method"]) in ms and not np.isnan(r["recall"])]
    traces = [_front(pareto_front(known, ms, recommendation.method), ms)]
    for row in known:
        low, high = row["recall"] - row["recall_low"], row["recall_high"] - row["recall"]
        error = {
            "type": "data",
            "symmetric": False,
            "color": _line_of(row)["line"]["color"],
            "array": _rounded([high]),
            "arrayminus": _rounded([low]),
            "thickness": 1,
        }
        look = _line_of(row)
        look["marker"]["size"] = 11
        x, y = _rounded([ms[str(row["method"])]]), _rounded([row["recall"]])
        hover = "recall %{y:.3f}, %{x:.4g} ms<extra>" + look["name"] + "</extra>"
        traces.append(look | {"mode": "markers", "x": x, "y": y, "error_y": error, "hovertemplate": hover})
    how = "timed alone" if recommendation.alone else "median"
    axes = {
        "xaxis": {"title": {"text": f"time for one pair, {how} (ms)"}, "type": "log"},
        "yaxis": {"title": {"text": "recall (failures count)"}, "range": [-0.03, 1.05]},
    }
    return {"data": traces, "layout": axes, "labels": True}


def _front(rows: Sequence[Row], ms: Mapping[str, float]) -> dict[str, Any]:
    """Build the Pareto front as a grey line."""
    line = {"color": "#888888", "width": 1, "dash": "dot", "shape": "hv"}
    x, y = [ms[str(r["method"])] for r in rows], [r["recall"] for r in rows]
    return {"mode": "lines", "x": _rounded(x), "y": _rounded(y), "line": line, "name": "front", "hoverinfo": "skip"}


def by_bins(bins: pd.DataFrame, rows: list[Row], name: str, title: str, criterion: Convention) -> Chart | None:
    """Build recall and mean error over answered by bins of angle or overlap (`name`); None with fewer than two bins."""
    if bins[f"{name}_low"].nunique() < 2:
        return None
    traces = []
    for row in rows:
        mine = bins[bins["method"] == row["method"]]
        x = _rounded((mine[f"{name}_low"] + mine[f"{name}_high"]) / 2)
        look = _line_of(row) | {
            "mode": "lines+markers",
            "x": x,
            "legendgroup": str(row["method"]),
        }
        counts = [f"{a} of {p} answered" for a, p in zip(mine["answered"], mine["problems"], strict=True)]
        hover = "%{y:.4g} at %{x:g}, %{text}<extra>" + look["name"] + "</extra>"
        look |= {"text": counts, "hovertemplate": hover}
        traces.append(look | {"y": _rounded(mine["recall"])})
        traces.append(
            look
            | {
                "y": _rounded(mine[f"{criterion.metric}_mean_answered"]),
                "yaxis": "y2",
                "xaxis": "x2",
                "showlegend": False,
            }
        )
    layout = {
        "xaxis": {"title": {"text": title}, "domain": [0, 0.45]},
        "xaxis2": {"title": {"text": title}, "domain": [0.55, 1], "anchor": "y2"},
        "yaxis": {"title": {"text": "recall (failures count)"}, "range": [-0.03, 1.05]},
        "yaxis2": {"title": {"text": f"mean {criterion.label} over answered"}, "anchor": "x2", "rangemode": "tozero"},
    }
    return {"data": traces, "layout": layout, "log": "yaxis2", "wide": True}


def times(timing: pd.DataFrame) -> Chart:
    """Build median time by number of points."""
    whole = timing[all_angles(timing)]
    traces = []
    for method, kind in style.ordered_methods(whole):
        mine = whole[whole["method"] == method].sort_values("points")
        look = _line(method, kind)
        hover = "%{y:.4g} ms at %{x} points, %{text}<extra>" + look["name"] + "</extra>"
        data = {
            "x": mine["points"].tolist(),
            "y": _rounded(mine["time_ms_median"]),
            "text": mine["status"].astype(str).tolist(),
        }
        traces.append(look | data | {"mode": "lines+markers", "hovertemplate": hover})
    axes = {
        "xaxis": {
            "title": {"text": "points per cloud"},
            "type": "log",
            "tickvals": sorted(whole["points"].unique().tolist()),
        },
        "yaxis": {"title": {"text": "median time per pair (ms)"}, "type": "log"},
    }
    return {"data": traces, "layout": axes, "wide": True}


def all_charts(
    frames: dict[str, pd.DataFrame], recommended: Mapping[GroupKey, Recommendation], criterion: Convention
) -> dict[str, dict[GroupKey | None, Chart]]:
    """Build every chart of the page by section and problem group; times are of all groups."""
    charts: dict[str, dict[GroupKey | None, Chart]] = {"pareto": {}, "cdf": {}, "angle": {}, "overlap": {}, "time": {}}
    for group, advice in recommended.items():
        rows = [r for r in group_records(frames["summary"], group) if r["problems"]]
        charts["cdf"][group] = cdf(select_group(frames["cdf"], group), rows, criterion, advice.ranking)
        if criterion.limits:
            charts["pareto"][group] = pareto(rows, advice)
        for name, title in (("angle", "rotation angle (°)"), ("overlap", "overlap (share of the source)")):
            chart = by_bins(select_group(frames[f"by_{name}"], group), rows, name, title, criterion)
            if chart:
                charts[name][group] = chart
    if frames["timing"]["points"].nunique() > 1:
        charts["time"][None] = times(frames["timing"])
    return charts
