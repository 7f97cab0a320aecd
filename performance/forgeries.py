"""Forge runs in many ways, and count those that `bench.py verify` refuses.

    python -m performance.forgeries [TIMES]

One run is made. Each forgery changes a copy of it, in most kinds the database, from which CSVs and `run.json` are then written
again, so that all agree. The result is verified; if nothing else refuses it, every outcome is solved again. Print each kind
with the number of runs that were refused, or verified except for the forged method.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.evaluation import aggregate
from bench.evaluation.conventions import convention
from bench.planning.catalog import Catalog
from bench.planning.config import configuration_hash
from bench.report import command, verify
from common.files import write_atomically
from datasets.problems import problem_set_sha256
from performance.kills import ROOT, WITHOUT_REPORT

METHODS = "--methods pca random_pose oracle"
COMMAND = "--datasets shapes40 --conditions noisy resampled --points 64 --problems 4"
FLAGS = "--timing-rounds 0 --jobs 1"
REFUSED, OPEN, VERIFIED = "refused", "method open", "verified"
ENOUGH_S = 1e3
"""Budget with which every outcome is solved again."""
Forgery = Callable[[Any, random.Random], None]
"""Changes an open database, or a folder if it is one of `EDITS`."""


def _row(db: sqlite3.Connection, draw: random.Random, where: str = "1") -> tuple[str, str]:
    """Return method and problem of a random outcome of the accuracy phase."""
    rows = db.execute(f"SELECT method, problem FROM outcomes WHERE phase = 'accuracy' AND ({where}) ORDER BY 1, 2")
    method, problem = draw.choice(rows.fetchall())
    return method, problem


def improve_pose(db: sqlite3.Connection, draw: random.Random, methods: Sequence[str] = ("pca", "random_pose")) -> None:
    """Replace the pose of a method by the true one."""
    method, problem = _row(db, draw, " OR ".join(f"method = '{name}'" for name in methods))
    truth = db.execute("SELECT truth FROM problems WHERE problem = ?", (problem,)).fetchone()[0]
    db.execute("UPDATE outcomes SET pose = ?, status = 'ok' WHERE method = ? AND problem = ?", (truth, method, problem))


def blend_pose(db: sqlite3.Connection, draw: random.Random) -> None:
    """Move the translation of a pose half way to the true one."""
    method, problem = _row(db, draw, "method = 'random_pose'")
    truth = np.frombuffer(db.execute("SELECT truth FROM problems WHERE problem = ?", (problem,)).fetchone()[0])
    blob = db.execute("SELECT pose FROM outcomes WHERE method = ? AND problem = ?", (method, problem)).fetchone()[0]
    pose = np.frombuffer(blob).reshape(4, 4).copy()
    pose[:3, 3] = (pose[:3, 3] + truth.reshape(4, 4)[:3, 3]) / 2
    db.execute("UPDATE outcomes SET pose = ? WHERE method = ? AND problem = ?", (pose.tobytes(), method, problem))


def swap_truth(db: sqlite3.Connection, draw: random.Random) -> None:
    """Replace the truth of a problem by the pose of a method."""
    method, problem = _row(db, draw, "method IN ('pca', 'random_pose')")
    pose = db.execute("SELECT pose FROM outcomes WHERE method = ? AND problem = ?", (method, problem)).fetchone()[0]
    db.execute("UPDATE problems SET truth = ? WHERE problem = ?", (pose, problem))
    db.execute("UPDATE outcomes SET pose = ? WHERE method = 'oracle' AND problem = ?", (pose, problem))


def remove_outcome(db: sqlite3.Connection, draw: random.Random) -> None:
    """Remove one outcome of a method."""
    db.execute("DELETE FROM outcomes WHERE method = ? AND problem = ?", _row(db, draw))


def remove_method(db: sqlite3.Connection, draw: random.Random) -> None:
    """Remove all outcomes of a method in one group."""
    method, problem = _row(db, draw)
    group = problem.rsplit("/", 1)[0]
    db.execute("DELETE FROM outcomes WHERE method = ? AND problem LIKE ?", (method, f"{group}/%"))


def skip_outcome(db: sqlite3.Connection, draw: random.Random) -> None:
    """Declare an outcome skipped, so that it is in no denominator."""
    method, problem = _row(db, draw)
    db.execute("UPDATE outcomes SET status = 'skipped' WHERE method = ? AND problem = ?", (method, problem))


def remove_problem(db: sqlite3.Connection, draw: random.Random) -> None:
    """Remove a problem but the last with all its outcomes, and reduce the number of problems of the configuration."""
    _, problem = _row(db, draw, "problem NOT LIKE '%/00003'")
    suffix = problem.rsplit("/", 1)[1]
    for table in ("problems", "outcomes"):
        db.execute(f"DELETE FROM {table} WHERE problem LIKE ?", (f"%/{suffix}",))
    _edit_run(db, lambda run: run["config"].update(problems=run["config"]["problems"] - 1))


def claim_other_clouds(db: sqlite3.Connection, draw: random.Random) -> None:
    """Claim the digest of other clouds for a problem."""
    _, problem = _row(db, draw)
    digest = db.execute("SELECT digest FROM problems WHERE problem = ?", (problem,)).fetchone()[0]
    db.execute("UPDATE problems SET digest = ? WHERE problem = ?", (digest[::-1], problem))


def move_evaluation_points(db: sqlite3.Connection, draw: random.Random) -> None:
    """Shrink the points on which errors are measured."""
    _, problem = _row(db, draw)
    blob = db.execute("SELECT eval_points FROM problems WHERE problem = ?", (problem,)).fetchone()[0]
    points = np.frombuffer(blob, np.float32) / 2
    db.execute("UPDATE problems SET eval_points = ? WHERE problem = ?", (points.tobytes(), problem))


def declare_symmetry(db: sqlite3.Connection, draw: random.Random) -> None:
    """Declare an object to be a surface of revolution."""
    _, problem = _row(db, draw)
    db.execute("UPDATE problems SET symmetry = 'Dinf' WHERE problem = ?", (problem,))


def change_category(db: sqlite3.Connection, draw: random.Random) -> None:
    """Move a problem to another category."""
    _, problem = _row(db, draw)
    db.execute("UPDATE problems SET category = 'easy' WHERE problem = ?", (problem,))


def change_angle(db: sqlite3.Connection, draw: random.Random) -> None:
    """Declare a rotation to be larger."""
    _, problem = _row(db, draw)
    db.execute("UPDATE problems SET angle_deg = 179.5 WHERE problem = ?", (problem,))


def change_hash(db: sqlite3.Connection, draw: random.Random) -> None:
    """Change a digit of the configuration's hash."""
    _edit_run(db, lambda run: run.update(hash=run["hash"][::-1]), rehash=False)


def change_problem_set(db: sqlite3.Connection, draw: random.Random) -> None:
    """Claim the SHA-256 of another problem set."""

    def edit(run: dict[str, dict[str, str]]) -> None:
        name = draw.choice(sorted(run["problem_sets"]))
        run["problem_sets"][name] = run["problem_sets"][name][::-1]

    _edit_run(db, edit)


def change_seed(db: sqlite3.Connection, draw: random.Random) -> None:
    """Claim another seed for an outcome."""
    method, problem = _row(db, draw)
    db.execute("UPDATE outcomes SET seed = 7 WHERE method = ? AND problem = ?", (method, problem))


def rename_method(db: sqlite3.Connection, draw: random.Random) -> None:
    """Exchange the names of two methods."""
    for old, new in (("pca", "x"), ("random_pose", "pca"), ("x", "random_pose")):
        db.execute("UPDATE outcomes SET method = ? WHERE method = ?", (new, old))


def add_method(db: sqlite3.Connection, draw: random.Random) -> None:
    """Add outcomes of a method that was never run."""
    _copy_outcomes(db, "method", "'ours'", "method = 'oracle'")


def turn_no_solution(db: sqlite3.Connection, draw: random.Random) -> None:
    """Declare a wrong answer to be a refusal to answer."""
    method, problem = _row(db, draw, "method = 'random_pose'")
    sql = "UPDATE outcomes SET status = 'no_solution', pose = NULL WHERE method = ? AND problem = ?"
    db.execute(sql, (method, problem))


def duplicate_outcomes(db: sqlite3.Connection, draw: random.Random) -> None:
    """Repeat an outcome, so that it counts twice."""
    method, problem = _row(db, draw)
    _copy_outcomes(db, "repeat", "1", f"method = '{method}' AND problem = '{problem}'")


def pick_seed(db: sqlite3.Connection, draw: random.Random) -> None:
    """Replace the pose of a random method by the one of another call, as if the best of several seeds were kept."""
    _, problem = _row(db, draw, "method = 'random_pose'")
    other = "SELECT pose FROM outcomes WHERE method = 'random_pose' AND problem != ? AND phase = 'accuracy' LIMIT 1"
    db.execute(f"UPDATE outcomes SET pose = ({other}) WHERE method = 'random_pose' AND problem = ?", (problem, problem))


def claim_seed(db: sqlite3.Connection, draw: random.Random) -> None:
    """Claim that the run had another seed."""
    seed = draw.randint(1, 99)
    db.execute("UPDATE outcomes SET seed = ?", (seed,))
    _edit_run(db, lambda run: run["config"].update(seed=seed))


def choose_problem(db: sqlite3.Connection, draw: random.Random) -> None:
    """Replace a problem by another one of its condition, with all outcomes on it: the easy one is then there twice."""
    _, problem = _row(db, draw)
    group = f"{problem.rsplit('/', 1)[0]}/%"
    query = "SELECT problem FROM problems WHERE problem LIKE ? AND problem != ? ORDER BY 1"
    easy = draw.choice(db.execute(query, (group, problem)).fetchall())[0]
    for table in ("problems", "outcomes"):
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "problem"]
        db.execute(f"DELETE FROM {table} WHERE problem = ?", (problem,))
        rest = ", ".join(names)
        db.execute(
            f"INSERT INTO {table} (problem, {rest}) SELECT ?, {rest} FROM {table} WHERE problem = ?", (problem, easy)
        )


def drop_condition(db: sqlite3.Connection, draw: random.Random) -> None:
    """Remove a condition on which a method is bad, but not from the configuration."""
    _, problem = _row(db, draw)
    name = problem.split("/")[1]
    for table in ("problems", "outcomes"):
        db.execute(f"DELETE FROM {table} WHERE condition = ?", (name,))


def swap_weights(db: sqlite3.Connection, draw: random.Random) -> None:
    """Claim the SHA-256 of other weights."""

    def edit(run: dict[str, dict[str, dict[str, str]]]) -> None:
        facts = run["setup"].setdefault("pca on shapes40", {})
        facts["sha256"] = f"{draw.getrandbits(256):064x}"

    _edit_run(db, edit)


def edit_summary(folder: Path, draw: random.Random) -> None:
    """Raise a recall in `summary.csv` alone."""
    _edit_csv(folder / "summary.csv", draw, "recall", "0.99")


def edit_trial(folder: Path, draw: random.Random) -> None:
    """Reduce an error in `trials.csv` alone."""
    _edit_csv(folder / "trials.csv", draw, "rmse", "0.01")


def edit_time(folder: Path, draw: random.Random) -> None:
    """Reduce a time in `timing.csv` alone."""
    _edit_csv(folder / "timing.csv", draw, "time_ms_median", "0.01")


def remove_row(folder: Path, draw: random.Random) -> None:
    """Remove a row of `trials.csv` alone."""
    head, *rows = (folder / "trials.csv").read_text().splitlines(keepends=True)
    rows.remove(draw.choice(rows))
    (folder / "trials.csv").write_text("".join([head, *rows]))


def duplicate_row(folder: Path, draw: random.Random) -> None:
    """Repeat a row of `poses.csv` alone."""
    head, *rows = (folder / "poses.csv").read_text().splitlines(keepends=True)
    (folder / "poses.csv").write_text("".join([head, *rows, draw.choice(rows)]))


def edit_facts(folder: Path, draw: random.Random) -> None:
    """Claim another command in `run.json` alone."""
    facts = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(facts | {"command": f"bench.py --seed {draw.randint(1, 99)}"}))


def claim_processor(db: sqlite3.Connection, draw: random.Random) -> None:
    """Replace a pose by the true one, and claim another processor, whose arithmetic would explain the difference."""
    improve_pose(db, draw)
    _edit_run(db, lambda run: run["environment"].update(cpu="another"))


def own_method(db: sqlite3.Connection, draw: random.Random) -> None:
    """Give the poses of a method to one that exists nowhere, with the true one among them."""
    improve_pose(db, draw, ("random_pose",))
    db.execute("UPDATE outcomes SET method = 'ours' WHERE method = 'random_pose'")

    def edit(run: dict[str, Any]) -> None:
        run["methods"]["ours"] = run["methods"].pop("random_pose")
        run["config"]["methods"] = [name.replace("random_pose", "ours") for name in run["config"]["methods"]]

    _edit_run(db, edit)


def scale_time(db: sqlite3.Connection, draw: random.Random) -> None:
    """Halve the times of a method, which no computation can see."""
    method, _ = _row(db, draw)
    db.execute("UPDATE outcomes SET time_ms = time_ms / 2 WHERE method = ?", (method,))


FORGERIES: tuple[Forgery, ...] = (
    *(improve_pose, blend_pose, swap_truth, remove_outcome, remove_method, skip_outcome, remove_problem),
    *(claim_other_clouds, move_evaluation_points, declare_symmetry, change_category, change_angle, change_hash),
    *(change_problem_set, change_seed, rename_method, add_method, turn_no_solution, duplicate_outcomes, pick_seed),
    *(claim_seed, choose_problem, drop_condition, swap_weights),
)
"""Forgeries of the database that must be refused."""
EDITS: tuple[Forgery, ...] = (edit_summary, edit_trial, edit_time, remove_row, duplicate_row, edit_facts)
"""Forgeries of a file that must be refused."""
UNDECIDED: tuple[Forgery, ...] = (claim_processor, own_method)
"""Forgeries after which a method stays unverified, because its poses cannot be solved again under its conditions."""
UNSEEN: tuple[Forgery, ...] = (scale_time,)
"""Forgeries that no computation can see."""
NEEDS_SOLVING = (improve_pose, blend_pose, rename_method, turn_no_solution, pick_seed, swap_weights)
"""Forgeries that only solving again reveals."""


def _copy_outcomes(db: sqlite3.Connection, column: str, value: str, where: str) -> None:
    """Insert outcomes again with another value in a column."""
    names = [row[1] for row in db.execute("PRAGMA table_info(outcomes)") if row[1] != column]
    rest = ", ".join(names)
    db.execute(f"INSERT INTO outcomes ({column}, {rest}) SELECT {value}, {rest} FROM outcomes WHERE {where}")


def _edit_csv(path: Path, draw: random.Random, column: str, value: str) -> None:
    """Replace a value of a CSV, in a random row that has one."""
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    at = head.index(column)
    draw.choice([row for row in rows if row[at]])[at] = value
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def _edit_run(db: sqlite3.Connection, edit: Callable[..., None], rehash: bool = True) -> None:
    """Edit the facts of a run; by default its hash is made to agree."""
    run = json.loads(db.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()[0])
    edit(run)
    if rehash:
        run["hash"] = configuration_hash(run["config"])
        db.execute("UPDATE meta SET value = ? WHERE key = 'hash'", (json.dumps(run["hash"]),))
    db.execute("UPDATE meta SET value = ? WHERE key = 'run'", (json.dumps(run),))


def make_run(folder: Path, methods: str = METHODS) -> Path:
    """Run the benchmark in a folder, without a report, and return the folder of the run."""
    flags = f"{methods} {COMMAND} {FLAGS}".split()
    command_line = [sys.executable, "-c", WITHOUT_REPORT, *flags, "--out", "honest"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command_line, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "results" / "honest"


def forge(honest: Path, folder: Path, forgery: Forgery, draw: random.Random) -> Path:
    """Copy a run and forge it; after a change of its database, write problem sets, CSVs and `run.json` that agree with it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(honest, folder)
    if forgery in EDITS:
        forgery(folder, draw)
        return folder
    with contextlib.closing(sqlite3.connect(folder / "record.sqlite")) as db, db:
        forgery(db, draw)
        if forgery is not change_problem_set:
            _edit_run(db, lambda run: run.update(problem_sets=_problem_sets(db, run)), rehash=False)
    write_files(folder)
    return folder


def _problem_sets(db: sqlite3.Connection, run: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the SHA-256 that the stored problems of each group have."""
    query = "SELECT digest FROM problems WHERE problem LIKE ? ORDER BY problem"
    groups = {group: [digest for (digest,) in db.execute(query, (f"{group}/%",))] for group in run["problem_sets"]}
    return {group: problem_set_sha256(digests) for group, digests in groups.items()}


def write_files(folder: Path) -> None:
    """Write CSVs and `run.json` of a run from its database."""
    loaded = command.read(folder)
    aggregate.write_csvs(aggregate.tables(loaded, convention(None)), folder)
    write_atomically(folder / "run.json", json.dumps(loaded.run, indent=2, ensure_ascii=False) + "\n")


def findings_of(folder: Path, budget_s: float) -> list[verify.Finding]:
    """Return the findings on a run; outcomes are solved again if there is time."""
    return verify.verify(verify.VerifyRequest(folder, Catalog.of(), budget_s, seed=0))


def outcome_of(folder: Path) -> str:
    """Return `refused`, `method open` if the poses of a method stay unverified, or `verified`; solve again only if needed."""
    for budget_s in (0, ENOUGH_S):
        findings = findings_of(folder, budget_s)
        if any(finding.verdict is verify.Verdict.REFUSED for finding in findings):
            return REFUSED
    return OPEN if any(finding.check == verify.NOT_SOLVED for finding in findings) else VERIFIED


def run(times: int) -> None:
    """Print each kind of forgery with the number of forged runs and what became of them."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        honest = make_run(Path(place), f"{METHODS} deepgmr")
        print(f"honest run: {outcome_of(honest)}", flush=True)
        kinds = [*FORGERIES, *EDITS, *UNDECIDED, *UNSEEN]
        counts = {forgery: Counter[str]() for forgery in kinds}
        for number in range(times):
            forgery = kinds[number % len(kinds)]
            counts[forgery][outcome_of(forge(honest, Path(place) / "forged", forgery, draw))] += 1
    for forgery, found in counts.items():
        print(f"{forgery.__name__:24} " + ", ".join(f"{count} {what}" for what, count in found.items()))
    whole = sum(counts.values(), Counter[str]())
    print(f"{times} forged runs: " + ", ".join(f"{count} {what}" for what, count in whole.items()))
    print(f"{sum(os.times()[:4]):.0f} s of processor time")


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
