"""Write the report of a run: figures, tables as Markdown, LaTeX and CSV, and one HTML page that needs nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.evaluation.conventions import CONVENTIONS, Convention, by_convention
from bench.evaluation.loader import RunData
from bench.report import (
    figures,
    gaussians,
    html,
    interactive,
    paper,
    qualitative,
    ranking,
    risk_coverage,
    style,
    tables,
)
from bench.report.failure_cases import worst_pairs
from bench.report.ranking import Errors, GroupKey
from bench.report.replay import ProblemReplay
from bench.report.table import Table, escaped
from common.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Options:
    """How a report is written.

    Attributes:
        view: the convention that says what an error and a success is.
        against: whether the paper's numbers stand beside ours.
        csv_folder: where the run's CSVs are; the page links there.
        folder: where to write; made if missing.
    """

    view: Convention
    against: bool
    csv_folder: Path
    folder: Path


def begin_report(
    loaded: RunData, frames: dict[str, pd.DataFrame], redraw: ProblemReplay, options: Options
) -> Callable[[], list[Path]]:
    """Begin to draw the figures of a run; what is given back writes the rest that a person reads and waits for them.

    In between is time for other work: the figures of a large run are drawn by helper processes, see `figures.draw_all`.

    Args:
        loaded: what the record holds.
        frames: what `bench.evaluation.aggregate.tables` computed of it.
        redraw: draws problems again, for pictures.
        options: see there.

    Returns:
        A function that returns the files written, the HTML page first.
    """
    folder, view = options.folder, options.view
    folder.mkdir(parents=True, exist_ok=True)
    places = tables.groups_of(frames["summary"])
    errors = {place: ranking.errors_of(ranking.at(frames["trials"], place), view) for place in places}
    shown = [p for p in places if len(ranking.at(frames["per_category"], p))]
    compared = {p: ranking.category_table(_with_kind(frames, p), errors[p], view) for p in shown}
    jobs = [*figures.figures_of(frames, compared, view, folder / "figures")]
    main = paper.main_groups(frames["summary"])
    jobs += qualitative.grids_of(loaded, frames["trials"], main, view, redraw, folder / "figures")
    jobs += gaussians.of_report(loaded, frames["trials"], main, view, redraw, folder / "figures")
    jobs += risk_coverage.risks_of(loaded, frames["trials"], main, view, folder / "figures")
    return partial(_finish, loaded, frames, redraw, options, errors, compared, figures.draw_all(jobs))


def _finish(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    redraw: ProblemReplay,
    options: Options,
    errors: dict[GroupKey, Errors],
    compared: dict[GroupKey, ranking.CategoryTable],
    drawn: Iterator[figures.SavedFigure],
) -> list[Path]:
    folder = options.folder
    of = _tables(loaded, frames, errors, compared, options)
    html = _page(loaded, frames, errors, of, redraw, options)
    return [
        write_atomically(folder / "report.html", html),
        write_atomically(folder / "summary.md", _markdown(of)),
        *_table_files(of, folder / "tables"),
        *(file for figure in drawn for file in figure.files),
    ]


def _with_kind(frames: dict[str, pd.DataFrame], place: GroupKey) -> pd.DataFrame:
    """The rows of `per_category` of a place, each with the kind of its method."""
    kinds = {str(r["method"]): r["kind"] for r in tables.rows_at(frames["summary"], place)}
    cells = ranking.at(frames["per_category"], place)
    return cells.assign(kind=cells["method"].astype(str).map(kinds))


@dataclass(frozen=True)
class _Tables:
    """Every table of a report, and the sentences above them."""

    headlines: list[str]
    summary: dict[GroupKey, Table]
    categories: dict[GroupKey, Table]
    duels: dict[GroupKey, Table]
    paper: dict[str, Table]
    conventions: Table


def _tables(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, Errors],
    compared: dict[GroupKey, ranking.CategoryTable],
    options: Options,
) -> _Tables:
    view, against = options.view, options.against
    rows = {place: tables.rows_at(frames["summary"], place) for place in errors}
    beside = {place: paper.beside(place) if against else {} for place in errors}
    theirs = {place: paper.beside(place, "category") if against else {} for place in compared}
    lines = [tables.headline(place, rows[place], errors[place], view) for place in errors]
    return _Tables(
        [line for line in lines if line],
        {p: tables.summary_table(p, rows[p], errors[p], view, beside[p]) for p in errors},
        {p: tables.category_table(p, table, view, theirs[p]) for p, table in compared.items()},
        {p: tables.duel_table(p, ranking.duels(e), e.methods) for p, e in errors.items() if len(e.methods) > 1},
        paper.paper_tables(frames["summary"], frames["timing"], errors, view, against),
        _conventions(loaded, frames["trials"], view),
    )


def _conventions(loaded: RunData, trials: pd.DataFrame, view: Convention) -> Table:
    """The run under every convention, the chosen one with its own limits."""
    views = [view if name == view.name else one for name, one in CONVENTIONS.items()]
    return tables.convention_table(by_convention(trials, views), {v.name: v for v in views})


def _markdown(of: _Tables) -> str:
    notes = [f"- {escaped(line)}" for line in of.headlines]
    return "\n".join(["# Summary", "", *notes, "", *(table.markdown() for table in of.summary.values())])


def _table_files(of: _Tables, folder: Path) -> list[Path]:
    """Every table of the paper's kind as CSV, Markdown and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {f"summary_{style.slug(*p)}": t for p, t in of.summary.items()}
    named |= {f"categories_{style.slug(*p)}": t for p, t in of.categories.items()}
    named |= of.paper | {"conventions": of.conventions}
    return [
        write_atomically(folder / f"{stem}.{end}", text)
        for stem, table in named.items()
        for end, text in (("csv", table.csv()), ("md", table.markdown()), ("tex", table.latex()))
    ]


def _page(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, Errors],
    of: _Tables,
    redraw: ProblemReplay,
    options: Options,
) -> str:
    run, view = loaded.run, options.view
    asked = [place for place in errors if any(r["problems"] for r in tables.rows_at(frames["summary"], place))]
    return html.render(
        interactive.all_charts(frames, asked, view),
        worst_pairs(loaded, frames["trials"], view, redraw),
        run=run,
        view=view,
        against=options.against,
        link=Path(os.path.relpath(options.csv_folder.resolve(), options.folder.resolve())).as_posix(),
        csvs=[f"{name}.csv" for name in frames],
        headlines=of.headlines,
        summary=list(of.summary.values()),
        paper=list(of.paper.values()),
        categories=list(of.categories.values()),
        duels=list(of.duels.values()),
        coverage=tables.coverage_table(frames["summary"]),
        failures=tables.failure_table(loaded.outcomes),
        timing=tables.timing_table(frames["timing"]),
        stages=tables.stage_table(frames["stages"]),
        conventions=list(CONVENTIONS.values()),
        by_convention=of.conventions,
        captions={"cdf": figures.CDF_CAPTION, "category": tables.CATEGORY_NOTE},
        weights=_weights(loaded.outcomes),
        environment=_flat(run.get("environment", {})),
        config=_flat(run["config"]),
    )


def _weights(outcomes: pd.DataFrame) -> list[tuple[str, str]]:
    """What each method noted as its weights."""
    said = outcomes["notes"].to_numpy(dtype=object)
    rows = [i for i, note in enumerate(said) if '"weights"' in note]
    pairs = set(zip(outcomes["method"].iloc[rows].astype(str), said[rows], strict=True))
    return sorted({(method, str(json.loads(note)["weights"])) for method, note in pairs})


def _flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested dicts as (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value, default=str)))
    return rows
