"""Appearance: the colour, line and marker of a method in every figure, and the format of numbers and names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from common.devices import is_gpu
from common.keys import seed_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

INK = "#1b1d21"
"""Colour of text and axes in figures; the HTML page replaces it by its text colour."""
SOFT = "#5d6269"
"""Colour of subtitles, notes and leader lines in figures."""
PAPER = "#fefefe"
"""Background of figures; transparent in the HTML page."""

KINDS = ("local", "global", "learned", "control")
"""Kinds of methods in the order of tables and legends."""

FAINT = 0.5
"""Opacity of methods with too few problems to be ranked."""

SOURCE, TARGET = "#D55E00", "#8a8f98"
"""Colours of the source and target clouds in pictures."""

WIDTHS = {"column": 3.5, "page": 7.16}
"""Widths of figures in inches: a column and a page of a two-column paper."""

RC: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # not moved above ticks at the top, which takes a twentieth of the time of a figure
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#888888",
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "svg.hashsalt": "registration-bench",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "path.simplify": True,
}

_LINES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 1.4, 1, 1.4),
    (1.2, 1.2),
    (6, 1.4, 1, 1.4, 1, 1.4),
    (10, 2.5),
    (3, 1, 1, 1),
    (10, 1.5, 3, 1.5),
    (6, 1.4, 1, 1.4, 1, 1.4, 1, 1.4),
    (3, 1, 1, 1, 1, 1),
    (10, 1.5, 1, 1.5, 3, 1.5),
    (2.2, 2.2),
    (8, 4),
    (10, 1.5, 3, 1.5, 3, 1.5),
    (4, 1, 4, 1, 1, 1),
    (12, 1.5, 1, 1.5),
)
"""Dash patterns of the variants of a family, in points; the first is solid."""
_REFINED: tuple[tuple[float, ...], ...] = ((4, 1.6), (2.5, 1.2), (6, 2.6), (4, 1, 2, 1))
"""Dash patterns of refined methods, by the variant that is refined."""
_MARKERS = ("o", "s", "^", "v", "P", "X", "<", ">", "h", "p", "*")  # no diamond: it marks the end of a CDF


class Look(NamedTuple):
    """Colour, dash pattern in points (empty: solid), marker and line width; a refined method has half-filled markers."""

    colour: str
    dashes: tuple[float, ...]
    marker: str
    width: float
    refined: bool

    @property
    def line(self) -> Any:
        """The dash pattern for matplotlib."""
        return (0, self.dashes) if self.dashes else "-"

    @property
    def dash(self) -> str:
        """The dash pattern for CSS and Plotly."""
        return ",".join(f"{d:g}px" for d in self.dashes) or "solid"


class Drawing(NamedTuple):
    """What all figures of a report share.

    Attributes:
        methods: names of the methods of the run; families without a look of their own get the free ones in this order.
        width: width in inches.
        sheet: matplotlib style file that overrides the own style, or None.
    """

    methods: tuple[str, ...] = ()
    width: float = WIDTHS["page"]
    sheet: Path | None = None


_DEFAULT = Drawing()
_DRAWING: ContextVar[Drawing] = ContextVar("drawing")


@contextmanager
def drawing(settings: Drawing) -> Iterator[None]:
    """Use the settings for all looks and figures inside the context."""
    token = _DRAWING.set(settings)
    try:
        yield
    finally:
        _DRAWING.reset(token)


def figure_width() -> float:
    """Return the width of figures in inches."""
    return _DRAWING.get(_DEFAULT).width


def sheet() -> Path | None:
    """Return the matplotlib style file that overrides the own style, if any."""
    return _DRAWING.get(_DEFAULT).sheet


def look(method: str, kind: str) -> Look:
    """Return the look of a method: that of its family in `looks.toml`, or the next free one of the run.

    The first part of a name (`a` of `a+b` and of `a[x=1]`) determines family and colour, the variant the dash pattern.
    Learned methods are thick, controls grey, refined methods dashed with half-filled markers.
    """
    return _look(method, kind, _unlisted(_DRAWING.get(_DEFAULT).methods))


def family(method: str) -> str:
    """Return the family of a method: that of `looks.toml`, else its name without parameters and refinements."""
    first = _first(method)
    return _families().get(first, (first, 0))[0]


def featured(method: str) -> bool:
    """Return whether a method is shown in every selection: the first variant of a featured family."""
    name, variant = _families().get(method, ("", 1))
    return variant == 0 and bool(_table().get(name, {}).get("featured"))


@cache
def _look(method: str, kind: str, unlisted: tuple[str, ...]) -> Look:
    first = _first(method)
    name, variant = _families().get(first, (first, 0))
    known, refined = _table().get(name, {}), "+" in method
    if kind == "control":
        name, known = "control", _table()["control"]
        variants = known["variants"]
        place = len(variants) + seed_of("control", first) % (len(_LINES) - len(variants))
        variant = variants.index(first) if first in variants else place
    colour, marker = known.get("colour"), known.get("marker")
    if colour is None:  # a family of a plug-in
        free = _table()["free"]
        place = unlisted.index(name) if name in unlisted else seed_of("look", name) % len(free)
        colour, variant = free[place % len(free)], variant + place // len(free)
        marker = _MARKERS[place % len(_MARKERS)]
    if "[" in method and not refined:  # the same method with other parameters
        variant += 1 + seed_of("parameters", method) % (len(_LINES) - 1)
    dashes = (_REFINED if refined else _LINES)[variant % len(_REFINED if refined else _LINES)]
    if variant or marker is None:
        start = _MARKERS.index(marker) if marker in _MARKERS else 0
        marker = _MARKERS[(start + variant) % len(_MARKERS)]
    return Look(colour, dashes, str(marker), 2.0 if kind == "learned" else 1.2, refined)


def _first(method: str) -> str:
    return re.split(r"[+\[]", method)[0]


@cache
def _unlisted(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Return the families of methods that have no look of their own, sorted."""
    return tuple(sorted({_first(m) for m in methods} - _families().keys()))


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("bench.report") / "looks.toml").read_text(encoding="utf-8"))


@cache
def _families() -> dict[str, tuple[str, int]]:
    """Return family and number of the variant by name of a method."""
    listed = {name: entry for name, entry in _table().items() if name not in ("free", "control")}
    return {v: (name, i) for name, entry in listed.items() for i, v in enumerate(entry.get("variants", [name]))}


def order(method: str, kind: str) -> tuple[int, str]:
    """Return the sort key of a method: kind, then name."""
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), method)


def ordered_methods(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the methods of a frame with their kinds, in the order of tables and legends."""
    pairs = frame[["method", "kind"]].drop_duplicates("method").itertuples(index=False)
    return sorted(((str(method), str(kind)) for method, kind in pairs), key=lambda pair: order(*pair))


def label(method: str, width: int = 28) -> str:
    """Format a method's name for a figure: shortened, and with dollar signs escaped."""
    return shorten_name(method, width).replace("$", r"\$")


def shorten_name(name: str, width: int) -> str:
    """Return at most `width` characters of a name, without its middle: variants of a method differ at the end.

    >>> shorten_name("sc2_pcr[features=learned]+icp", 22)
    'sc2_pcr[fea…arned]+icp'
    """
    return name if len(name) <= width else f"{name[: width // 2]}…{name[-(width - width // 2 - 1) :]}"


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


def devices_of(timing: pd.DataFrame) -> dict[str, str]:
    """Return the device of each method of `bench.evaluation.aggregate.timing`."""
    return dict(zip(timing["method"].astype(str), timing["device"].astype(str), strict=True))


def gpu_mark(device: str, before: str = " ") -> str:
    """Return what marks a time on a GPU: some text and the device; empty for the CPU.

    >>> gpu_mark("cuda:0", " on "), gpu_mark("cpu")
    (' on cuda:0', '')
    """
    return f"{before}{device}" if is_gpu(device) else ""


def device_note(devices: Iterable[str]) -> str:
    """Name the devices of times: those of a GPU are marked with it, the others are of the CPU.

    >>> device_note(["cpu", "cuda:0"])
    'Times on the CPU, unless marked cuda:0.'
    """
    gpus = sorted({device for device in devices if is_gpu(device)})
    return f"Times on the CPU{', unless marked ' + ' or '.join(gpus) if gpus else ''}."
