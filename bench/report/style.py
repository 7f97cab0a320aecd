"""Appearance: the colour, line and marker of a method in every figure, and the format of numbers and names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.keys import seed_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

INK = "#1b1d21"
"""Colour of text and axes in figures; the HTML page replaces it by its text colour."""
PAPER = "#fefefe"
"""Background of figures; transparent in the HTML page."""

KINDS = ("local", "global", "learned", "control")
"""Kinds of methods in the order of tables and legends."""

FAINT = 0.35
"""Opacity of methods with too few problems to be ranked."""

SOURCE, TARGET = "#D55E00", "#8a8f98"
"""Colours of the source and target clouds in pictures."""

RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#888888",
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "registration-bench",
    "path.simplify": True,
}

_COLOURS = ("#6A3D9A", "#A6761D", "#D6336C", "#7F8F00", "#0B9AAE", "#5C6BC0", "#B04A3A", "#3F8F3F")
_GREYS = ("#6b6b6b", "#8a8a8a", "#a0a0a0")
_MARKERS = ("o", "s", "^", "v", "P", "X", "<", ">", "h", "p", "*")  # no diamond: it marks the end of a CDF
_LINES: dict[str, Any] = {"local": (0, (5, 1.5, 1, 1.5)), "global": "-", "learned": "-", "control": (0, (1, 1.6))}


class Look(NamedTuple):
    """Colour, dash pattern, marker and line width of a method; a refined method has half-filled markers."""

    colour: str
    line: Any
    marker: str
    width: float
    refined: bool


@cache
def look(method: str, kind: str) -> Look:
    """Return the look of a method, from `looks.toml` or from its name, independently of the other methods of the run.

    The first part of a name (`a` of `a+b` and of `a[x=1]`) determines the colour, the kind the line: learned methods are
    thick, local ones dash-dotted, controls grey and dotted. Refined methods are dashed with half-filled markers.
    """
    first = re.split(r"[+\[]", method)[0]
    known = _packaged_looks().get(first, {})
    refined = "+" in method
    control = kind == "control"
    greys = _GREYS[seed_of("grey", first) % len(_GREYS)]
    colour = greys if control else known.get("colour", _COLOURS[seed_of("colour", first) % len(_COLOURS)])
    plain = method == first or refined
    by_name = _MARKERS[seed_of("marker", method) % len(_MARKERS)]
    line = (0, (4, 1.6)) if refined and not control else _LINES.get(kind, "-")
    return Look(
        colour, line, known.get("marker", by_name) if plain else by_name, 2.2 if kind == "learned" else 1.3, refined
    )


@cache
def _packaged_looks() -> dict[str, dict[str, str]]:
    return tomllib.loads((files("bench.report") / "looks.toml").read_text(encoding="utf-8"))


def order(method: str, kind: str) -> tuple[int, str]:
    """Return the sort key of a method: kind, then name."""
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), method)


def ordered_methods(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the methods of a frame with their kinds, in the order of tables and legends."""
    pairs = frame[["method", "kind"]].drop_duplicates("method").itertuples(index=False)
    return sorted(((str(method), str(kind)) for method, kind in pairs), key=lambda pair: order(*pair))


def label(method: str, width: int = 28) -> str:
    """Format a method's name for a figure: shortened, and with dollar signs escaped."""
    return shorten(method, width).replace("$", r"\$")


def shorten(text: str, width: int) -> str:
    """Return at most `width` characters of the first line of a text."""
    line = text.strip().split("\n")[0]
    return line if len(line) <= width else line[: width - 1] + "…"


def number(value: float, digits: int = 3) -> str:
    """Format a number for a table: – if unknown, ∞ for a failure, more digits if small, fewer if large."""
    if value is None or np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.5 * 10**-digits:
        return f"{value:.3f}" if size >= 0.0005 else f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.{digits}f}" if size < 10 else f"{value:.1f}" if size < 1000 else f"{value:.0f}"


def not_run(rows: Iterable[Mapping[Any, Any]]) -> str:
    """Return a line that names the methods of a summary that were not run; empty if all were."""
    names = [str(row["method"]) for row in rows if not row["problems"]]
    return f"Not run: {', '.join(names)}; `bench.py list` and the report give the reasons." if names else ""


def slug(*parts: object) -> str:
    """Build a file name from arbitrary parts."""
    return "_".join(re.sub(r"[^A-Za-z0-9.=-]+", "-", str(part)).strip("-") for part in parts)


def frame_picture(axes: Axes, reach: float) -> None:
    """Set up axes for a picture of clouds: a square from -reach to reach without ticks, grid and frame."""
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], aspect="equal")
    axes.grid(False)
    axes.spines[:].set_visible(False)
