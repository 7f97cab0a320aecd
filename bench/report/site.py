"""`bench.py publish`: a static site with leaderboards of several runs, which opens from the disk without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.planning.catalog import Catalog
from bench.report.embed import script_json
from bench.report.ranking import MIN_PROBLEMS
from bench.report.style import slug
from bench.report.verify import NOT_SOLVED, Verdict, digests
from bench.storage import csv_writer
from common.errors import InputError
from common.files import make_folder, write_atomically
from common.specs import split_list
from common.text import join_names
from datasets.conditions import condition

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Registration benchmark: results"
VERDICT = "verify.json"
"""File in a run's folder with the output of `bench.py verify RUN --json`."""
UNKNOWN, UNVERIFIED, OBJECTS = "unknown", "unverified", "objects"


@dataclass(frozen=True)
class Entry:
    """One row of the leaderboards: a method on one problem set in one run.

    Attributes:
        task: what is registered: `objects, CONDITION`, or the name of a data set of real pairs.
        group: data set/condition/points.
        problem_set: SHA-256 of the problems; rows of different problem sets are in different tables.
        method, kind: name and kind of the method.
        problems, answered, recall, recall_low, recall_high: as in `summary.csv`.
        error: median error, `rmse_median` in `summary.csv`; None if it is not finite.
        time_ms: median time of one pair at this number of points, timed alone if `timed_in` names a run, else while
            registering, beside other processes; None if unknown.
        device, processor: that the time was measured on.
        licence: of the data.
        run, commit, finished: name of the run, version of the benchmark, and time of the run's end.
        timed_in: run in whose timing phase the method was timed alone: this one, or another one of the same data set, version,
            processor, device and settings; empty if there is none.
        verified: `verified`, `refused` or `unverified`, also if only the poses of this method were not solved again.
        latest: whether no later run has the method on these problems and this device; refused runs do not count.
    """

    task: str
    group: str
    problem_set: str
    method: str
    kind: str
    problems: int
    answered: int
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    error: float | None
    time_ms: float | None
    device: str
    processor: str
    licence: str
    run: str
    commit: str
    finished: str
    verified: str
    latest: bool = True
    timed_in: str = ""

    @property
    def few(self) -> bool:
        """Whether the method has too few problems to be ranked."""
        return 0 < self.problems < MIN_PROBLEMS


@dataclass(frozen=True)
class Published:
    """A run that is shown.

    Attributes:
        folder: folder of the run.
        facts: content of `run.json`.
        tables: summary, timing, trials and poses.
        verdict: content of `verify.json` if it is of exactly these files; None otherwise.
    """

    folder: Path
    facts: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    verdict: dict[str, Any] | None

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.folder.resolve().name

    @property
    def status(self) -> str:
        """Verdict in a word."""
        verdict = self.verdict["verdict"] if self.verdict else UNVERIFIED
        return UNVERIFIED if verdict == Verdict.FILES_VERIFIED else str(verdict)

    def status_of(self, method: str) -> str:
        """Verdict on a method in a word: `unverified` if the run is verified but for the poses of this method."""
        findings = self.verdict["findings"] if self.verdict else []
        open_to_doubt = {finding.get("method", "") for finding in findings if finding["check"] == NOT_SOLVED}
        return UNVERIFIED if self.status == Verdict.VERIFIED and open_to_doubt & {"", method} else self.status


def publish(folders: Sequence[Path], site: Path, catalog: Catalog, poses: bool = True) -> list[Path]:
    """Write the site of some runs into a folder, which is new, empty or that of a site; return the files.

    Raises:
        InputError: a folder holds no finished run, two runs have one name, or `site` holds other files.
    """
    runs = [read_published(folder) for folder in folders]
    names = [run.name for run in runs]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InputError(f"publish: two runs are named {join_names(twice)}; rename a folder")
    _check_site(site)
    settings = {run.name: tuple(run.facts["config"].get(name) for name in ("threads", "kind")) for run in runs}
    entries = with_times_alone([entry for run in runs for entry in entries_of(run, catalog)], settings)
    entries = with_latest(entries)
    make_folder(site)
    written = [write_atomically(site / "index.html", _index(entries))]
    written += _machine_readable(entries, site)
    for run in runs:
        place = site / "runs" / slug(run.name)
        place.mkdir(parents=True, exist_ok=True)
        written.append(write_atomically(place / "index.html", _run_page(run, poses)))
        if poses:
            written.append(write_atomically(place / "poses.js", f"window.poses = {script_json(poses_of(run))};\n"))
    return written


def _check_site(site: Path) -> None:
    if site.exists() and not site.is_dir():
        raise InputError(f"--site {site}: exists and is not a folder; give another name")
    names = sorted(path.name for path in site.iterdir()) if site.is_dir() else []
    page = site / "index.html"
    if names and not (
        page.is_file() and f"<title>{TITLE}</title>" in page.read_text(encoding="utf-8", errors="replace")
    ):
        raise InputError(f"--site {site}: holds {join_names(names)}, and no site of this command; give a new folder")


def read_published(folder: Path) -> Published:
    """Read the CSVs, `run.json` and `verify.json` of a run; no database is needed.

    Raises:
        InputError: a file is missing or damaged.
    """
    try:
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        names = ("summary", "timing", "trials", "poses")
        tables = {name: csv_writer.read_csv(folder / f"{name}.csv") for name in names}
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: is missing; give the name or folder of a finished run") from None
    except ValueError as error:
        raise InputError(f"{folder}: {error}; write its files again with bench.py report") from error
    return Published(folder, facts, tables, _verdict(folder))


def _verdict(folder: Path) -> dict[str, Any] | None:
    """Return the verdict on a run; None if there is none, or if it is of other files than those in the folder."""
    path = folder / VERDICT
    if not path.is_file():
        return None
    try:
        verdict: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = {"verdict", "findings", "files"} <= verdict.keys() and verdict["verdict"] in (
            Verdict.VERIFIED,
            Verdict.FILES_VERIFIED,
            Verdict.REFUSED,
        )
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path}: {error}; write it again with bench.py verify --json") from error
    return verdict if known and verdict["files"] == digests(folder) else None


def entries_of(run: Published, catalog: Catalog) -> Iterator[Entry]:
    """Yield the rows of a run, method by method and group by group; groups without evaluated problems are left out."""
    facts, times = run.facts, _times(run.tables["timing"])
    machines = facts.get("machines", {})
    here = facts.get("environment", {})
    for row in run.tables["summary"].to_dict("records"):
        group = f"{row['dataset']}/{row['condition']}/{row['points']}"
        if not row["problems"] or group not in facts["problem_sets"]:
            continue
        alone = times.get((row["method"], row["points"]))
        ms, device, machine = alone or (row["time_ms_median"], None, None)
        yield Entry(
            _task(row["dataset"], row["condition"]),
            group,
            facts["problem_sets"][group],
            row["method"],
            row["kind"],
            int(row["problems"]),
            int(row["answered"]),
            _finite(row["recall"]),
            _finite(row["recall_low"]),
            _finite(row["recall_high"]),
            _finite(row["rmse_median"]),
            _finite(ms),
            str(device or facts["config"]["device"]),
            str(machines.get(machine, here).get("cpu", UNKNOWN)),
            _licence(row["dataset"], catalog),
            run.name,
            str(here.get("commit", UNKNOWN)),
            str(facts.get("finished") or ""),
            run.status_of(row["method"]),
            timed_in=run.name if alone else "",
        )


def _times(timing: pd.DataFrame) -> dict[tuple[str, int], tuple[float, str, str | None]]:
    """Return median time in ms, device and machine of methods timed alone, by method and points; the fastest of several."""
    whole = timing[(timing["phase"] == "timing") & (timing["angle_low"] == 0) & (timing["angle_high"] == 180)]
    machine = whole["machine"] if "machine" in whole else [None] * len(whole)
    rows = zip(whole["method"], whole["points"], whole["time_ms_median"], whole["device"], machine, strict=True)
    ordered = sorted((row for row in rows if np.isfinite(row[2])), key=lambda row: -row[2])
    return {(m, int(n)): (float(ms), d, place) for m, n, ms, d, place in ordered}


def _task(dataset: str, name: str) -> str:
    """Return the task of a group: objects under a condition, or a data set of real pairs."""
    first = split_list([name])[0]
    return dataset if condition(first).real else f"{OBJECTS}, {first.split('[')[0]}"


def _licence(dataset: str, catalog: Catalog) -> str:
    entry = catalog.data.entries.get(dataset.split("[")[0])
    return (entry.facts.licence if entry else "") or UNKNOWN


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def with_times_alone(entries: list[Entry], settings: Mapping[str, Any]) -> list[Entry]:
    """Return the rows; those without a time taken alone get the newest one of the same method, data set, points and machine.

    Version and settings must be the same, too. Refused runs and runs of an unknown processor or version lend none.

    Args:
        entries: the rows.
        settings: by name of the run, what else changes times, such as the number of threads.
    """

    def work(e: Entry) -> tuple[Any, ...]:
        dataset, _, points = e.group.rsplit("/", 2)
        return e.method, dataset, points, e.device, e.processor, e.commit, settings[e.run]

    in_order = sorted(entries, key=lambda e: (e.finished, e.run))
    alone = {work(e): e for e in in_order if e.timed_in and e.verified != "refused"}
    rows = []
    for entry in entries:
        known = UNKNOWN not in (entry.processor, entry.commit)
        other = alone.get(work(entry)) if known and not entry.timed_in else None
        rows.append(replace(entry, time_ms=other.time_ms, timed_in=other.timed_in) if other else entry)
    return rows


def with_latest(entries: list[Entry]) -> list[Entry]:
    """Return the rows with `latest` set, the best first within each problem set, controls and too few problems last."""
    last: dict[tuple[str, ...], str] = {}
    for entry in sorted(entries, key=lambda e: (e.finished, e.run)):
        if entry.verified != "refused":
            last[entry.problem_set, entry.method, entry.device] = entry.run
    order = sorted(
        entries,
        key=lambda e: (
            not e.task.startswith(OBJECTS),
            e.task,
            e.group,
            e.problem_set,
            e.few,
            e.kind == "control",
            -(e.recall or 0),
            e.error or np.inf,
            e.method,
        ),
    )
    return [replace(e, latest=last.get((e.problem_set, e.method, e.device)) == e.run) for e in order]


def _machine_readable(entries: Sequence[Entry], site: Path) -> list[Path]:
    """Write the rows as JSON and as CSV."""
    import pandas as pd

    names = [f.name for f in fields(Entry)]
    rows = [[getattr(entry, name) for name in names] for entry in entries]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=0, ensure_ascii=False)
    table = pd.DataFrame(rows, columns=pd.Index(names))
    return [
        write_atomically(site / "leaderboard.json", text + "\n"),
        write_atomically(site / "leaderboard.csv", csv_writer.csv_text(table)),
    ]


def _render(template: str, **content: Any) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    texts = {name: (files("bench.report") / name).read_text(encoding="utf-8") for name in ("page.css", "site.css")}
    css, js = Markup("".join(texts.values())), Markup((files("bench.report") / "site.js").read_text(encoding="utf-8"))
    source = (files("bench.report") / template).read_text(encoding="utf-8")
    return environment.from_string(source).render(css=css, js=js, title=TITLE, slug=slug, **content)


def _index(entries: Sequence[Entry]) -> str:
    tasks: dict[str, dict[tuple[str, str], list[Entry]]] = {}
    for entry in entries:
        tasks.setdefault(entry.task, {}).setdefault((entry.group, entry.problem_set), []).append(entry)
    choices = {name: sorted({getattr(e, name) for e in entries}) for name in ("kind", "device", "licence", "verified")}
    return _render("site.html", tasks=tasks, choices=choices, runs=len({e.run for e in entries}))


def _run_page(run: Published, poses: bool) -> str:
    shown = ("command", "config", "environment", "machines", "notes", "problem_sets")
    facts = {name: json.dumps(run.facts[name], indent=1, ensure_ascii=False) for name in shown if name in run.facts}
    findings = run.verdict["findings"] if run.verdict else []
    data = script_json({"trials": trials_of(run), "poses": poses})
    return _render("site_run.html", run=run, facts=facts, findings=findings, data=data)


def trials_of(run: Published) -> dict[str, dict[str, Any]]:
    """Return by group the ids of its problems, and by method and repeat the status or error of each; None if not run."""
    trials = run.tables["trials"]
    group = trials["dataset"] + "/" + trials["condition"] + "/" + trials["points"].astype(str)
    shown: dict[str, dict[str, Any]] = {}
    for name, rows in trials[trials["status"] != "skipped"].groupby(group):
        ids = sorted(rows["problem"].unique())
        methods: dict[str, list[Any]] = {}
        for (method, repeat), own in rows.groupby(["method", "repeat"]):
            answers = {
                problem: float(f"{error:.3g}") if status == "ok" else status
                for problem, status, error in zip(own["problem"], own["status"], own["rmse"], strict=True)
            }
            methods[f"{method}\t{repeat}"] = [answers.get(problem) for problem in ids]
        shown[str(name)] = {"problems": ids, "methods": methods}
    return shown


def poses_of(run: Published) -> dict[str, list[float]]:
    """Return the 16 numbers of each pose of the accuracy phase, row by row, by method, problem and repeat."""
    table = run.tables["poses"]
    kept = table[(table["phase"] == "accuracy") & (table["status"] == "ok")]
    numbers = kept[[f"t{row}{column}" for row in range(4) for column in range(4)]].to_numpy(dtype=float).tolist()
    keys = zip(kept["method"], kept["problem"], kept["repeat"], numbers, strict=True)
    return {f"{method}\t{problem}\t{repeat}": pose for method, problem, repeat, pose in keys}
