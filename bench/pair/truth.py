"""True pose of a pair as people have it: text with or without brackets, JSON, NumPy; printed digits, and the wrong direction."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.agreement import fits
from bench.pair.clouds import Scans
from bench.storage.pose import pose_fault
from common.errors import InputError
from common.text import clean, counted, join_names
from datasets.poses import inverse

Matrix = NDArray[np.float64]

FIELDS = ("T_target_source", "transformation", "transform", "pose")
"""Fields of a JSON file that may contain the matrix."""
ROUNDED = 1e-2
"""Largest change of an entry by which the rotation is replaced by the nearest one."""
EXACT = 1e-6
"""Largest change of an entry that is not reported."""
MIN_GAIN = 0.2
"""Gain of overlap from which the inverse of the matrix is suggested, if its residual is also less than half."""
MAX_BYTES = 1_000_000
"""Largest file of a matrix."""
_TOKEN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[^\W\d]\w*")
_WORDS = {"array", "np", "numpy", "matrix", "tensor", "torch", "T", "pose", "dtype", "float32", "float64", *FIELDS}
"""Words that programs print beside a matrix."""


@dataclass(frozen=True, eq=False)
class Truth:
    """True pose (4, 4) from source to target, and what was done to the numbers of the file."""

    matrix: Matrix
    remarks: tuple[str, ...] = ()


def read_truth(file: Path) -> Truth:
    """Read a pose: 16 numbers, or 12 without the last row; as text (also with brackets), JSON or .npy.

    A rotation of rounded numbers is replaced by the nearest one.

    Raises:
        InputError: the file is missing, or contains no rigid matrix.
    """
    if not file.exists():
        raise InputError(f"--truth {file}: no such file; check the path")
    try:
        if (size := file.stat().st_size) > MAX_BYTES:
            raise ValueError(f"{size} bytes")
        numbers = _numbers(file)
        if numbers.size not in (12, 16):
            raise ValueError(counted(numbers.size, "number"))
        T = numbers.astype(np.float64).reshape(-1, 4)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
        raise InputError(
            f"--truth {file}: no 4 x 4 matrix ({reason}); give 16 numbers, or 12, as text or .npy, or JSON with "
            f"{', '.join(FIELDS)}"
        ) from error
    return _rigid(T if len(T) == 4 else np.vstack([T, (0, 0, 0, 1)]), file)


def _numbers(file: Path) -> NDArray[Any]:
    if file.suffix == ".npy":
        return np.asarray(np.load(file, allow_pickle=False))
    if file.suffix == ".json":
        content = json.loads(file.read_text(encoding="utf-8-sig"))
        if isinstance(content, dict):
            names = [name for name in FIELDS if name in content]
            if not names:
                raise ValueError(f"its fields are {join_names([clean(name) for name in content]) or 'none'}")
            content = content[names[0]]
        return np.array(content, dtype=np.float64)
    data = file.read_bytes()
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    tokens = _TOKEN.findall(re.sub(r"(#|//|%).*", "", text))
    words = [token for token in tokens if token[0].isalpha() or token[0] == "_"]
    if unknown := [word for word in words if word not in _WORDS]:
        raise ValueError(f"the word '{unknown[0][:40]}'")
    return np.array([token for token in tokens if token not in words], dtype=np.float64)


def _rigid(T: Matrix, file: Path) -> Truth:
    """Return the matrix with the nearest rotation, if its own is one but for rounding."""
    if np.isfinite(T).all():
        if (T[:3, 3] == 0).all() and T[3, :3].any():
            raise InputError(f"--truth {file}: the translation is in the last row; transpose the matrix")
        left, scales, right = np.linalg.svd(T[:3, :3])
        nearest = left @ right
        change = float(np.abs(nearest - T[:3, :3]).max())
        if change <= ROUNDED and np.linalg.det(nearest) > 0:
            rounded = T.copy()
            rounded[:3, :3] = nearest
            remark = f"--truth: its rotation is rounded; the nearest one is used, which differs by up to {change:.1g}"
            T, remarks = rounded, ((remark,) if change > EXACT else ())
            if not pose_fault(T):
                return Truth(T, remarks)
        elif np.linalg.det(nearest) > 0 and float(np.ptp(scales)) <= ROUNDED * scales.max():
            raise InputError(
                f"--truth {file}: the matrix is not rigid, it scales by {scales.mean():.4g}; divide by that"
            )
    fault = (pose_fault(T) or "the pose is not rigid").replace("the pose", "the matrix")
    raise InputError(f"--truth {file}: {fault}; give a rigid motion of the source in the target's unit")


def inverse_remark(scans: Scans, truth: Matrix) -> list[str]:
    """Return a suggestion if the clouds fit much better by the inverse of the true pose."""
    given, other = fits(np.array([truth, inverse(truth)]), scans.source.thin, scans.target.thin, scans.near)
    if other.overlap < given.overlap + MIN_GAIN or other.trimmed > given.trimmed / 2:
        return []
    return [
        f"--truth: by its inverse the clouds overlap {other.overlap:.0%}, by the matrix itself {given.overlap:.0%}; "
        "does it map the target into the source? It must map the source into the target"
    ]
