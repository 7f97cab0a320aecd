"""Synthetic run with all cases of a report: 15 methods, 3 conditions, 40 categories, failures, a hostile name."""

import hashlib
import json

import numpy as np
import pandas as pd
from scipy.spatial.transform import Rotation

from bench.evaluation.loader import POSE_COLUMNS, RunData, in_order, scenes_of

HOSTILE = "<script>alert(1)</script>"
METHODS = {  # kind, scale of the rotation error in degrees, share that fails to converge, ms at 1000 points
    "deepgmr": ("learned", 1.0, 0.01, 12.0),
    "deepgmr_untrained": ("control", 4.0, 0.45, 12.0),
    "deepgmr+icp": ("learned", 0.1, 0.01, 30.0),
    "icp": ("local", 0.2, 0.55, 23.0),
    "fgr": ("global", 2.0, 0.1, 98.0),
    "fgr+icp": ("global", 0.2, 0.1, 120.0),
    "ransac10k": ("global", 5.0, 0.06, 81.0),
    "ransac10k+icp": ("global", 0.2, 0.04, 104.0),
    "ransac10m": ("global", 4.0, 0.02, 6000.0),
    "ransac10m+icp": ("global", 0.2, 0.02, 6100.0),
    "teaser": ("global", 0.8, 0.05, 166.0),
    "identity": ("control", 0.0, 1.0, 0.1),
    "random_pose": ("control", 0.0, 1.0, 0.1),
    "index_match": ("control", 0.0, 1.0, 0.3),
    "oracle": ("control", 0.0, 0.0, 0.1),
    HOSTILE: ("global", 8.0, 0.2, 50.0),
}
NOISE = {"clean": 0.1, "noisy": 1.0, "resampled": 4.0}
CATEGORIES = [f"category {i:02d}" if i % 3 else f"flower_pot_{i}" for i in range(40)]
SYMMETRIES = ["C1", "C2", "C4", "Cinf", "Dinf", None]


def _matrices(rotvec, translation):
    T = np.tile(np.eye(4), (len(rotvec), 1, 1))
    T[:, :3, :3] = Rotation.from_rotvec(rotvec).as_matrix()
    T[:, :3, 3] = translation
    return T


def _directions(draw, n):
    v = draw.normal(size=(n, 3))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def problems_of(condition, points, n, draw):
    angle = draw.uniform(0, 180, size=n)
    length = draw.uniform(0, 0.5, size=n)
    cloud = draw.uniform(-0.7, 0.7, size=(n, 500, 3)).astype(np.float32)
    return pd.DataFrame(
        {
            "problem": [f"modelnet40/{condition}/{points}/{i:05d}" for i in range(n)],
            "dataset": "modelnet40",
            "condition": condition,
            "points": points,
            "object": [f"object_{i}" for i in range(n)],
            "category": [CATEGORIES[i % 40] for i in range(n)],
            "angle_deg": angle,
            "translation": length,
            "overlap": 1.0,
            "symmetry": [SYMMETRIES[i % 6] for i in range(n)],
            "truth": list(
                _matrices(_directions(draw, n) * np.radians(angle)[:, None], _directions(draw, n) * length[:, None])
            ),
            "source_pose": list(_matrices(_directions(draw, n) * draw.uniform(0, 3, size=(n, 1)), np.zeros((n, 3)))),
            "eval_points": list(cloud),
        }
    )


def outcomes_of(problems, name, phase, draw):
    kind, degrees, lost, ms = METHODS[name]
    n = len(problems)
    truth = np.stack(problems["truth"])
    size = np.where(draw.random(n) < lost, 90, degrees * problems["condition"].map(NOISE)) * draw.gamma(2, 0.5, size=n)
    pose = truth @ _matrices(
        _directions(draw, n) * np.radians(size)[:, None], _directions(draw, n) * (size / 2000)[:, None]
    )
    if name == "identity":
        pose = np.tile(np.eye(4), (n, 1, 1))
    status = np.full(n, "ok", dtype=object)
    if kind != "control" and name != "deepgmr":
        kinds = ["no_solution", "invalid", "error", "timeout", "crash", "out_of_memory"]
        status = np.where(draw.random(n) < 0.04, draw.choice(kinds, size=n), status)
    big = problems["points"].to_numpy() / 1000
    if name == "ransac10m" and phase == "timing":
        status = np.where(big > 3, "timeout", status)
    return pd.DataFrame(
        {
            "method": name,
            "kind": kind,
            "problem": problems["problem"],
            "repeat": 0,
            "seed": 7,
            "status": status,
            "pose": [p if s in ("ok", "invalid") else None for p, s in zip(pose, status, strict=True)],
            "time_ms": ms * big ** (1.0 if kind == "learned" else 1.3) * draw.lognormal(0, 0.1, size=n),
            "peak_mb": draw.uniform(100, 300, size=n),
            "device": "cpu",
            "threads": 1,
            "message": np.where(status == "ok", "", 'it, "broke"\non two lines'),
            "stages": [{"features": ms * 0.7, "solve": ms * 0.3} for _ in range(n)],
            "notes": [{"confidence": 0.5, "weights": "shapes40.safetensors"} if kind == "learned" else {}] * n,
            "phase": phase,
            "batch": 1,
            "gpu_memory_mb": np.nan,
            "machine": "",
            "dataset": problems["dataset"],
            "condition": problems["condition"],
            "points": problems["points"],
        }
    )


def as_loaded(problems, outcomes, run):
    """Return the frames as `bench.evaluation.loader` would read them from a results database."""
    problems = problems.sort_values("problem", ignore_index=True)
    truth, pose = (
        np.stack(problems[c].to_list()) if len(problems) else np.zeros((0, 4, 4)) for c in ("truth", "source_pose")
    )
    digest = [
        hashlib.sha256(t.tobytes() + p.tobytes()).digest() for t, p in zip(truth, problems["eval_points"], strict=True)
    ]
    none = np.full((4, 4), np.nan)
    poses = [none if p is None else p for p in outcomes["pose"]]
    flat = outcomes.drop(columns=["pose", "stages"]).assign(notes=outcomes["notes"].map(json.dumps))
    flat[POSE_COLUMNS] = np.reshape(poses, (-1, 16)) if poses else np.zeros((0, 16))
    alone = (outcomes["phase"] == "timing") & (outcomes["status"] != "skipped")
    timed = outcomes[alone if alone.any() else outcomes["phase"] == "accuracy"]
    stages = [
        (m, p, "", "cpu", stage, ms)
        for m, p, s in zip(timed["method"], timed["points"], timed["stages"], strict=True)
        for stage, ms in s.items()
    ]
    return RunData(
        problems.drop(columns=["truth", "source_pose", "eval_points"]).assign(
            digest=digest, seed=0, sampler="axis_angle"
        ),
        scenes_of(truth, pose, problems["eval_points"].to_list()),
        {},
        in_order(flat),
        pd.DataFrame(stages, columns=["method", "points", "machine", "device", "stage", "time_ms"]),
        run,
    )


def synthetic_run(n=80, sizes=(256, 1024, 4096), methods=tuple(METHODS), conditions=tuple(NOISE), seed=0):
    """Return frames of problems and outcomes and the content of run.json, see `as_loaded`.

    Each condition has n problems at 1024 points; 18 problems are timed at each size.
    """
    draw = np.random.default_rng(seed)
    accuracy = pd.concat([problems_of(c, 1024, n, draw) for c in conditions], ignore_index=True)
    alone = [
        problems_of("noisy", size, 18, draw).assign(problem=lambda d: d["problem"].str.replace("/00", "/0-180/00"))
        for size in sizes
    ]
    timing = pd.concat(alone, ignore_index=True)
    frames = [outcomes_of(accuracy, m, "accuracy", draw) for m in methods] + [
        outcomes_of(timing, m, "timing", draw) for m in methods
    ]
    skipped = (
        frames[0]
        .head(5)
        .assign(
            status="skipped",
            pose=None,
            problem=[f"none/{i}" for i in range(5)],
            condition=conditions[-1],
            points=1024,
            time_ms=np.nan,
            message="has 512 fixed points",
        )
    )
    outcomes = pd.concat([*frames, skipped], ignore_index=True).sample(frac=1, random_state=seed, ignore_index=True)
    run = {
        "command": "bench.py --methods all --datasets modelnet40",
        "config": {
            "angle_bins": [0, 30, 60, 90, 120, 150, 180],
            "angles": [0.0, 180.0],
            "threshold": 0.2,
            "seed": 0,
            "sampler": "axis_angle",
            "datasets": ["modelnet40"],
            "conditions": list(conditions),
            "points": [1024],
            "problems": n,
        },
        "problem_sets": {f"modelnet40/{c}/1024": f"{i}" * 64 for i, c in enumerate(conditions)},
        "environment": {"cpu": "a synthetic one", "python": "3.11", "packages": {"numpy": "2.4"}},
        "methods": {m: {"kind": METHODS[m][0], "doc": f"What {m} does.", "variant": {"trim": 0.3}} for m in methods},
        "unavailable": {"absent": "package 'absent' is missing; pip install absent"},
        "notes": ["modelnet40 has 2048 fixed points: resampled ran on disjoint halves"],
    }
    return pd.concat([accuracy, timing], ignore_index=True), outcomes, run
