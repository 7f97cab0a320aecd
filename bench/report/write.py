"""Write the report of a run: figures, Markdown and CSV tables, and one HTML page that needs nothing else."""

from __future__ import annotations

import json
import os
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import export
from bench.report import figures, style, tables
from bench.report.compare import Place, category_tables

if TYPE_CHECKING:
    import pandas as pd


def write_report(
    run_folder: Path, report_folder: Path, run: dict[str, Any], frames: dict[str, pd.DataFrame], outcomes: pd.DataFrame
) -> list[Path]:
    """Draw and write everything a person reads of a run.

    Args:
        run_folder: where the run's CSVs are; the page links there.
        report_folder: where to write; made if missing.
        run: what `run.json` holds.
        frames: what `bench.export.tables` computed.
        outcomes: see `bench.export`.

    Returns:
        The files written, the HTML page first.
    """
    report_folder.mkdir(parents=True, exist_ok=True)
    threshold = float(run["config"]["threshold"])
    compared = category_tables(frames["trials"])
    drawn = figures.draw_all(frames, compared, threshold, report_folder / "figures")
    summary = tables.summary_tables(frames["summary"], frames["trials"], threshold)
    categories = {place: tables.category_table(place, table) for place, table in compared.items()}
    lines = tables.headlines(frames["summary"], frames["trials"], threshold)
    page = _page(run, frames, outcomes, drawn, summary, categories, lines, _link(run_folder, report_folder))
    return [
        export.write_atomically(report_folder / "report.html", page),
        export.write_atomically(report_folder / "summary.md", _markdown(lines, summary)),
        *_category_files(categories, report_folder),
        *(file for figure in drawn for file in figure.files),
    ]


def _link(run_folder: Path, report_folder: Path) -> str:
    """The run's folder as seen from the page."""
    return Path(os.path.relpath(run_folder.resolve(), report_folder.resolve())).as_posix()


def _markdown(lines: list[str], summary: list[tables.Table]) -> str:
    notes = [f"- {tables.escaped(line)}" for line in lines]
    return "\n".join(["# Summary", "", *notes, "", *(table.markdown() for table in summary)])


def _category_files(categories: dict[Place, tables.Table], folder: Path) -> list[Path]:
    """Each table of categories as Markdown and CSV."""
    written = []
    for place, table in categories.items():
        stem = "per_category_" + style.slug(*place)
        written.append(
            export.write_atomically(folder / f"{stem}.md", table.markdown() + "\n" + figures.CATEGORY_CAPTION + "\n")
        )
        written.append(export.write_atomically(folder / f"{stem}.csv", table.csv()))
    return written


def _page(
    run: dict[str, Any],
    frames: dict[str, pd.DataFrame],
    outcomes: pd.DataFrame,
    drawn: list[figures.Drawn],
    summary: list[tables.Table],
    categories: dict[Place, tables.Table],
    lines: list[str],
    link: str,
) -> str:
    """The HTML page. Every text is escaped by the template; only our own SVG goes in as it is."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("bench.report") / "template.html").read_text(encoding="utf-8"))
    inline = [figure._replace(svg=Markup(_inline(figure.svg))) for figure in drawn]
    return template.render(
        run=run,
        link=link,
        csvs=[f"{name}.csv" for name in frames],
        headlines=lines,
        summary=summary,
        categories=list(categories.values()),
        coverage=tables.coverage_table(frames["summary"], outcomes),
        timing=tables.timing_table(frames["timing"]),
        stages=tables.stage_table(frames["stages"]),
        figures={kind: [f for f in inline if f.kind == kind] for kind in ("cdf", "angle", "time")},
        captions={"category": figures.CATEGORY_CAPTION},
        weights=_weights(outcomes),
        environment=_flat(run.get("environment", {})),
        config=_flat(run["config"]),
        formulas=tomllib.loads((files("bench.report") / "formulas.toml").read_text(encoding="utf-8")),
    )


def _inline(svg: str) -> str:
    """An SVG for the page: no prologue, the page's text colour, no background."""
    return svg[svg.index("<svg") :].replace(style.INK, "currentColor").replace(style.PAPER, "var(--card)")


def _weights(outcomes: pd.DataFrame) -> list[tuple[str, str]]:
    """What each method noted as its weights."""
    noted = (
        (m, str(n["weights"]))
        for m, n in zip(outcomes["method"], outcomes["notes"], strict=True)
        if n and "weights" in n
    )
    return sorted(set(noted))


def _flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested dicts as (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value, default=str)))
    return rows
