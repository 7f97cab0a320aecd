"""A run on problems of the embedded data set, which can be generated again."""

import numpy as np
import pandas as pd
from scipy.spatial.transform import Rotation

from bench.evaluation.loader import POSE_COLUMNS, RunData, in_order, scenes_of
from datasets.problems import ProblemKey, make_problem
from tests.catalog import open_data


def real_run(condition):
    """A run of two methods, the truth and a quarter turn, on four real problems of the embedded set."""
    data = open_data("shapes40")
    problems = [make_problem(data, ProblemKey("shapes40", condition, 128, i, 3)) for i in range(4)]
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec([0, 0, np.pi / 2]).as_matrix()
    rows = [
        {"method": m, "problem": p.key.id, "pose": p.T_target_source @ (turn if m == "turned" else np.eye(4))}
        for m in ("exact", "turned")
        for p in problems
    ]
    outcomes = pd.DataFrame(rows).assign(
        kind="global",
        repeat=0,
        seed=3,
        status="ok",
        time_ms=1.0,
        peak_mb=1.0,
        device="cpu",
        threads=1,
        message="",
        notes="{}",
        phase="accuracy",
        dataset="shapes40",
        condition=condition,
        points=128,
        batch=1,
        gpu_memory_mb=np.nan,
        machine="",
    )
    outcomes[POSE_COLUMNS] = np.stack(outcomes.pop("pose").to_list()).reshape(-1, 16)
    keys = ["problem", "dataset", "condition", "points", "digest", "seed", "sampler"]
    tags = [
        dict(zip(keys, (p.key.id, "shapes40", condition, 128, p.sha256(), 3, "axis_angle"), strict=True)) | p.tags
        for p in problems
    ]
    truth, pose = (np.stack([getattr(p, n) for p in problems]) for n in ("T_target_source", "source_pose"))
    scenes = scenes_of(truth, pose, [p.evaluation_points for p in problems])
    return RunData(pd.DataFrame(tags), scenes, {}, in_order(outcomes), pd.DataFrame(), {"config": {}})
