"""How things look: one colour, line and marker for a method wherever it appears, and numbers as a reader wants them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from common.keys import seed_of

INK = "#1b1d21"
"""Colour of text and axes in figures; the HTML page replaces it by its own text colour."""
PAPER = "#fefefe"
"""Background of figures; transparent in the HTML page."""

KINDS = ("local", "global", "learned", "control")
"""Kinds of methods in the order of tables and legends."""

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
    """The look of a method: from `looks.toml` or from its name alone, so no other method of the run matters.

    The first part of a name (`a` of `a+b` and of `a[x=1]`) gives the colour. The kind gives the line: learned methods
    are thick, local ones dash-dotted, controls grey and dotted; a refined method is dashed, its markers half filled.
    """
    first = re.split(r"[+\[]", method)[0]
    known = _known().get(first, {})
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
def _known() -> dict[str, dict[str, str]]:
    return tomllib.loads((files("bench.report") / "looks.toml").read_text(encoding="utf-8"))


def order(method: str, kind: str) -> tuple[int, str]:
    """Sort key of methods: by kind, then by name."""
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), method)


def label(method: str, width: int = 28) -> str:
    """A method's name for a figure: shortened, and with no dollar sign that would start mathematics."""
    return shorten(method, width).replace("$", r"\$")


def shorten(text: str, width: int) -> str:
    """At most width characters of the first line of a text."""
    line = text.strip().split("\n")[0]
    return line if len(line) <= width else line[: width - 1] + "…"


def number(value: float, digits: int = 3) -> str:
    """A number for a table: – for unknown, ∞ for a failure, more digits for the small, none for the large."""
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
    """A line that names the methods of rows of a summary that were asked nothing; empty if there are none."""
    names = [str(row["method"]) for row in rows if not row["problems"]]
    return f"Not asked here: {', '.join(names)}; `bench.py list` and the report say why." if names else ""


def slug(*parts: object) -> str:
    """A file name from parts that may hold anything."""
    return "_".join(re.sub(r"[^A-Za-z0-9.=-]+", "-", str(part)).strip("-") for part in parts)
