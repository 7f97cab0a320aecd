"""From the folders of finished runs to files a person reads. Nothing is registered again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.evaluation.conventions import Convention, convention
from bench.evaluation.loader import RunData, load, merge
from bench.planning.catalog import Catalog
from bench.storage import run_folder
from common.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from bench.report import ProblemReplay

RESULTS, REPORTS = Path("results"), Path("reports")


@dataclass(frozen=True)
class ReportRequest:
    """What is to be written of which runs.

    Attributes:
        folders: of the runs; several are reported together.
        reports: the folder that holds one folder a report.
        catalog: data sets and methods, for pictures.
        convention: its name; None for the default.
        thresholds: other limits of success than the convention's own.
        against: whether the paper's numbers stand beside ours.
        out: name of the report; None to name it after the runs and the convention.
    """

    folders: Sequence[Path]
    reports: Path
    catalog: Catalog
    convention: str | None = None
    thresholds: Sequence[float] | None = None
    against: bool = False
    out: str | None = None

    @property
    def view(self) -> Convention:
        """The convention asked for."""
        return convention(self.convention, self.thresholds)

    @property
    def plain(self) -> bool:
        """Whether this is the report that a run itself writes, whose CSVs lie beside its record."""
        return len(self.folders) == 1 and not self.convention and not self.thresholds and not self.out

    @property
    def folder(self) -> Path:
        """The report's folder."""
        return run_folder.resolve_folder(self.out or self._usual_name, self.reports)

    @property
    def _usual_name(self) -> str:
        runs = "+".join(folder.resolve().name for folder in self.folders)
        limits = "@" + ",".join(f"{t:g}" for t in self.thresholds) if self.thresholds else ""
        how = f".{self.view.name}{limits}" if self.convention or self.thresholds else ""
        return runs + how


def folder_of(run: Path) -> Path:
    """The folder of a run that is given by its folder or by its name."""
    return run if run.is_dir() else RESULTS / run


def read(folder: Path) -> RunData:
    """What the record in a run's folder holds; writes nothing.

    Raises:
        InputError: there is no record, or it is not that of a run.
    """
    from bench.storage.database import ResultsDatabase
    from bench.storage.run_json import run_json

    if not (folder / "record.sqlite").is_file():
        shipped = (folder / "run.json").is_file()  # as the reference run is: its CSVs alone
        mend = "make it again, by the command in its run.json" if shipped else "give the name or folder of a run"
        raise InputError(f"{folder}: no record.sqlite in it; {mend}")
    record = ResultsDatabase(folder / "record.sqlite", read_only=True)
    try:
        if record.get("run") is None:
            raise InputError(f"{folder}: its run stopped before it had problems; start it again")
        return load(record.path, run_json(record))
    finally:
        record.close()


def write(request: ReportRequest, console: Console) -> None:
    """CSVs, tables, figures, the page, and the summary on the terminal.

    Raises:
        InputError: see `read`, `bench.evaluation.loader.merge` and `bench.evaluation.conventions.convention`.
    """
    from bench.evaluation import aggregate
    from bench.report import Options, ProblemReplay, begin_report, terminal_summary

    view = request.view
    runs = [read(folder) for folder in request.folders]
    loaded = runs[0] if len(runs) == 1 else merge(runs, [f.name for f in request.folders])
    redraw = ProblemReplay(loaded, request.catalog)
    frames = aggregate.tables(loaded, view, _trials_for(loaded, view, redraw))
    reports = request.folder
    run_folder.check_report_folder(reports)
    csvs = request.folders[0] if request.plain else reports / "csv"
    finish = begin_report(loaded, frames, redraw, Options(view, request.against, csvs, reports))
    aggregate.write_csvs(frames, csvs)
    if request.plain:
        text = json.dumps(loaded.run, indent=2, ensure_ascii=False)
        aggregate.write_atomically(csvs / "run.json", text + "\n")
    finish()
    console.print(terminal_summary(frames["summary"], frames["timing"], view))
    for note in [*_unanswered_notes(loaded, frames["summary"]), *(loaded.run["notes"] if request.plain else [])]:
        console.print(note, highlight=False, soft_wrap=True, markup=False)
    for what, where in (("CSVs", csvs), ("plots", reports), ("report", reports / "report.html")):
        console.print(f"{what:8}{where}", highlight=False, soft_wrap=True)


def _unanswered_notes(loaded: RunData, summary: pd.DataFrame) -> list[str]:
    """Of each method that was asked and never answered, how its first problem ended."""
    answered = summary[summary["problems"] > 0].groupby("method", observed=True)["answered"].sum()
    notes = []
    for method in answered.index[answered == 0]:
        rows = loaded.outcomes[(loaded.outcomes["method"] == method) & (loaded.outcomes["status"] != "skipped")]
        first = rows.iloc[0]
        notes.append(f"{method} never answered: {first['status']}, {first['message'] or 'without a message'}")
    return notes


def _trials_for(loaded: RunData, view: Convention, redraw: ProblemReplay) -> pd.DataFrame:
    """The trials with every error the convention needs.

    Raises:
        InputError: the convention needs what the run does not have.
    """
    from bench.evaluation import aggregate
    from bench.report.replay import chamfer

    table = aggregate.trials(loaded)
    extra = {"chamfer": chamfer(loaded, redraw, table)} if view.metric == "chamfer" else {}
    table = aggregate.add_success(loaded, view, table.assign(**extra))
    asked = table[table["status"] != "skipped"]
    if len(asked) and asked[view.metric].isna().all():
        reasons = "; ".join(f"{name}: {why}" for name, why in redraw.missing.items())
        raise InputError(f"--convention {view.name}: {reasons or 'no problem of the run has gt.info, which it needs'}")
    return table
