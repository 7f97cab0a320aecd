"""Output files of a pair: poses as text and JSON, tables as CSV, the moved source as PLY."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.folder import POSES, recorded_inputs
from bench.pair.result import PairResult
from bench.report.style import slug
from common.files import write_atomically
from datasets.formats import Geometry
from datasets.formats.ply import write_ply
from datasets.poses import move

NORMALS = ("nx", "ny", "nz")
"""Attributes that are the components of a normal."""


def write_files(result: PairResult, folder: Path, inputs: Sequence[Path]) -> None:
    """Write `poses.json`, `poses/*.txt`, `table.csv`, `agreement.csv`, and PLYs of the source in the target's frame.

    `aligned.ply` has all points, with their attributes and faces, moved by the best pose; it is written for a consensus only.
    `aligned/*.ply` have the subsampled points moved by each method's pose. Files of an earlier pair in this folder are removed,
    unless they are inputs now. The folder is one that `bench.pair.folder.prepare` has returned from.
    """
    _remove_earlier(folder, {file.resolve() for file in inputs})
    write_atomically(folder / POSES, json.dumps(as_json(result), indent=2, ensure_ascii=False) + "\n")
    _csv(folder / "table.csv", [result.row(a) for a in result.ranked()])
    _csv(folder / "agreement.csv", agreement_rows(result))
    for registration in result.posed:
        assert registration.pose is not None
        pose, aligned = _files_of(registration.method, folder)
        np.savetxt(pose, registration.pose, fmt="%.12g")
        write_ply(aligned, move(registration.pose, result.scans.source.thin))
    if result.best is not None and result.best.pose is not None:
        write_moved(folder / "aligned.ply", result.scans.source.geometry, result.best.pose)


def _files_of(method: str, folder: Path) -> tuple[Path, Path]:
    """Return the paths of a method's pose and of the source moved by it."""
    return folder / "poses" / f"{slug(method)}.txt", folder / "aligned" / f"{slug(method)}.ply"


def _remove_earlier(folder: Path, inputs: Set[Path]) -> None:
    """Remove the files per method of an earlier pair, since its methods may have no pose this time."""
    earlier = [folder / "aligned.ply"]
    try:
        for row in json.loads((folder / POSES).read_text(encoding="utf-8"))["methods"]:
            earlier += _files_of(row["method"], folder)
    except (OSError, ValueError, KeyError, TypeError):
        return
    for file in earlier:
        if file.resolve() not in inputs:
            file.unlink(missing_ok=True)


def as_json(result: PairResult) -> dict[str, Any]:
    """Return all results except the points as JSON values; unknown values are null."""
    scans = result.scans
    return recorded_inputs(scans.source.file, scans.target.file) | {
        "kind": scans.kind.value,
        "source_factor": scans.factor,
        "size": scans.size,
        "spacing": scans.spacing,
        "near": scans.near,
        "alike": scans.alike,
        "alike_deg": scans.alike_deg,
        "notes": scans.notes,
        "verdict": result.verdict(),
        "grade": result.grade.name,
        "probability": result.grade.probability,
        "reasons": list(result.grade.reasons),
        "open_motions": [str(motion) for motion in result.grade.freedom.motions],
        "evidence": asdict(result.grade.evidence) if result.grade.evidence else None,
        "candidate": result.candidate.method if result.candidate else None,
        "best": result.best.method if result.best else None,
        "methods": [
            {k: _plain(v) for k, v in result.row(a).items()}
            | {"T_target_source": None if a.pose is None else a.pose.tolist(), "notes": a.notes}
            for a in result.ranked()
        ],
    }


def agreement_rows(result: PairResult) -> list[dict[str, Any]]:
    """Return one row for every two methods: angle in degrees, shift and distance (`bench.pair.agreement.Agreement`)."""
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


def write_moved(file: Path, geometry: Geometry, pose: NDArray[np.float64]) -> None:
    """Write a geometry moved by a pose (4, 4) as PLY, with all attributes and faces; normals are rotated."""
    columns = dict(geometry.columns)
    if all(name in columns for name in NORMALS):
        rotated = np.column_stack([columns[name] for name in NORMALS]) @ pose[:3, :3].T
        columns |= {name: rotated[:, k].astype(columns[name].dtype) for k, name in enumerate(NORMALS)}
    write_ply(file, move(pose, geometry.points), columns, geometry.faces)


def _csv(file: Path, rows: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(file, text.getvalue())


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
