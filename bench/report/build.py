"""Write the report of a run: figures, tables as Markdown, LaTeX and CSV, and a self-contained HTML page."""

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
    published,
    qualitative,
    ranking,
    risk_coverage,
    style,
    tables,
)
from bench.report.failure_cases import worst_pairs
from bench.report.ranking import Errors, GroupKey
from bench.report.recommendation import Recommendation, recommend
from bench.report.replay import ProblemReplay
from bench.report.table import Table, escaped
from common.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Options:
    """Options of a report.

    Attributes:
        criterion: convention that defines error and success.
        against: whether to show the paper's numbers beside ours.
        csv_folder: folder of the run's CSVs, to which the page links.
        folder: folder to write to; created if missing.
        protocol: name of the protocol whose published rows are shown (see `published`); None for none.
    """

    criterion: Convention
    against: bool
    csv_folder: Path
    folder: Path
    protocol: str | None = None


def begin_report(
    loaded: RunData, frames: dict[str, pd.DataFrame], replay: ProblemReplay, options: Options
) -> Callable[[], list[Path]]:
    """Start to draw the figures of a run, and return a function that writes the rest of the report and waits for them.

    The figures of a large run are drawn by worker processes (`figures.draw_all`), so the caller can work meanwhile.

    Args:
        loaded: content of the results database.
        frames: result of `bench.evaluation.aggregate.tables`.
        replay: regenerates problems for pictures.
        options: options of the report.

    Returns:
        A function that returns the files written, the HTML page first.
    """
    folder, criterion = options.folder, options.criterion
    folder.mkdir(parents=True, exist_ok=True)
    groups = tables.groups_of(frames["summary"])
    errors = {group: ranking.errors_of(ranking.select_group(frames["trials"], group), criterion) for group in groups}
    shown = [p for p in groups if len(ranking.select_group(frames["per_category"], p))]
    compared = {p: ranking.category_table(_with_kind(frames, p), errors[p], criterion) for p in shown}
    jobs = [*figures.figures_of(frames, compared, criterion, folder / "figures")]
    main = paper.main_groups(frames["summary"])
    jobs += qualitative.grids_of(loaded, frames["trials"], main, criterion, replay, folder / "figures")
    jobs += gaussians.of_report(loaded, frames["trials"], main, criterion, replay, folder / "figures")
    jobs += risk_coverage.risks_of(loaded, frames["trials"], main, criterion, folder / "figures")
    return partial(_finish, loaded, frames, replay, options, errors, compared, figures.draw_all(jobs))


def _finish(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    replay: ProblemReplay,
    options: Options,
    errors: dict[GroupKey, Errors],
    compared: dict[GroupKey, ranking.CategoryTable],
    saved_figures: Iterator[figures.SavedFigure],
) -> list[Path]:
    folder = options.folder
    all_tables = _build_tables(loaded, frames, errors, compared, options)
    page = _page(loaded, frames, errors, all_tables, replay, options)
    return [
        write_atomically(folder / "report.html", page),
        write_atomically(folder / "summary.md", _markdown(all_tables)),
        *_table_files(all_tables, folder / "tables"),
        *(file for figure in saved_figures for file in figure.files),
    ]


def _with_kind(frames: dict[str, pd.DataFrame], group: GroupKey) -> pd.DataFrame:
    """Return the rows of `per_category` of a group, with kind and distinct_problems of each method's summary."""
    summary = {str(r["method"]): r for r in tables.group_records(frames["summary"], group)}
    rows = ranking.select_group(frames["per_category"], group)
    methods = rows["method"].astype(str)
    return rows.assign(**{n: [summary[m][n] for m in methods] for n in ("kind", "distinct_problems")})


@dataclass(frozen=True)
class _ReportTables:
    """All tables of a report, the headlines above them, and the recommendations by group."""

    headlines: list[str]
    recommended: dict[GroupKey, Recommendation]
    summary: dict[GroupKey, Table]
    categories: dict[GroupKey, Table]
    duels: dict[GroupKey, Table]
    paper: dict[str, Table]
    conventions: Table
    protocols: dict[GroupKey, Table]


def _build_tables(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, Errors],
    compared: dict[GroupKey, ranking.CategoryTable],
    options: Options,
) -> _ReportTables:
    criterion, against = options.criterion, options.against
    rows = {group: tables.group_records(frames["summary"], group) for group in errors}
    beside = {group: paper.beside(group) if against else {} for group in errors}
    theirs = {group: paper.beside(group, "category") if against else {} for group in compared}
    recommended = {group: recommend(rows[group], e, frames["timing"]) for group, e in errors.items()}
    lines = [tables.headline(group, rows[group], recommended[group], criterion) for group in errors]
    return _ReportTables(
        [line for line in lines if line],
        recommended,
        {p: tables.summary_table(p, rows[p], errors[p], criterion, beside[p]) for p in errors},
        {p: tables.category_table(p, table, criterion, theirs[p], rows[p]) for p, table in compared.items()},
        {p: tables.duel_table(p, ranking.duels(e), rows[p]) for p, e in errors.items() if len(e.methods) > 1},
        paper.paper_tables(frames["summary"], frames["timing"], errors, criterion, against),
        _convention_table(frames["trials"], criterion, frames["summary"]),
        published.protocol_tables(frames, options.protocol),
    )


def _convention_table(trials: pd.DataFrame, criterion: Convention, summary: pd.DataFrame) -> Table:
    """Build the table of the run under every convention; the chosen one keeps its limits."""
    criteria = [criterion if name == criterion.name else other for name, other in CONVENTIONS.items()]
    return tables.convention_table(by_convention(trials, criteria), {c.name: c for c in criteria}, summary)


def _markdown(all_tables: _ReportTables) -> str:
    notes = [f"- {escaped(line)}" for line in all_tables.headlines]
    shown = [*all_tables.summary.values(), *all_tables.protocols.values()]
    return "\n".join(["# Summary", "", *notes, "", *(table.markdown() for table in shown)])


def _table_files(all_tables: _ReportTables, folder: Path) -> list[Path]:
    """Write the tables of groups, protocols, paper and conventions as CSV, Markdown and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {f"summary_{style.slug(*p)}": t for p, t in all_tables.summary.items()}
    named |= {f"categories_{style.slug(*p)}": t for p, t in all_tables.categories.items()}
    named |= {f"protocol_{style.slug(*p)}": t for p, t in all_tables.protocols.items()}
    named |= all_tables.paper | {"conventions": all_tables.conventions}
    return [
        write_atomically(folder / f"{stem}.{end}", text)
        for stem, table in named.items()
        for end, text in (("csv", table.csv()), ("md", table.markdown()), ("tex", table.latex()))
    ]


def _page(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, Errors],
    all_tables: _ReportTables,
    replay: ProblemReplay,
    options: Options,
) -> str:
    run, criterion = loaded.run, options.criterion
    evaluated = [
        group for group in errors if any(r["problems"] for r in tables.group_records(frames["summary"], group))
    ]
    return html.render(
        interactive.all_charts(frames, {p: all_tables.recommended[p] for p in evaluated}, criterion),
        worst_pairs(loaded, frames["trials"], criterion, replay),
        run=run,
        criterion=criterion,
        against=options.against,
        link=Path(os.path.relpath(options.csv_folder.resolve(), options.folder.resolve())).as_posix(),
        csvs=[f"{name}.csv" for name in frames],
        headlines=all_tables.headlines,
        summary=list(all_tables.summary.values()),
        paper=list(all_tables.paper.values()),
        protocols=list(all_tables.protocols.values()),
        categories=list(all_tables.categories.values()),
        duels=list(all_tables.duels.values()),
        coverage=tables.coverage_table(frames["summary"]),
        failures=tables.failure_table(loaded.outcomes),
        timing=tables.timing_table(frames["timing"]),
        stages=tables.stage_table(frames["stages"]),
        conventions=list(CONVENTIONS.values()),
        by_convention=all_tables.conventions,
        captions={"cdf": figures.CDF_CAPTION, "category": tables.CATEGORY_NOTE},
        weights=_weights(loaded.outcomes),
        environment=_flat(run.get("environment", {})),
        config=_flat(run["config"]),
    )


def _weights(outcomes: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the weights that methods report in their notes, by method."""
    notes = outcomes["notes"].to_numpy(dtype=object)
    rows = [i for i, note in enumerate(notes) if '"weights"' in note]
    pairs = set(zip(outcomes["method"].iloc[rows].astype(str), notes[rows], strict=True))
    return sorted({(method, str(json.loads(note)["weights"])) for method, note in pairs})


def _flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten nested dicts to (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value, default=str)))
    return rows
