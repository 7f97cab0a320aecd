"""Generate problems of every condition, sampler and kind of data set, and of a room, and print their digests as JSON.

Arguments of `python -m tests.datasets.problem_digests`: the data root (see `write`), and the order, "forward" or "backward".
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from datasets.indoor.camera import Camera
from datasets.problems import ProblemKey, make_problem
from datasets.rooms import scene_arrays
from tests.catalog import open_data

CONDITIONS = ("clean", "noisy", "unseen", "resampled", "partial", "outliers", "density", "crop", "nearest")
SAMPLERS = {
    "axis_angle": (0.0, 180.0),
    "haar": (90.0, 150.0),
    "euler45": (10.0, 40.0),
    "euler45_box": (10.0, 40.0),
    "euler180_box": (0.0, 180.0),
}
FIXED = ("clean", "outliers", "resampled", "partial[visibility=hpr]", "crop[keep=0.5,unseen=false]", "nearest[sigma=0]")
OBJECTS = ("modelnet40[layout=points]", "modelnet40[layout=meshes]", "folder[path=clouds]", "icl_nuim")
PAIRS = (
    "icl_nuim_pairs[min_overlap=0.0,near=0.5]",
    "stanford[min_overlap=0.0,near=0.3]",
    "fragments[path=rooms,adjacent=true]",
    "pairs[path=pairs.h5]",
)


def keys() -> list[ProblemKey]:
    """Return the keys of all problems."""
    problems = [ProblemKey("shapes40", name, 256, index) for name in CONDITIONS for index in range(3)]
    problems += [ProblemKey("shapes40", "noisy", 64, 40 + index) for index in range(40)]  # of every category
    problems += [ProblemKey("shapes40", "clean", 64, 7, 3, "train", s, angles) for s, angles in SAMPLERS.items()]
    problems += [ProblemKey("modelnet40[layout=points]", name, 128, 1) for name in FIXED]
    problems += [ProblemKey(name, "noisy", 100, index) for name in OBJECTS for index in range(2)]
    problems += [ProblemKey(name, "real", 400, index) for name in PAIRS for index in range(2)]
    return problems


def digest(key: ProblemKey, root: Path) -> str:
    """Compute the SHA-256 of a problem, its evaluation points, the pose of its source and its numbers."""
    problem = make_problem(open_data(key.dataset, root), key)
    numbers = [problem.tags[name] for name in ("angle_deg", "translation", "overlap")]
    parts = problem.evaluation_points, problem.source_pose, np.array(numbers, dtype=np.float64)
    return hashlib.sha256(problem.sha256() + b"".join(part.tobytes() for part in parts)).hexdigest()


def rooms_digest() -> str:
    """Return the SHA-256 of a scene of `rooms` as a camera with few pixels and frames sees it."""
    arrays = scene_arrays("test", 3, Camera(width=48, height=36, focal=44.0), frames=4, least=200)
    names = ("points", "start", "poses", "pairs", "overlap", "information")
    return hashlib.sha256(b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in names)).hexdigest()


def write(root: Path) -> None:
    """Write small data sets in every supported layout: HDF5, OFF, clouds, depth images and scans with poses."""
    import h5py
    from PIL import Image

    rng = np.random.default_rng(0)
    points, meshes = (root / "modelnet40" / name for name in ("modelnet40_ply_hdf5_2048", "ModelNet40/chair/test"))
    clouds, frames, scans, rooms = (root / name for name in ("clouds", "icl_nuim/box/depth", "stanford", "rooms"))
    for folder in (points, meshes, clouds, frames, scans, rooms):
        folder.mkdir(parents=True)
    with h5py.File(points / "ply_data_test0.h5", "w") as file:
        file["data"], file["label"] = rng.uniform(-0.5, 0.5, (3, 300, 3)).astype(np.float32), np.array([[1], [2], [3]])
    for name in "ab":
        mesh = "\n".join(" ".join(map(repr, row)) for row in rng.uniform(-9, 9, (40, 3)).tolist())
        faces = "\n".join(f"3 {i} {i + 1} {i + 2}" for i in range(38))
        (meshes / f"chair_000{name}.off").write_text(f"OFF\n40 38 0\n{mesh}\n{faces}\n")
        np.save(clouds / f"{name}.npy", rng.uniform(3, 7, (211, 3)))
    poses = rng.uniform(-1, 1, (3, 7)).tolist()
    v, u = np.mgrid[:480:1.0, :640:1.0]
    for number in range(len(poses)):
        Image.fromarray((9000 + 5 * u + 3 * v + 100 * number).astype(np.uint16)).save(frames / f"{number}.png")
        for name in (scans / f"{number}.ply", rooms / f"cloud_bin_{number}.ply"):
            rows = "\n".join(" ".join(map(repr, row)) for row in rng.uniform(0, 1, (500, 3)).tolist())
            head = "ply\nformat ascii 1.0\nelement vertex 500\n" + "".join(f"property double {c}\n" for c in "xyz")
            name.write_text(f"{head}end_header\n{rows}\n")
    lines = [" ".join(map(repr, pose)) for pose in poses]
    (frames.parent / "a.gt.freiburg").write_text("".join(f"{n} {line}\n" for n, line in enumerate(lines)))
    (scans / "a.conf").write_text("".join(f"bmesh {n}.ply {line}\n" for n, line in enumerate(lines)))
    shift = np.eye(4)
    shift[:3, 3] = 0.1, 0.2, 0.3
    matrix = "\n".join(" ".join(map(repr, row)) for row in shift.tolist())
    (rooms / "gt.log").write_text("".join(f"{i} {j} 3\n{matrix}\n" for i, j in ((0, 1), (1, 2), (0, 2))))
    with h5py.File(root / "pairs.h5", "w") as file:
        file["source"], file["target"] = rng.random((2, 3, 700, 3), dtype=np.float32)
        file["transform"] = np.stack([shift] * 3)


if __name__ == "__main__":
    order = 1 if sys.argv[2] == "forward" else -1
    digests = [digest(key, Path(sys.argv[1])) for key in keys()[::order]]
    print(json.dumps([*digests[::order], rooms_digest()]))
