"""Compare the answers of two runs on the same problems, such as a committed run and one made on another processor.

    python -m performance.same_answers RUN RUN

Print for each method that answered in one of them: problems, the share with the same status and pose, the recall of both runs
over all groups, and the number of problems that one of them solves and the other does not. Success is an RMSE below 0.2.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import bench
from bench.evaluation.loader import POSE_COLUMNS
from bench.report.solve_again import TOLERANCE

KEY = ["dataset", "condition", "points", "problem", "repeat", "method"]
THRESHOLD = 0.2
"""RMSE below which a pose is a success."""


def answers(run: bench.RunTables) -> pd.DataFrame:
    """Return status, pose and RMSE of each problem and method of a run."""
    poses = run.poses[run.poses["phase"] == "accuracy"]
    return poses[[*KEY, "status", *POSE_COLUMNS]].merge(run.trials[[*KEY, "rmse"]], on=KEY)


def main(first: str, second: str) -> None:
    """Print the comparison."""
    runs = [bench.load(name) for name in (first, second)]
    sets, processors = ([run.run[name] for run in runs] for name in ("problem_sets", "environment"))
    print("problems:", "the same" if sets[0] == sets[1] else "different")
    print("processors:", " | ".join(facts["cpu"] for facts in processors))
    given = [answers(run) for run in runs]
    both = given[0].merge(given[1], on=KEY, suffixes=("_1", "_2"), validate="1:1").set_index(KEY)
    for number, mine in enumerate(given, 1):
        if len(mine) > len(both):
            print(f"only in run {number}: {len(mine) - len(both)} outcomes of {', '.join(alone(mine, both))}")
    one, two = (both[[f"{name}_{k}" for name in POSE_COLUMNS]].to_numpy() for k in (1, 2))
    near = np.isclose(one, two, rtol=0, atol=TOLERANCE, equal_nan=True).all(axis=1)
    solved = [both[f"rmse_{k}"] < THRESHOLD for k in (1, 2)]
    columns = {"same": near & (both["status_1"] == both["status_2"]), "first": solved[0], "second": solved[1]}
    answered = (both["status_1"] == "ok") | (both["status_2"] == "ok")
    table = pd.DataFrame(columns | {"differ": solved[0] != solved[1], "answered": answered}).groupby("method")
    print(f"{'method':34}{'problems':>9}{'same':>7}{'recall':>8}{'recall':>8}{'differ':>8}")
    for method, rows in table:
        if rows["answered"].any():
            shares = rows[["same", "first", "second"]].mean()
            print(
                f"{method:34}{len(rows):9}{shares['same']:7.3f}{shares['first']:8.3f}{shares['second']:8.3f}"
                f"{rows['differ'].sum():8}"
            )


def alone(mine: pd.DataFrame, both: pd.DataFrame) -> list[str]:
    """Return the methods with outcomes that are not in both runs."""
    return sorted(set(mine.set_index(KEY).index.difference(both.index).get_level_values("method")))


if __name__ == "__main__":
    main(*sys.argv[1:])
