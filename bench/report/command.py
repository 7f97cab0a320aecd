"""`bench.py report`: read the results databases of finished runs and write CSVs and report; no method is run."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.evaluation.conventions import Convention, convention
from bench.evaluation.loader import RunData, load_run, merge
from bench.planning.catalog import Catalog
from bench.storage import run_folder
from bench.storage.database import ResultsDatabase
from bench.storage.run_json import run_json
from common.errors import InputError
from common.files import write_atomically
from common.text import clean

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from bench.report import Options, ProblemReplay
    from bench.report.ranking import Errors, GroupKey

PAPER = "paper"
"""Value of `--against` for the numbers of the DeepGMR paper."""
MAX_MESSAGE = 200
"""Maximum length of a method's message in the terminal; the report has it whole."""
RESULTS, REPORTS = Path("results"), Path("reports")
"""Default folders of runs and reports."""


@dataclass(frozen=True)
class ReportRequest:
    """Arguments of a report.

    Attributes:
        folders: folders of the runs; several are reported together.
        reports: folder with one folder per report.
        catalog: data sets and methods, for pictures.
        convention: name of the convention; None for the default.
        thresholds: limits of success in place of those of the convention.
        against: whose numbers to show beside ours: "paper" for those of the DeepGMR paper, or a protocol of
            `bench.report.published`; None for none.
        out: name of the report; None to derive it from runs and convention.
        as_good: whether to compute which wrong poses fit as well as the ground truth, and the ceiling.
        methods, conditions: the part of the run that is reported; empty for all.
        width: width of figures, "column" or "page".
        sheet: matplotlib style file for figures.
        coloured: whether LaTeX tables have colours.
        parquet: whether to write the tables as Parquet beside the CSVs.
        as_json: whether to print the summary as JSON instead of a table.
    """

    folders: Sequence[Path]
    reports: Path
    catalog: Catalog
    convention: str | None = None
    thresholds: Sequence[float] | None = None
    against: str | None = None
    out: str | None = None
    as_good: bool = True
    methods: Sequence[str] = ()
    conditions: Sequence[str] = ()
    width: str = "page"
    sheet: Path | None = None
    coloured: bool = False
    as_json: bool = False
    parquet: bool = False

    @property
    def criterion(self) -> Convention:
        """Convention with its limits."""
        return convention(self.convention, self.thresholds)

    @property
    def plain(self) -> bool:
        """Whether this is the default report of one run, with its CSVs in the run's folder."""
        return len(self.folders) == 1 and not self._changes

    @property
    def _changes(self) -> bool:
        """Whether the CSVs differ from those of the run itself."""
        return bool(self.convention or self.thresholds or self.out or self.methods or self.conditions)

    @property
    def folder(self) -> Path:
        """The report's folder."""
        return run_folder.resolve_folder(self.out or self._usual_name, self.reports)

    @property
    def _usual_name(self) -> str:
        runs = "+".join(folder.resolve().name for folder in self.folders)
        limits = "@" + ",".join(f"{t:g}" for t in self.thresholds) if self.thresholds else ""
        suffix = f".{self.criterion.name}{limits}" if self.convention or self.thresholds else ""
        return runs + suffix + (".part" if self.methods or self.conditions else "")


def folder_of(run: Path) -> Path:
    """Return the folder of a run given by folder or name."""
    return run if run.is_dir() else RESULTS / run


def open_record(folder: Path) -> ResultsDatabase:
    """Open the results database in a run's folder for reading.

    Raises:
        InputError: the database is missing or invalid, or holds no problems.
    """
    if not (folder / "record.sqlite").is_file():
        raise InputError(_why_no_record(folder))
    record = ResultsDatabase(folder / "record.sqlite", read_only=True)
    if record.get("run") is None:
        record.close()
        raise InputError(f"{folder}: the run stopped before it began; start it again")
    return record


def _why_no_record(folder: Path) -> str:
    """Return why a folder has no results database, and what can be done without it."""
    if not folder.is_dir():
        parent = folder.absolute().parent
        return f"{folder}: no such run; looked in {parent}: give the name or folder of a run"
    try:
        again = json.loads((folder / "run.json").read_text(encoding="utf-8"))["command"]
    except (OSError, ValueError, LookupError, TypeError):
        return f"{folder}: no record.sqlite; give the name or folder of a run"
    if not any(folder.glob("*.csv")):
        return f"{folder}: no record.sqlite; this command makes it again: {again}"
    return (
        f"{folder}: no record.sqlite, only run.json and CSVs, which bench.load and publish read (docs/verify.md, Verify a "
        f"number by hand); this command makes the record again: {again}"
    )


def read(folder: Path) -> RunData:
    """Read the results database in a run's folder; write nothing.

    Raises:
        InputError: the database is missing, invalid or incomplete.
    """
    record = open_record(folder)
    try:
        return load_run(record.path, run_json(record))
    finally:
        record.close()


def write(request: ReportRequest, console: Console) -> None:
    """Write CSVs, tables, figures and page, and print the summary.

    Raises:
        InputError: see `read`, `bench.evaluation.loader.merge` and `bench.evaluation.conventions.convention`.
    """
    from bench.evaluation import aggregate
    from bench.report import ProblemReplay, begin_report, errors_by_group, json_summary
    from bench.report.subset import subset

    if request.parquet:
        aggregate.require_parquet()
    criterion = request.criterion
    runs = [read(folder) for folder in request.folders]
    loaded = runs[0] if len(runs) == 1 else merge(runs, [f.name for f in request.folders])
    loaded = subset(loaded, request.methods, request.conditions)
    replay = ProblemReplay(loaded, request.catalog)
    options = _options(request)
    reports, csvs = options.folder, options.csv_folder
    run_folder.check_report_folder(reports)
    poses, rows = {"poses": loaded.outcomes[aggregate.POSES]}, len(loaded.outcomes)
    # The CSVs of a large run are written meanwhile; a convention that is not the default may lack data.
    written = [aggregate.begin_csvs(poses, csvs, rows)] if request.plain else []
    trials = _trials_for(loaded, criterion, replay)
    if request.as_good:
        trials = _with_fits(loaded, trials, replay, options, None if request.as_json else console)
    long = {"trials": trials} if written else poses | {"trials": trials}
    written.append(aggregate.begin_csvs(long, csvs, rows))
    frames = aggregate.tables(loaded, criterion, trials)
    short = {name: frame for name, frame in frames.items() if name not in ("poses", "trials")}
    written.append(aggregate.begin_csvs(short, csvs, rows))
    errors = errors_by_group(frames, criterion)
    finish = begin_report(loaded, frames, errors, replay, options)
    for wait in written:
        wait()
    if request.parquet:
        aggregate.write_parquet(frames, csvs)
    if request.plain:
        write_atomically(csvs / "run.json", json.dumps(loaded.run, indent=2, ensure_ascii=False) + "\n")
    places = {"csvs": csvs, "plots": reports, "report": reports / "report.html"}
    if request.as_json:
        print(json_summary(frames, errors, criterion, places))
    else:
        notes = [*_unanswered_notes(loaded, frames["summary"]), *(loaded.run["notes"] if request.plain else [])]
        _print_summary(frames, errors, criterion, options.protocol, [*notes, *_lines(places)], console)
    finish()  # the page exists already; figures follow


FIRST_PAGE_FROM = 1_000
"""Number of outcomes of a run from which on a page is written before the fits of poses are computed, which takes seconds."""


def _with_fits(
    loaded: RunData, trials: pd.DataFrame, replay: ProblemReplay, options: Options, console: Console | None
) -> pd.DataFrame:
    """Return trials with `as_good`, `rival_ratio` and estimated symmetries; a page may be written before, see `_first_page`."""
    from bench.report.as_good import add_fits
    from bench.report.estimated_symmetry import add_estimated_symmetry

    begin = _first_page(loaded, trials, replay, options, console)
    return add_estimated_symmetry(loaded, replay, add_fits(loaded, replay, trials, options.criterion, begin))


def _first_page(
    loaded: RunData, trials: pd.DataFrame, replay: ProblemReplay, options: Options, console: Console | None
) -> Callable[[], None]:
    """Return a function that writes a page without fits and figures at its first call, and prints its place."""
    from bench.evaluation import aggregate
    from bench.report import errors_by_group, write_first_page

    @functools.cache
    def begin() -> None:
        if len(loaded.outcomes) < FIRST_PAGE_FROM:
            return
        frames = aggregate.tables(loaded, options.criterion, trials)
        page = write_first_page(loaded, frames, errors_by_group(frames, options.criterion), replay, options)
        if console:
            console.print(
                f"report  {page} (ceilings and figures follow)", highlight=False, soft_wrap=True, markup=False
            )

    return begin


def _options(request: ReportRequest) -> Options:
    """Return the options of the report.

    Raises:
        InputError: see `_checked_sheet`.
    """
    from bench.report import Options
    from bench.report.style import WIDTHS

    return Options(
        criterion=request.criterion,
        against=request.against == PAPER,
        csv_folder=request.folders[0] if request.plain else request.folder / "csv",
        folder=request.folder,
        width=WIDTHS[request.width],
        sheet=_checked_sheet(request.sheet),
        coloured=request.coloured,
        protocol=None if request.against == PAPER else request.against,
        run=request.folders[0].resolve().name if len(request.folders) == 1 else "RUN",
    )


def _print_summary(
    frames: dict[str, pd.DataFrame],
    errors: dict[GroupKey, Errors],
    criterion: Convention,
    protocol: str | None,
    lines: list[str],
    console: Console,
) -> None:
    """Print the tables of all groups, those of a protocol, and lines of plain text."""
    from bench.report import terminal_summary
    from bench.report.published import protocol_tables
    from bench.report.terminal import table_for_terminal

    console.print(terminal_summary(frames, errors, criterion, console.width), crop=False)
    for table in protocol_tables(frames, protocol).values():
        console.print(table_for_terminal(table, console.width))
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _lines(places: dict[str, Path]) -> list[str]:
    """Return a line for each place where files were written."""
    return [f"{label:8}{path}" for label, path in zip(("CSVs", "plots", "report"), places.values(), strict=True)]


def _checked_sheet(sheet: Path | None) -> Path | None:
    """Return a matplotlib style file.

    Raises:
        InputError: it does not exist or is not a style file.
    """
    if sheet is None:
        return None
    import matplotlib

    try:
        matplotlib.rc_params_from_file(sheet, use_default_template=False)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"--style {sheet}: {error}; give a matplotlib style file") from error
    return sheet.absolute()


def _unanswered_notes(loaded: RunData, summary: pd.DataFrame) -> list[str]:
    """Return for each method that answered no problem how its first problem ended."""
    answered = summary[summary["problems"] > 0].groupby("method", observed=True)["answered"].sum()
    notes = []
    for method in answered.index[answered == 0]:
        rows = loaded.outcomes[(loaded.outcomes["method"] == method) & (loaded.outcomes["status"] != "skipped")]
        first = rows.iloc[0]
        message = clean(str(first["message"]), MAX_MESSAGE)
        notes.append(f"{method} never answered: {first['status']}, {message or 'without a message'}")
    return notes


def _trials_for(loaded: RunData, criterion: Convention, replay: ProblemReplay) -> pd.DataFrame:
    """Return the trials with every error the convention needs.

    Raises:
        InputError: the run lacks data that the convention needs.
    """
    from bench.evaluation import aggregate
    from bench.report.replay import chamfer, correspondence_rmse

    table = aggregate.trials(loaded)
    computed = {"chamfer": chamfer, "rmse_correspondences": correspondence_rmse}
    extra = {name: compute(loaded, replay, table) for name, compute in computed.items() if name == criterion.metric}
    table = aggregate.add_success(loaded, criterion, table.assign(**extra))
    evaluated = table[table["status"] != "skipped"]
    if len(evaluated) and evaluated[criterion.metric].isna().all():
        reasons = "; ".join(f"{name}: {why}" for name, why in replay.missing.items())
        raise InputError(
            f"--convention {criterion.name}: {reasons or 'no problem of the run has gt.info, which it needs'}"
        )
    return table
