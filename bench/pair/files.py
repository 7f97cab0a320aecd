"""The files of a pair: poses as text and JSON, tables as CSV, the moved source as PLY."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.result import Result
from bench.report.style import slug
from datasets.poses import move


def write_files(result: Result, folder: Path, inputs: Sequence[Path]) -> None:
    """Write `poses.json`, `poses/*.txt`, `table.csv`, `agreement.csv`, and PLYs of the source in the target's frame:
    `aligned.ply` with every point, by the pose to try first, and `aligned/*.ply` with the thinned points, by each method.
    What an earlier pair wrote here of other methods is removed, unless it is one of the inputs now.
    """
    for sub in ("poses", "aligned"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    _remove_former(folder, {file.resolve() for file in inputs})
    (folder / "poses.json").write_text(json.dumps(described(result), indent=2, ensure_ascii=False) + "\n")
    _csv(folder / "table.csv", [result.row(a) for a in result.answers])
    _csv(folder / "agreement.csv", agreement_rows(result))
    for answer in result.posed:
        assert answer.pose is not None
        pose, aligned = _files_of(answer.method, folder)
        np.savetxt(pose, answer.pose, fmt="%.12g")
        write_ply(aligned, move(answer.pose, result.scans.source.thin))
    if result.best is not None and result.best.pose is not None:
        write_ply(folder / "aligned.ply", move(result.best.pose, result.scans.source.whole))


def _files_of(method: str, folder: Path) -> tuple[Path, Path]:
    """A method's pose and the thinned source moved by it."""
    return folder / "poses" / f"{slug(method)}.txt", folder / "aligned" / f"{slug(method)}.ply"


def _remove_former(folder: Path, inputs: Set[Path]) -> None:
    """Remove what an earlier pair wrote here of methods, and nothing else: not every method has a pose again."""
    former = [folder / "aligned.ply"]
    try:
        for row in json.loads((folder / "poses.json").read_text())["methods"]:
            former += _files_of(row["method"], folder)
    except (OSError, ValueError, KeyError, TypeError):
        return
    for file in former:
        if file.resolve() not in inputs:
            file.unlink(missing_ok=True)


def described(result: Result) -> dict[str, Any]:
    """Everything but the points, as plain JSON values; what is not known is null."""
    scans = result.scans
    return {
        "source": str(scans.source.file),
        "target": str(scans.target.file),
        "source_factor": scans.factor,
        "size": scans.size,
        "spacing": scans.spacing,
        "near": scans.near,
        "alike": scans.alike,
        "notes": scans.notes,
        "verdict": result.verdict(),
        "best": result.best.method if result.best else None,
        "methods": [
            {k: _plain(v) for k, v in result.row(a).items()}
            | {"T_target_source": None if a.pose is None else a.pose.tolist(), "notes": a.notes}
            for a in result.answers
        ],
    }


def agreement_rows(result: Result) -> list[dict[str, Any]]:
    """A row for every two methods: angle in degrees, shift and distance (`bench.pair.agreement.Agreement`)."""
    names, agree = [a.method for a in result.posed], result.agreement
    return [
        {
            "method": first,
            "other": second,
            "angle_deg": float(agree.angle_deg[i, j]),
            "shift": float(agree.shift[i, j]),
            "distance": float(agree.distance[i, j]),
        }
        for i, first in enumerate(names)
        for j, second in enumerate(names)
        if i < j
    ]


def write_ply(file: Path, points: NDArray[np.float64]) -> None:
    """A binary PLY of points (N, 3) in double precision, so that coordinates of a map keep their millimetres."""
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    head += [f"property double {axis}" for axis in "xyz"] + ["end_header", ""]
    file.write_bytes("\n".join(head).encode() + np.ascontiguousarray(points, dtype="<f8").tobytes())


def _csv(file: Path, rows: list[dict[str, Any]]) -> None:
    with file.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]) if rows else ["method"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
