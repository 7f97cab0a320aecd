"""Write the report of a run: figures, tables as Markdown, LaTeX and CSV, and an HTML page that contains all charts and tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.evaluation.aggregate import LARGE, of_one_machine
from bench.evaluation.conventions import CONVENTIONS, Convention, by_convention
from bench.evaluation.loader import RunData
from bench.report import (
    figures,
    gaussians,
    html,
    interactive,
    jobs,
    paper,
    published,
    qualitative,
    ranking,
    risk_coverage,
    style,
    tables,
    trends,
)
from bench.report.failure_cases import worst_pairs
from bench.report.ranking import GroupKey
from bench.report.recommendation import recommend
from bench.report.replay import ProblemReplay
from bench.report.selection import best_of_each_kind
from bench.report.table import Table, escaped
from common.files import make_folder, write_atomically

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
        width: width of figures in inches.
        sheet: matplotlib style file for figures.
        coloured: whether LaTeX tables have colours.
        run: name of the run, for commands that the page shows; "RUN" if there are several.
        protocol: name of the protocol whose published rows are shown (see `published`); None for none.
    """

    criterion: Convention
    against: bool
    csv_folder: Path
    folder: Path
    width: float = style.WIDTHS["page"]
    sheet: Path | None = None
    coloured: bool = False
    protocol: str | None = None
    run: str = "RUN"


def write_first_page(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, ranking.Errors],
    replay: ProblemReplay,
    options: Options,
) -> Path:
    """Write the page without figures, to be read until `begin_report` has written all of it; see there for the arguments."""
    make_folder(options.folder)
    with style.drawing(_settings(frames, options)):
        page = _Report(loaded, frames, errors, replay, options).page([], unfinished=True)
        return write_atomically(options.folder / "report.html", page)


def _settings(frames: dict[str, pd.DataFrame], options: Options) -> style.Drawing:
    methods = tuple(sorted(map(str, frames["summary"]["method"].unique())))
    return style.Drawing(methods, options.width, options.sheet)


def begin_report(
    loaded: RunData,
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, ranking.Errors],
    replay: ProblemReplay,
    options: Options,
) -> Callable[[], list[Path]]:
    """Write the page, start to draw the figures of a run, and return a function that writes the rest and waits for them.

    The figures of a large run are drawn by worker processes (`jobs.draw_all`), so the caller can work meanwhile. The page is
    written again at the end, with the figures whose content needs the clouds.

    Args:
        loaded: content of the results database.
        frames: result of `bench.evaluation.aggregate.tables`.
        errors: result of `ranking.errors_by_group`.
        replay: regenerates problems for pictures.
        options: options of the report.

    Returns:
        A function that returns the files written, the HTML page first.
    """
    make_folder(options.folder)
    settings = _settings(frames, options)
    with style.drawing(settings):
        report = _Report(loaded, frames, errors, replay, options)
        first = list(report.plain_figures())
        if large := len(loaded.outcomes) > LARGE:  # the page takes long; else it comes first
            saved = jobs.draw_all(first, settings)
        risks = list(report.risk_figures())
        page = write_atomically(options.folder / "report.html", report.page([*first, *risks]))
    if not large:
        saved = jobs.draw_all(first, settings)

    def finish() -> list[Path]:
        with style.drawing(settings):
            others = list(report.cloud_figures())
            late = jobs.draw_all([*risks, *others], settings)
            files = report.write_tables()
            drawn = [file for figure in [*late, *saved] for file in figure.files]  # few late ones are drawn here
            if others:
                write_atomically(page, report.page([*first, *risks, *others]))
        return [page, *files, *drawn]

    return finish


class _Report:
    """Everything of a report that is computed from the frames of a run, by problem group."""

    def __init__(
        self,
        loaded: RunData,
        frames: dict[str, pd.DataFrame],
        errors: dict[GroupKey, ranking.Errors],
        replay: ProblemReplay,
        options: Options,
    ) -> None:
        self.loaded, self.frames, self.errors, self.replay, self.options = loaded, frames, errors, replay, options
        self.criterion, self.groups = options.criterion, list(errors)
        self.rows = {g: tables.group_records(frames["summary"], g) for g in self.groups}
        self.evaluated = [g for g in self.groups if any(r["problems"] for r in self.rows[g])]
        self.times = of_one_machine(frames["timing"])
        self.advice = {g: recommend(self.rows[g], self.errors[g], frames["timing"]) for g in self.groups}
        shown = [g for g in self.groups if len(ranking.select_group(frames["per_category"], g))]
        self.compared = {
            g: ranking.category_table(_with_kind(frames, g), self.errors[g], self.criterion) for g in shown
        }

    @cached_property
    def duels(self) -> dict[GroupKey, dict[tuple[str, str], ranking.Duel]]:
        """Comparison of every ordered pair of methods, by group."""
        return {g: ranking.duels(e) for g, e in self.errors.items() if len(e.methods) > 1}

    @cached_property
    def tables(self) -> _ReportTables:
        """All tables."""
        frames, criterion, against = self.frames, self.criterion, self.options.against
        beside = {g: paper.beside(g) if against else {} for g in self.groups}
        theirs = {g: paper.beside(g, "category") if against else {} for g in self.compared}
        rows, errors = self.rows, self.errors
        lines = [tables.headline(g, rows[g], self.advice[g], criterion) for g in self.groups]
        return _ReportTables(
            [line for line in lines if line],
            tables.recall_table(rows, self.advice, criterion),
            {
                g: tables.summary_table(g, rows[g], errors[g], criterion, beside[g], self.advice[g].devices)
                for g in self.groups
            },
            {g: tables.category_table(g, t, criterion, theirs[g], rows[g]) for g, t in self.compared.items()},
            {g: tables.duel_table(g, duels, rows[g]) for g, duels in self.duels.items()},
            tables.duel_list(self.duels),
            paper.paper_tables(frames["summary"], self.times, errors, criterion, against),
            _convention_table(frames["trials"], criterion, frames["summary"]),
            published.protocol_tables(frames, self.options.protocol),
        )

    def plain_figures(self) -> Iterator[jobs.FigureJob]:
        """Yield the figures that need only the tables."""
        folder, frames = self.options.folder / "figures", self.frames
        yield from figures.figures_of(frames, self.compared, self.advice, self.criterion, folder)
        rankings = {g: advice.ranking for g, advice in self.advice.items()}
        yield from trends.trends_of(frames, rankings, self.criterion, folder)
        yield from trends.times_of(self.times, folder)

    def risk_figures(self) -> Iterator[jobs.FigureJob]:
        """Yield the figures of confidences, which are read from the notes of every outcome."""
        folder, main = self.options.folder / "figures", paper.main_groups(self.frames["summary"])
        yield from risk_coverage.risks_of(self.loaded, self.frames["trials"], main, self.criterion, folder)

    def cloud_figures(self) -> Iterator[jobs.FigureJob]:
        """Yield the figures that need the clouds of the problems."""
        folder, main = self.options.folder / "figures", paper.main_groups(self.frames["summary"])
        arguments = self.criterion, self.replay, folder
        yield from qualitative.grids_of(self.loaded, self.frames, main, self.advice, *arguments)
        yield from gaussians.of_report(self.loaded, self.frames["trials"], main, *arguments)

    def write_tables(self) -> list[Path]:
        """Write the tables of groups, paper and conventions as CSV, Markdown and LaTeX, and the summary."""
        folder, own = self.options.folder / "tables", self.tables
        folder.mkdir(parents=True, exist_ok=True)
        named = {f"summary_{style.slug(*g)}": t for g, t in own.summary.items()}
        named |= {f"categories_{style.slug(*g)}": t for g, t in own.categories.items()}
        named |= {f"protocol_{style.slug(*g)}": t for g, t in own.protocols.items()}
        named |= own.paper | {"conventions": own.conventions, "recall": own.recall, "duels": own.duel_list}
        texts = {f"{stem}.csv": table.csv() for stem, table in named.items()}
        texts |= {f"{stem}.md": table.markdown() for stem, table in named.items()}
        texts |= {f"{stem}.tex": table.latex(self.options.coloured) for stem, table in named.items()}
        summary = write_atomically(self.options.folder / "summary.md", self._markdown())
        return [summary, *(write_atomically(folder / name, text) for name, text in texts.items())]

    def _markdown(self) -> str:
        notes = [f"- {escaped(line)}" for line in [*self.tables.headlines, *self._not_run()]]
        parts = [table.markdown() for table in (*self.tables.summary.values(), *self.tables.protocols.values())]
        return "\n".join(["# Summary", "", *notes, "", *parts])

    def _not_run(self) -> list[str]:
        """Return the line on the methods that were run on nothing; none if all were."""
        run = {str(r["method"]) for rows in self.rows.values() for r in rows if r["problems"]}
        every = {str(r["method"]): r for rows in self.rows.values() for r in rows}
        return list(filter(None, [style.not_run([r for m, r in every.items() if m not in run])]))

    def page(self, drawn: Sequence[jobs.FigureJob], unfinished: bool = False) -> str:
        """Render the page with the given figures; `unfinished`: with a note that more follows."""
        run, options, own, loaded = self.loaded.run, self.options, self.tables, self.loaded
        frames = self.frames | {"timing": self.times}
        charts = interactive.all_charts(frames, {g: self.advice[g] for g in self.evaluated}, self.criterion)
        main = paper.main_groups(self.frames["summary"])
        kinds = {str(m): str(k) for m, k in style.ordered_methods(self.frames["summary"])}
        chosen = {g: best_of_each_kind(self.rows[g], self.advice[g]) for g in self.evaluated}
        return html.render(
            html.Selectable(kinds, chosen, main, max(reversed(main), key=self._problems_of, default=None)),
            charts,
            self._worst,
            run=run,
            unfinished=unfinished,
            criterion=self.criterion,
            against=options.against,
            link=Path(os.path.relpath(options.csv_folder.resolve(), options.folder.resolve())).as_posix(),
            csvs=[f"{name}.csv" for name in self.frames],
            verdicts=[(g, tables.verdict(self.rows[g], self.advice[g], self.criterion)) for g in self.evaluated],
            problems={g: self._problems_of(g) for g in self.evaluated},
            not_run=self._not_run(),
            recall=own.recall,
            summary=own.summary,
            paper=list(own.paper.values()),
            protocols=list(own.protocols.values()),
            categories=own.categories,
            duels=own.duels,
            coverage=tables.coverage_table(self.frames["summary"]),
            failures=tables.failure_table(loaded.outcomes),
            timing=tables.timing_table(self.frames["timing"]),
            stages=tables.stage_table(self.frames["stages"]),
            conventions=list(CONVENTIONS.values()),
            by_convention=own.conventions,
            figures=[(job, self._group_of(job)) for job in drawn],
            weights=_weights(loaded.outcomes),
            environment=_flat(run.get("environment", {})),
            config=_flat(run["config"]),
        )

    @cached_property
    def _worst(self) -> dict[str, Any]:
        return worst_pairs(self.loaded, self.frames["trials"], self.criterion, self.replay, self.options.run)

    def _problems_of(self, group: GroupKey) -> int:
        return max(int(row["problems"]) for row in self.rows[group])

    def _group_of(self, job: jobs.FigureJob) -> GroupKey | None:
        """Return the group of a figure; None if it shows several."""
        return next((g for g in self.groups if job.stem.name.endswith(f"_{style.slug(*g)}")), None)


def _with_kind(frames: dict[str, pd.DataFrame], group: GroupKey) -> pd.DataFrame:
    """Return the rows of `per_category` of a group, with kind and distinct_problems of each method's summary."""
    summary = {str(r["method"]): r for r in tables.group_records(frames["summary"], group)}
    rows = ranking.select_group(frames["per_category"], group)
    methods = rows["method"].astype(str)
    return rows.assign(**{n: [summary[m][n] for m in methods] for n in ("kind", "distinct_problems")})


@dataclass(frozen=True)
class _ReportTables:
    """All tables of a report, and the headlines above them."""

    headlines: list[str]
    recall: Table
    summary: dict[GroupKey, Table]
    categories: dict[GroupKey, Table]
    duels: dict[GroupKey, Table]
    duel_list: Table
    paper: dict[str, Table]
    conventions: Table
    protocols: dict[GroupKey, Table]


def _convention_table(trials: pd.DataFrame, criterion: Convention, summary: pd.DataFrame) -> Table:
    """Build the table of the run under every convention; the chosen one keeps its limits."""
    criteria = [criterion if name == criterion.name else other for name, other in CONVENTIONS.items()]
    return tables.convention_table(by_convention(trials, criteria), {c.name: c for c in criteria}, summary)


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
