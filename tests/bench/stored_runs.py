"""Synthetic runs written to results databases, and changes of their outcomes."""

import dataclasses
import json

import numpy as np

from bench.evaluation.loader import POSE_COLUMNS
from bench.storage.database import ResultsDatabase

_OUTCOME = ["phase", "method", "problem", "repeat", "kind", "dataset", "condition", "points", "seed", "status"]
_REST = ["time_ms", "peak_mb", "device", "threads", "message"]
_ORDER = [*_OUTCOME, "pose", *_REST, "stages", "notes"]


def write_record(run, folder, clouds=64):
    """Write the results database of a `RunData` run with `clouds` random evaluation points per problem."""
    record = ResultsDatabase(folder / "record.sqlite")
    record.put("run", run.run)
    record.put("hash", "synthetic")
    draw = np.random.default_rng(0)
    tags = ["problem", "dataset", "condition", "points", "object", "category", "angle_deg", "translation", "overlap"]
    problems = [
        (
            *(None if v is None or v != v else v for v in row),
            *(run.scenes.truth[i].tobytes(), run.scenes.source_pose[i].tobytes()),
            draw.uniform(-0.7, 0.7, (clouds, 3)).astype(np.float32).tobytes(),
            *(run.problems["digest"].iloc[i], run.information[i].tobytes() if i in run.information else None),
        )
        for i, row in enumerate(run.problems[[*tags, "symmetry"]].itertuples(index=False, name=None))
    ]
    stages = {"features": 7.0, "solve": 3.0}
    poses = run.outcomes[POSE_COLUMNS].to_numpy()
    plain = run.outcomes[[*_OUTCOME, *_REST, "notes"]].astype(object).itertuples(index=False, name=None)
    rows = [
        (*row[:10], None if np.isnan(pose[0]) else pose.tobytes(), *row[10:15], json.dumps(stages), row[15])
        for row, pose in zip(plain, poses, strict=True)
    ]
    with record.db:
        columns = [*tags, "symmetry", "truth", "source_pose", "eval_points", "digest", "information"]
        record.db.executemany(
            f"INSERT INTO problems ({','.join(columns)}) VALUES ({','.join('?' * 15)})", problems
        )  # as versions without the column `moments` stored them
        record.db.executemany(f"INSERT INTO outcomes ({','.join(_ORDER)}) VALUES ({','.join('?' * 18)})", rows)
    record.close()


def changed(run, method, condition, move=0.0, share=0.0, fail=0.0):
    """The run with some of a method's answers moved, spoilt or lost."""
    o = run.outcomes.copy()
    mine = np.flatnonzero((o["method"] == method) & (o["condition"] == condition) & (o["phase"] == "accuracy"))
    o.loc[mine, "t03"] += move
    o.loc[mine[: int(share * len(mine))], "t03"] += 5
    o.loc[mine[: int(fail * len(mine))], "status"] = "timeout"
    return dataclasses.replace(run, outcomes=o)
