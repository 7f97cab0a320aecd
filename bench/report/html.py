"""The HTML page of a report, with all texts escaped. It contains everything but the files of figures and tables beside it."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from bench.report import style
from bench.report.embed import plotly_compressed, script_json
from bench.report.interactive import Chart
from bench.report.ranking import GroupKey, group_title
from bench.report.table import Table, TableCell


class Selectable(NamedTuple):
    """What the reader selects from: kinds by method, the best of each kind by group, the main groups, the one shown first."""

    kinds: dict[str, str]
    best: dict[GroupKey, list[str]]
    main: list[GroupKey]
    first: GroupKey | None


def group_id(group: GroupKey) -> str:
    """Return the name of a problem group in the page."""
    return "/".join(map(str, group))


def render(
    selectable: Selectable, charts: dict[str, dict[GroupKey | None, Chart]], worst: dict[str, Any], **content: Any
) -> str:
    """Render the page from what can be selected, the charts by section and group, the worst pairs and other variables."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    formulas = tomllib.loads(_file("formulas.toml"))
    counter = itertools.count()
    titles = {group_title(g): group_id(g) for g in selectable.best}
    data = {kind: {group_id(g) if g else "": c for g, c in own.items()} for kind, own in charts.items()}
    return environment.from_string(_file("template.html")).render(
        css=Markup(_file("page.css")),
        js=Markup(_file("viewer.js") + _file("page.js")),
        plotly=plotly_compressed(),
        page_data=script_json(_selection(selectable)),
        chart_data=script_json(data),
        worst_data=script_json({k: worst[k] for k in ("methods", "clouds")}),
        has_pairs=bool(worst["methods"]),
        licences="; ".join(worst["licences"]),
        missing=worst["missing"],
        charts=data,
        formulas=formulas,
        formula=lambda head: _formula_of(head, formulas),
        number=lambda: f"t{next(counter)}",
        tone=_tone,
        filled=_filled,
        method_of=partial(_method_of, selectable.kinds),
        group_of=titles.get,
        gid=group_id,
        group_title=group_title,
        selectable=selectable,
        kinds=[k for k in style.KINDS if k in selectable.kinds.values()],
        **content,
    )


def _selection(selectable: Selectable) -> dict[str, Any]:
    """Return the data of the selectors: the groups with their methods shown first, and the kinds of methods."""
    groups = [
        {"id": group_id(g), "dataset": str(g[0]), "condition": str(g[1]), "points": str(g[2]), "best": best}
        for g, best in selectable.best.items()
    ]
    first = group_id(selectable.first) if selectable.first else ""
    return {"groups": groups, "kinds": selectable.kinds, "first": first}


def _filled(table: Table) -> Table:
    """Return a table without the columns that have no value in any row."""
    empty = [i for i in range(len(table.columns)) if table.rows and all(_unknown(row[i]) for row in table.rows)]
    if not empty or table.column_groups:
        return table
    kept = [i for i in range(len(table.columns)) if i not in empty]
    rows = [[row[i] for i in kept] for row in table.rows]
    return replace(table, columns=[table.columns[i] for i in kept], rows=rows)


def _unknown(cell: TableCell) -> bool:
    return cell.value is not None and cell.value != cell.value and not cell.beside


def _method_of(kinds: dict[str, str], text: str) -> str | None:
    """Return the method that a cell names, with or without its number of problems; None if it names none."""
    name = text.rsplit(", n = ", 1)[0]
    return name if name in kinds else None


def _file(name: str) -> str:
    return (files("bench.report") / name).read_text(encoding="utf-8")


def _formula_of(head: str, formulas: dict[str, Any]) -> str | None:
    """Return the name of the formula of a column: the one with the longest matching prefix of its head."""
    matches = [(len(prefix), name) for name, f in formulas.items() for prefix in f["heads"] if head.startswith(prefix)]
    return max(matches)[1] if matches else None


def _tone(cell: TableCell, duel: bool) -> Any:
    """Return the style of a cell: in a pairwise comparison stronger the more one side wins, else by its heat."""
    from markupsafe import Markup

    if cell.heat is not None and cell.heat == cell.heat:
        return Markup(f' style="--much: {max(0.0, min(1.0, cell.heat)):.2f}"')
    if not duel:
        return ""
    if cell.value is None or cell.value != cell.value:
        return Markup(' style="--much: 0; --tone: var(--card)"')
    side = "win" if cell.value > 0 else "loss"
    return Markup(f' style="--much: {abs(cell.value):.2f}; --tone: var(--{side})"')
