"""Draw docs/architecture.svg from the table of imports in docs/architecture.md.

Run it as `python -m docs.scripts.make_architecture` after a change of the table.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "architecture.md"
FIGURE = PAGE.with_suffix(".svg")

WIDTH = 860
LEVEL_HEIGHT = 66
BOX_HEIGHT = 34
BELOW = (
    ("methods", ("one file per method", "core", "geometry", "nn", "learned", "native")),
    ("datasets", ("one file per source", "conditions", "poses", "problems", "shapes")),
    ("common", ("errors", "keys", "specs", "plugins", "portable")),
)
"""Packages below bench/, the highest first, with their contents."""

Graph = dict[str, tuple[str, ...]]


def read_imports(page: str) -> Graph:
    """Return the packages of bench/ and those that each may import, from the page's table of imports.

    >>> read_imports("| package | responsibility | imports |\\n|---|---|---|\\n| `a` | top | `b` |\\n| `b` | base | |\\n")
    {'a': ('b',), 'b': ()}
    """
    table = page.split("| package | responsibility | imports |\n", 1)[1].split("\n\n", 1)[0]
    rows = [line.strip().strip("|").split("|") for line in table.splitlines()[1:]]
    return {row[0].strip(" `"): tuple(re.findall(r"`(\w+)`", row[2])) for row in rows}


def levels(graph: Graph) -> list[list[str]]:
    """Return the packages of each level, the lowest first: a package is above all that it imports.

    Raises:
        ValueError: packages import each other in a cycle.

    >>> levels({"a": ("b",), "b": (), "c": ("a",)})
    [['b'], ['a'], ['c']]
    """
    rest, placed, floors = {name: set(below) for name, below in graph.items()}, set[str](), list[list[str]]()
    while rest:
        floor = [name for name, below in rest.items() if below <= placed]
        if not floor:
            raise ValueError(f"a cycle among {', '.join(sorted(rest))}")
        floors.append(floor)
        placed.update(floor)
        rest = {name: below for name, below in rest.items() if name not in placed}
    return floors


def draw(graph: Graph) -> str:
    """Return the picture as SVG: one row per level, an arrow for every import, the packages below bench/ at the bottom."""
    floors = levels(graph)[::-1]
    boxes = {
        name: _box(row, column, len(floor)) for row, floor in enumerate(floors) for column, name in enumerate(floor)
    }
    bottom = 40 + len(floors) * LEVEL_HEIGHT
    arrows = [_arrow(boxes[name], boxes[other]) for name, below in graph.items() for other in below]
    height = bottom + 30 + len(BELOW) * (BOX_HEIGHT + 16)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" '
        'font-size="14" role="img" aria-label="Packages in levels; each imports only packages below it">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fefefe"/>',
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#6b7280"/></marker></defs>',
        f'<rect x="10" y="10" width="{WIDTH - 20}" height="{bottom - 16}" rx="8" fill="none" stroke="#0b62a8"/>',
        '<text x="24" y="32" fill="#0b62a8" font-weight="bold">bench/</text>',
        f'<g stroke="#6b7280" stroke-width="1" fill="none" marker-end="url(#a)">{"".join(arrows)}</g>',
        *(_labelled(name, box) for name, box in boxes.items()),
        *(_wide(name, contents, bottom + 20 + i * (BOX_HEIGHT + 16)) for i, (name, contents) in enumerate(BELOW)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(row: int, column: int, columns: int) -> tuple[float, float, float]:
    """Return left edge, top edge and width of a box in the levels of bench/."""
    width, shift = 124.0, (-40.0, 40.0)[row % 2]
    centre = WIDTH * (2 * column + 1) / (2 * columns) + (shift if columns > 1 else 0.0)
    return centre - width / 2, 26.0 + row * LEVEL_HEIGHT, width


def _arrow(upper: tuple[float, float, float], lower: tuple[float, float, float]) -> str:
    start, end = upper[0] + upper[2] / 2, lower[0] + lower[2] / 2
    return f'<path d="M{start:.0f} {upper[1] + BOX_HEIGHT:.0f}L{end:.0f} {lower[1]:.0f}"/>'


def _labelled(name: str, box: tuple[float, float, float]) -> str:
    left, top, width = box
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="6" fill="#eef3f9" '
        f'stroke="#0b62a8"/><text x="{left + width / 2:.0f}" y="{top + 22:.0f}" text-anchor="middle">{name}</text>'
    )


def _wide(name: str, contents: tuple[str, ...], top: float) -> str:
    return (
        f'<rect x="10" y="{top:.0f}" width="{WIDTH - 20}" height="{BOX_HEIGHT}" rx="6" fill="#fdf3ea" stroke="#c24d00"/>'
        f'<text x="24" y="{top + 22:.0f}"><tspan font-weight="bold" fill="#c24d00">{name}/</tspan>'
        f'<tspan dx="14">{" · ".join(contents)}</tspan></text>'
    )


if __name__ == "__main__":
    FIGURE.write_text(draw(read_imports(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
