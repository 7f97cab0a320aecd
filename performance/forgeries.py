"""Forge runs in many ways, and count those that `bench.py verify` refuses.

    python -m performance.forgeries [TIMES]

One run is made; each forgery changes a copy of it, writes CSVs and `run.json` again, so that they agree with the forged
database, and verifies the result with every outcome solved again. Print each kind with the number of runs refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.evaluation import aggregate
from bench.evaluation.conventions import convention
from bench.planning.catalog import Catalog
from bench.planning.config import configuration_hash
from bench.report import command, verify
from common.files import write_atomically
from datasets.problems import problem_set_sha256
from performance.kills import ROOT, WITHOUT_REPORT

COMMAND = "--methods pca random_pose oracle --datasets shapes40 --conditions noisy resampled --points 64 --problems 4"
FLAGS = "--timing-rounds 0 --jobs 1"
Forgery = Callable[[sqlite3.Connection, random.Random], None]


def _row(db: sqlite3.Connection, draw: random.Random, where: str = "1") -> tuple[str, str]:
    """Return method and problem of a random outcome of the accuracy phase."""
    rows = db.execute(f"SELECT method, problem FROM outcomes WHERE phase = 'accuracy' AND {where} ORDER BY 1, 2")
    method, problem = draw.choice(rows.fetchall())
    return method, problem


def improve_pose(db: sqlite3.Connection, draw: random.Random) -> None:
    """Replace the pose of a method by the true one."""
    method, problem = _row(db, draw, "method IN ('pca', 'random_pose')")
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
    columns = [row[1] for row in db.execute("PRAGMA table_info(outcomes)")]
    rest = ", ".join(name for name in columns if name != "method")
    db.execute(f"INSERT INTO outcomes (method, {rest}) SELECT 'ours', {rest} FROM outcomes WHERE method = 'oracle'")


def turn_no_solution(db: sqlite3.Connection, draw: random.Random) -> None:
    """Declare a wrong answer to be a refusal to answer."""
    method, problem = _row(db, draw, "method = 'random_pose'")
    sql = "UPDATE outcomes SET status = 'no_solution', pose = NULL WHERE method = ? AND problem = ?"
    db.execute(sql, (method, problem))


def scale_time(db: sqlite3.Connection, draw: random.Random) -> None:
    """Halve the times of a method, which no computation can see."""
    method, _ = _row(db, draw)
    db.execute("UPDATE outcomes SET time_ms = time_ms / 2 WHERE method = ?", (method,))


FORGERIES: tuple[Forgery, ...] = (
    *(improve_pose, blend_pose, swap_truth, remove_outcome, remove_method, skip_outcome, remove_problem),
    *(claim_other_clouds, move_evaluation_points, declare_symmetry, change_category, change_angle, change_hash),
    *(change_problem_set, change_seed, rename_method, add_method, turn_no_solution),
)
"""Forgeries that must be refused."""
UNSEEN: tuple[Forgery, ...] = (scale_time,)
"""Forgeries that no computation can see."""
NEEDS_SOLVING = (improve_pose, blend_pose, rename_method, turn_no_solution)
"""Forgeries that only solving again reveals."""


def _edit_run(db: sqlite3.Connection, edit: Callable[..., None], rehash: bool = True) -> None:
    """Edit the facts of a run; by default its hash is made to agree."""
    run = json.loads(db.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()[0])
    edit(run)
    if rehash:
        run["hash"] = configuration_hash(run["config"])
        db.execute("UPDATE meta SET value = ? WHERE key = 'hash'", (json.dumps(run["hash"]),))
    db.execute("UPDATE meta SET value = ? WHERE key = 'run'", (json.dumps(run),))


def make_run(folder: Path) -> Path:
    """Run the benchmark in a folder, without a report, and return the folder of the run."""
    command_line = [sys.executable, "-c", WITHOUT_REPORT, *COMMAND.split(), *FLAGS.split(), "--out", "honest"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command_line, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "results" / "honest"


def forge(honest: Path, folder: Path, forgery: Forgery, draw: random.Random) -> Path:
    """Copy a run, forge its database, and write problem sets, CSVs and `run.json` that agree with it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(honest, folder)
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


def refusals(folder: Path, budget_s: float) -> list[str]:
    """Return the names of the checks that refuse a run; outcomes are solved again if there is time."""
    findings = verify.verify(verify.VerifyRequest(folder, Catalog.of(), budget_s, seed=0))
    return [finding.check for finding in findings if finding.verdict is verify.Verdict.REFUSED]


def run(times: int) -> None:
    """Print each kind of forgery with the number of forged runs and of those refused."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        honest = make_run(Path(place))
        print(f"honest run refused by: {refusals(honest, 1e3) or 'nothing'}")
        counts = {forgery: [0, 0] for forgery in (*FORGERIES, *UNSEEN)}
        for number in range(times):
            forgery = list(counts)[number % len(counts)]
            folder = forge(honest, Path(place) / "forged", forgery, draw)
            counts[forgery][0] += 1
            counts[forgery][1] += bool(refusals(folder, 1e3))
    for forgery, (tried, refused) in counts.items():
        print(f"{forgery.__name__:24} {refused:3} of {tried:3} refused")


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
