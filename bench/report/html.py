"""The HTML page of a report: self-contained, with all texts escaped."""

from __future__ import annotations

import itertools
import tomllib
from importlib.resources import files
from typing import Any

from bench.report.embed import plotly_script, script_json
from bench.report.interactive import Chart
from bench.report.ranking import GroupKey, group_title
from bench.report.table import TableCell


def render(charts: dict[str, list[tuple[GroupKey | None, Chart]]], worst: dict[str, Any], **content: Any) -> str:
    """Render the page from the charts by section, the worst pairs and the other variables of the template."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    formulas = tomllib.loads(_file("formulas.toml"))
    counter = itertools.count()
    described, data = _described(charts)
    return environment.from_string(_file("template.html")).render(
        css=Markup(_file("page.css")),
        js=Markup(_file("page.js")),
        plotly=plotly_script(),
        chart_data=script_json(data),
        worst_data=script_json({k: worst[k] for k in ("methods", "clouds")}),
        has_pairs=bool(worst["methods"]),
        licences="; ".join(worst["licences"]),
        missing=worst["missing"],
        charts=described,
        formulas=formulas,
        formula=lambda head: _formula_of(head, formulas),
        number=lambda: f"t{next(counter)}",
        tone=_tone,
        **content,
    )


def _file(name: str) -> str:
    return (files("bench.report") / name).read_text(encoding="utf-8")


def _described(
    charts: dict[str, list[tuple[GroupKey | None, Chart]]],
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Chart]]:
    """Return id, title and flags of each chart for the template, and the data by chart id."""
    described: dict[str, list[dict[str, Any]]] = {}
    data = {}
    for kind, section in charts.items():
        described[kind] = []
        for number, (group, chart) in enumerate(section):
            name = f"{kind}-{number}"
            title = group_title(group) if group else "Time against number of points"
            described[kind].append({"id": name, "title": title, "log": "log" in chart, "wide": "wide" in chart})
            data[name] = chart
    return described, data


def _formula_of(head: str, formulas: dict[str, Any]) -> str | None:
    """Return the name of the formula of a column: the one with the longest matching prefix of its head."""
    matches = [(len(prefix), name) for name, f in formulas.items() for prefix in f["heads"] if head.startswith(prefix)]
    return max(matches)[1] if matches else None


def _tone(cell: TableCell) -> Any:
    """Return the style of a cell of a pairwise comparison: the background is stronger the more one side wins."""
    from markupsafe import Markup

    if cell.value is None or cell.value != cell.value:
        return Markup(' style="--much: 0; --tone: var(--card)"')
    side = "win" if cell.value > 0 else "loss"
    return Markup(f' style="--much: {abs(cell.value):.2f}; --tone: var(--{side})"')
