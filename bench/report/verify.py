"""`bench.py verify`: check that a run is what it claims, by computing again everything that can be computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation import aggregate
from bench.evaluation.conventions import convention
from bench.evaluation.loader import RunData, scenes_of
from bench.evaluation.problem_groups import problem_counts, problem_set_of, rows_of_groups
from bench.planning.catalog import Catalog
from bench.planning.config import ORACLE, configuration_hash
from bench.report.command import read
from bench.report.replay import ProblemReplay
from bench.report.solve_again import SolveAgain
from bench.storage.csv_writer import csv_text
from bench.storage.database import ResultsDatabase
from bench.storage.run_folder import DATABASE_NAME
from bench.storage.seeds import split_seed
from common.errors import InputError
from common.text import counted, join_names
from datasets.conditions import condition
from datasets.problems import Problem

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

NOT_VERIFIABLE = (
    "times, memory and stages",
    "the environment (processor, versions, commit)",
    "messages and notes of methods",
    "whether seed, data sets and limits were chosen for their result",
)
"""What no computation can check, listed in every verdict."""
SOLVED = "poses solved again"
"""Check of the finding on the outcomes that were solved again."""
NOT_SOLVED = "poses not solved again"
"""Check of the findings that leave a method, or all if none is named, without a verdict on its poses."""
MAX_LISTED = 3
"""Entries listed in a finding."""


class Verdict(StrEnum):
    """Result of a check."""

    VERIFIED = "verified"
    FILES_VERIFIED = "files verified"  # of a run only: no outcome was solved again
    REFUSED = "refused"
    UNVERIFIED = "not verified"


@dataclass(frozen=True)
class Finding:
    """Result of one check: its name, its verdict, what was compared or what differs, and the method if it is about one."""

    check: str
    verdict: Verdict
    detail: str
    method: str = ""


@dataclass(frozen=True)
class VerifyRequest:
    """Arguments of a verification.

    Attributes:
        folder: folder of the run, with its database, CSVs and `run.json`.
        catalog: data sets and methods, to generate problems and solve them again.
        budget_s: time in seconds for solving outcomes again; 0 for none.
        seed: of the choice of those outcomes; None for an unpredictable one.
    """

    folder: Path
    catalog: Catalog
    budget_s: float = 90.0
    seed: int | None = None


@dataclass
class RunClaims:
    """A run and what it claims.

    Attributes:
        folder: folder of the run.
        loaded: content of its database.
        code: hashes of the source files by method, as stored when the run began.
        configuration_hash: hash of the configuration, as stored when the run began.
        finished: whether the run came to its end.
        catalog: data sets and methods of this machine.
    """

    folder: Path
    loaded: RunData
    code: dict[str, Any]
    configuration_hash: str | None
    finished: bool
    catalog: Catalog
    replay: ProblemReplay = field(init=False)

    def __post_init__(self) -> None:
        self.replay = ProblemReplay(self.loaded, self.catalog)

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of the run, as JSON values."""
        values: dict[str, Any] = self.loaded.run["config"]
        return values

    @property
    def seeds(self) -> list[int]:
        """Seeds of the run; several if runs of different seeds were merged."""
        return list(self.config.get("seeds", [self.config["seed"]]))

    def problems_of(self, group: str) -> dict[int, list[str]]:
        """Return the ids of a group's problems by seed, in order."""
        ids: dict[int, list[str]] = {}
        for problem in self.loaded.problems["problem"].iloc[self.groups[group]]:
            ids.setdefault(split_seed(problem, self.config["seed"])[1], []).append(problem)
        return ids

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Outcomes of the accuracy phase, with their `group` (data set/condition/points) and text columns as text."""
        rows = self.loaded.outcomes[self.loaded.outcomes["phase"] == "accuracy"]
        text = {name: rows[name].astype(str) for name in ("method", "problem", "dataset", "condition", "status")}
        group = text["dataset"] + "/" + text["condition"] + "/" + rows["points"].astype(str)
        return rows.assign(**text, group=group)

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Rows of the problems of each group, see `rows_of_groups`; those of the timing phase alone are in no group."""
        return rows_of_groups(self.loaded)


def claims_of(folder: Path, catalog: Catalog) -> RunClaims:
    """Read a run's folder; nothing is written.

    Raises:
        InputError: the folder holds no readable run.
    """
    loaded = read(folder)
    database = ResultsDatabase(folder / DATABASE_NAME, read_only=True)
    try:
        code, stored = database.get("code") or {}, database.get("hash")
        return RunClaims(folder, loaded, code.get("methods", {}), stored, bool(database.get("finished")), catalog)
    finally:
        database.close()


def verify(request: VerifyRequest) -> list[Finding]:
    """Return the findings of all checks of a run.

    Raises:
        InputError: the folder holds no readable run.
    """
    run = claims_of(request.folder, request.catalog)
    again = SolveAgain(run.loaded, run.replay, run.code, request.budget_s, request.seed)
    checks: dict[str, Callable[[RunClaims], Iterator[str]]] = {
        "run.json": run_json_faults,
        "configuration": configuration_faults,
        "problem sets": problem_set_faults,
        "completeness": completeness_faults,
        "outcomes": outcome_faults,
        "tables": table_faults,
    }
    findings = [_finding(name, list(check(run))) for name, check in checks.items()]
    findings.append(_problems_finding(run))
    result = again.result()
    findings.append(_finding(SOLVED, result.faults, result.summary, verified=result.solved > 0))
    findings += [Finding(NOT_SOLVED, Verdict.UNVERIFIED, why, method) for method, why in result.reasons]
    return findings + [Finding("claims", Verdict.UNVERIFIED, f"not verifiable: {name}") for name in NOT_VERIFIABLE]


def _finding(name: str, faults: list[str], summary: str = "as claimed", verified: bool = True) -> Finding:
    if faults:
        return Finding(name, Verdict.REFUSED, join_names(faults, MAX_LISTED, "; "))
    return Finding(name, Verdict.VERIFIED if verified else Verdict.UNVERIFIED, summary)


ADDED_FACTS = frozenset(["schema", "finished"])
"""Facts that `run.json` of earlier versions lacks."""


def run_json_faults(run: RunClaims) -> Iterator[str]:
    """Yield the facts of `run.json` that differ from those of the database."""
    try:
        written = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield f"run.json cannot be read ({error})"
        return
    stored = json.loads(json.dumps(run.loaded.run))
    if isinstance(schema := written.get("schema"), int) and 0 < schema <= stored["schema"]:
        stored["schema"] = schema  # the CSVs may be of an earlier version; the facts of a database are of the latest
    for name, fact in stored.items():
        if written.get(name) != fact and (name in written or name not in ADDED_FACTS):
            yield f"{name} differs from the database"


def configuration_faults(run: RunClaims) -> Iterator[str]:
    """Yield differences between the configuration, its hash, and the end of the run."""
    facts, computed = run.loaded.run, configuration_hash(run.config)
    if facts.get("hash") != computed or run.configuration_hash != computed:
        yield f"the configuration has the hash {computed[:12]}, the run claims {str(facts.get('hash'))[:12]}"
    if not run.finished:
        yield "the run was stopped before its end"


def problem_set_faults(run: RunClaims) -> Iterator[str]:
    """Yield groups whose stored problems are not problems 0 to n - 1 of the configuration, or not those of their SHA-256.

    Problems that neither a group has nor a timed call got are faults, too.
    """
    claimed: dict[str, str] = run.loaded.run["problem_sets"]
    yield from (f"{name}: has no stored problem" for name in claimed if name not in run.groups)
    for name, rows in run.groups.items():
        by_seed = run.problems_of(name)
        if {*by_seed} != {*run.seeds}:
            yield f"{name}: has problems of the seeds {[*by_seed]}, not of {run.seeds}"
        real = condition(str(run.loaded.problems["condition"].iloc[rows[0]])).real
        for ids in by_seed.values():
            indices = sorted(int(text.rsplit("/", 1)[1]) for text in ids)
            if indices != list(range(len(indices))):
                yield f"{name}: problems are missing among the first {indices[-1] + 1}"
            if not real and len(indices) not in (counts := problem_counts(run.config, name)):
                yield f"{name}: has {counted(len(indices), 'problem')}; the configuration has {counts[0]}"
        if problem_set_of(run.loaded, rows) != claimed.get(name):
            yield f"{name}: its problems have another SHA-256 than the run claims"
    outcomes, problems = run.loaded.outcomes, run.loaded.problems["problem"]
    used = set(outcomes.loc[outcomes["phase"] != "accuracy", "problem"].astype(str))
    used |= {str(problems.iloc[row]) for rows in run.groups.values() for row in rows}
    yield from (
        f"{name}: is a problem that the run has no use for" for name in problems.astype(str) if name not in used
    )


def completeness_faults(run: RunClaims) -> Iterator[str]:
    """Yield methods that lack outcomes which the configuration requires, or that it does not name."""
    config, table = run.config, run.accuracy
    named = {*config["methods"], *(m for grid in config.get("more", []) for m in grid["methods"])}
    named |= {ORACLE} if config["oracle"] else set()
    yield from (f"{m}: is not in the configuration" for m in sorted({*table["method"]} - named))
    random = {name: facts["random"] for name, facts in run.loaded.run["methods"].items()}
    solved = table.groupby(["method", "group"])["problem"].agg(set).to_dict()
    for method in sorted(named):
        for group in _required_groups(run, method):
            solved_here, required = solved.get((method, group), set()), _required_problems(run, method, group)
            if len(solved_here) != len(required):
                yield f"{method} has outcomes of {counted(len(solved_here), 'problem')} of {group}, not of {len(required)}"
            elif solved_here != required:
                yield f"{method} lacks an outcome of {min(required - solved_here)}, and has one of {min(solved_here - required)}"
            elif wrong := _wrong_repeats(run, method, group, config.get("repeats", 1) if random.get(method) else 1):
                yield wrong


def _required_groups(run: RunClaims, method: str) -> list[str]:
    """Return the groups that a method must have outcomes of: those of its grid, and those it has any outcome of."""
    config = run.config
    has = set(run.accuracy.loc[run.accuracy["method"] == method, "group"])
    in_main = method in config["methods"] or method == ORACLE
    points = {run.loaded.problems["points"].iloc[rows[0]]: name for name, rows in run.groups.items()}
    extra = bool(config.get("more")) and len(points) > len(config["points"])
    main = [] if extra or not in_main else list(run.groups)
    return [name for name in run.groups if name in has or name in main]


def _required_problems(run: RunClaims, method: str, group: str) -> set[str]:
    """Return the problems of a group that a method gets: of each seed the first ones, for the control `oracle` all."""
    by_seed = run.problems_of(group).values()
    return {
        problem
        for ids in by_seed
        for problem in (ids if method == ORACLE else ids[: _limit(run.config, method, len(ids))])
    }


def _limit(config: dict[str, Any], method: str, problems: int) -> int:
    """Return how many problems of a group and a seed a method gets, see `RunConfig.limit`."""
    first = method.split("+")[0].split("[")[0]
    share = config["limits"].get(method, config["limits"].get(first, 1.0))
    return min(max(1, round(config["problems"] * share)), problems)


def _wrong_repeats(run: RunClaims, method: str, group: str, repeats: int) -> str | None:
    """Return what is wrong with the repeats of a method's problems, or with problems that it skipped; None if nothing is."""
    rows = run.accuracy[(run.accuracy["method"] == method) & (run.accuracy["group"] == group)]
    skipped = rows["status"] == "skipped"
    if skipped.any():
        whole = skipped.all() and method in run.loaded.run["unavailable"]
        return None if whole else f"{method} skipped {rows['problem'][skipped].iloc[0]}, although it was available"
    by_problem = rows.groupby("problem")["repeat"]
    wrong = (by_problem.nunique() != repeats) | (by_problem.max() != repeats - 1)
    return f"{method} has other repeats of {wrong.index[wrong][0]} than 0 to {repeats - 1}" if wrong.any() else None


def outcome_faults(run: RunClaims) -> Iterator[str]:
    """Yield outcomes that contradict themselves: other seeds, a control that is not the truth, an `ok` without a pose."""
    table = run.accuracy
    seeds = table["problem"].map(lambda problem: split_seed(problem, run.config["seed"])[1])
    if len(other := table[table["seed"] != seeds]):
        yield f"{other['method'].iloc[0]} on {other['problem'].iloc[0]}: has the seed of another run"
    frame = aggregate.trials(run.loaded)
    claimed = table["status"].to_numpy()
    changed = np.flatnonzero(frame["status"].astype(str).to_numpy() != claimed)
    yield from (f"{frame['method'].iloc[i]} on {frame['problem'].iloc[i]}: no rigid pose" for i in changed[:MAX_LISTED])
    oracle = frame[frame["method"] == ORACLE]
    if (oracle["status"] == "skipped").any() or not (oracle["rmse"] < 1e-9).all():
        yield "the control oracle, whose poses are the true ones, has errors"


def table_faults(run: RunClaims) -> Iterator[str]:
    """Yield CSVs that differ from those computed from the stored poses. Columns that earlier versions lack are not compared."""
    import pandas as pd

    for name, frame in aggregate.tables(run.loaded, convention(None)).items():
        path = run.folder / f"{name}.csv"
        if not path.is_file():
            yield f"{name}.csv is missing"
            continue
        if path.read_bytes() == csv_text(frame):
            continue
        try:
            written = pd.read_csv(path, dtype=str, keep_default_na=False)
        except ValueError as error:
            yield f"{name}.csv cannot be read ({error})"
            continue
        yield from _table_differences(name, frame, written)


def _table_differences(name: str, frame: pd.DataFrame, written: pd.DataFrame) -> Iterator[str]:
    import io

    import pandas as pd

    computed = pd.read_csv(io.BytesIO(csv_text(frame)), dtype=str, keep_default_na=False)
    if unknown := [str(c) for c in written if c not in computed]:
        yield f"{name}.csv has the unknown columns {join_names(unknown)}"
    if len(computed) != len(written):
        yield f"{name}.csv has {counted(len(written), 'row')}, not {len(computed)}"
        return
    for column in (c for c in computed if c in written and c not in REQUESTED_COLUMNS):
        different = np.flatnonzero(computed[column].to_numpy() != written[column].to_numpy())
        if len(different):
            row = int(different[0])
            values = f"{written[column].iloc[row]}, not {computed[column].iloc[row]}"
            yield f"{name}.csv, line {row + 2}, {column}: {values} ({counted(len(different), 'row')})"


REQUESTED_COLUMNS = frozenset(
    "as_good rival_ratio recall_as_good recall_as_good_low recall_as_good_high ceiling unambiguous ceiling_problems "
    "symmetry_estimated rmse_symmetric_estimated recall_symmetric_estimated recall_symmetric_estimated_low "
    "recall_symmetric_estimated_high".split()
)
"""Columns that a report computes on request only."""


def _problems_finding(run: RunClaims) -> Finding:
    """Generate every problem again and compare clouds, truth, evaluation points and tags."""
    faults: list[str] = []
    unavailable = 0
    for row, name in enumerate(run.loaded.problems["problem"]):
        try:
            problem = run.replay.generate(str(name))
        except InputError as error:
            faults.append(f"{name}: {error}")
            continue
        if problem is None:
            unavailable += 1
        elif fault := problem_fault(run.loaded, row, problem):
            faults.append(f"{name}: {fault}")
    reasons = join_names([f"{name}: {why}" for name, why in run.replay.missing.items()])
    count = len(run.loaded.problems) - unavailable
    summary = f"{count} of {len(run.loaded.problems)} problems generated again" + (f" ({reasons})" if reasons else "")
    return _finding("problems", faults, summary, verified=not unavailable)


def problem_fault(loaded: RunData, row: int, problem: Problem) -> str | None:
    """Return what differs between a stored problem, given by its row, and the one that its key gives; None if nothing does."""
    stored, scene = loaded.problems.iloc[row], loaded.scenes.take(np.array([row]))
    again = scenes_of(problem.T_target_source[None], problem.source_pose[None], [problem.evaluation_points])
    if stored["digest"] != problem.sha256():
        return "its clouds or its true pose are not those of its key"
    if not np.array_equal(scene.truth, again.truth):
        return "its true pose is not that of its key"
    if not np.array_equal(scene.source_pose, again.source_pose):
        return "its source pose is not that of its key"
    same_moments = all(np.array_equal(*pair) for pair in zip(scene.moments, again.moments, strict=True))
    if not same_moments or not np.array_equal(scene.first, again.first):
        return "its evaluation points are not those of its key"
    tags = {name: (stored[name], value) for name, value in problem.tags.items()}
    wrong = [name for name, (old, new) in tags.items() if not _same(old, new)]
    if wrong:
        return f"its {join_names(wrong)} {'differs' if len(wrong) == 1 else 'differ'}"
    old, new = loaded.information.get(row), problem.information
    same = old is None and new is None if old is None or new is None else np.array_equal(old, new)
    return None if same else "its information matrix differs"


def _same(a: Any, b: Any) -> bool:
    """Return whether two tags are equal; missing values are."""
    missing = [value is None or value != value for value in (a, b)]
    return all(missing) if any(missing) else bool(a == b)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of `run.json` and of every CSV of a run: the files that a verdict is about."""
    names = ["run.json", *sorted(path.name for path in folder.glob("*.csv"))]
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names if (folder / name).is_file()
    }


def run(request: VerifyRequest, console: Console, as_json: bool) -> bool:
    """Verify a run, print the findings, and return whether none is refused."""
    from rich.table import Table

    findings = verify(request)
    refused = [finding for finding in findings if finding.verdict is Verdict.REFUSED]
    verdict = verdict_of(findings)
    if as_json:
        rows = [asdict(finding) for finding in findings]
        files = digests(request.folder)
        print(json.dumps({"run": request.folder.name, "verdict": verdict, "files": files, "findings": rows}, indent=2))
        return not refused
    table = Table("check", "verdict", "detail", box=None)
    for finding in findings:
        table.add_row(finding.check, finding.verdict, ": ".join(filter(None, (finding.method, finding.detail))))
    console.print(table)
    reasons = list(dict.fromkeys(finding.detail for finding in findings if finding.check == NOT_SOLVED))
    detail = {
        Verdict.REFUSED: f": {join_names([f.check for f in refused])}",
        Verdict.FILES_VERIFIED: f"; 0 outcomes solved again: {join_names(reasons) or 'none can be'}",
        Verdict.VERIFIED: ", except for what is listed",
    }
    console.print(f"{request.folder.name}: {verdict}{detail[verdict]}", highlight=False, soft_wrap=True)
    return not refused


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict on a run from the findings of all checks."""
    by_check = {finding.check: finding.verdict for finding in findings}
    if Verdict.REFUSED in by_check.values():
        return Verdict.REFUSED
    return Verdict.VERIFIED if by_check[SOLVED] is Verdict.VERIFIED else Verdict.FILES_VERIFIED
