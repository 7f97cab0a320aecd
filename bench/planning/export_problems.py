"""Write problems to an HDF5 file, which the data set `pairs` reads back bit for bit."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.planning.tasks import ProblemGroup
from common.errors import InputError, storage_error
from common.files import atomic_path
from datasets.problems import Problem, problem_set_sha256

CHUNK_BYTES = 1 << 16


def hashes(
    groups: list[ProblemGroup], visit: Callable[[Problem, ProblemGroup], None] = lambda _problem, _group: None
) -> dict[str, str]:
    """Generate the problems of every group, pass each to `visit`, and return the SHA-256 of each group's problem set."""
    digests = {}
    for group in groups:
        problems = []
        for key in group.keys:
            problem = group.problem(key)
            visit(problem, group)
            problems.append(problem.sha256())
        digests[group.name] = problem_set_sha256(problems)
    return digests


def export(file: Path, groups: list[ProblemGroup]) -> dict[str, str]:
    """Write the problems of groups to an HDF5 file; return the SHA-256 of each group's problem set.

    Fields of n problems: `source` and `target` (n, N, 3) float32, `transform` (n, 4, 4) from source to target,
    `source_pose` (n, 4, 4), `evaluation` (n, 500, 3), `information` (n, 6, 6); `source_points` and `target_points` (n,),
    the number of points of each row, after which it is NaN; and one value per problem (n,): `id`, `seed`, `cell` (name of
    the group), `domain`, `kind`, `object`, `category`, `symmetry`, `overlap`. An incomplete file is deleted.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    import h5py

    if file.exists():
        raise InputError(f"--export {file}: exists already; remove it or give another name")
    try:
        with atomic_path(file) as temporary, _CheckedFile(temporary, "w+") as stream:
            with h5py.File(stream, "w") as handle:
                writer = Writer(handle, stream.check)
                digests = hashes(groups, writer.add)
                writer.finish(digests)
            stream.check()
    except OSError as error:
        if reason := storage_error(error, file):
            raise InputError(f"--export {reason}") from error
        raise InputError(f"--export {file}: cannot be written ({error}); give another path") from error
    return digests


class _CheckedFile(io.FileIO):
    """File for HDF5 that keeps the first error instead of raising it, since HDF5 crashes if it cannot write what it holds."""

    error: OSError | None = None

    def check(self) -> None:
        """Raise the first error."""
        if self.error:
            raise self.error

    def write(self, data: Any) -> int:
        """Write all bytes; discard them after an error."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and not self.error:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Change the size of the file; do nothing after an error."""
        try:
            return super().truncate(size) if not self.error else size or 0
        except OSError as error:
            self.error = error
            return size or 0


class Writer:
    """Writer of problems to an open HDF5 file.

    Args:
        handle: the open file.
        check: raises an error of the disk; called after each problem.
    """

    def __init__(self, handle: Any, check: Callable[[], None] = lambda: None) -> None:
        self.handle, self.check = handle, check
        self.columns: dict[str, list[Any]] = {}

    def add(self, problem: Problem, group: ProblemGroup) -> None:
        """Append a problem of a group."""
        identity, seed = problem.identity
        row = {"id": identity, "seed": seed, "cell": group.name, "domain": group.domain}
        row["kind"] = group.kind.value
        row |= {"source_points": len(problem.source), "target_points": len(problem.target)}
        row |= {tag: problem.tags[tag] for tag in ("object", "category", "overlap")}
        row |= {"symmetry": problem.tags["symmetry"] or ""}
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)
        self._append("source", problem.source)
        self._append("target", problem.target)
        self._append("transform", problem.T_target_source)
        self._append("source_pose", problem.source_pose)
        self._append("evaluation", problem.evaluation_points)
        self._append("information", np.full((6, 6), np.nan) if problem.information is None else problem.information)
        self.check()

    def finish(self, problem_sets: dict[str, str]) -> None:
        """Write the fields with one value per problem, and the hashes."""
        for name, values in self.columns.items():
            self.handle.create_dataset(name, data=values)
        self.handle.attrs["problem_sets"] = json.dumps(problem_sets)

    def _append(self, name: str, array: NDArray[Any]) -> None:
        """Append a row to a field (n, N, k). The field grows to the longest row; shorter ones end with NaN."""
        length, width = array.shape
        if name not in self.handle:
            rows = max(1, CHUNK_BYTES // array.nbytes)
            layout = {"maxshape": (None, None, width), "chunks": (rows, length, width), "dtype": array.dtype}
            self.handle.create_dataset(name, (0, length, width), fillvalue=np.nan, **layout)
        field = self.handle[name]
        row = len(field)
        field.resize((row + 1, max(length, field.shape[1]), width))
        field[row, :length] = array
