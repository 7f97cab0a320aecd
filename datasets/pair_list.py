"""Pairs of a list of registration problems, in the format of the benchmark of Fontana et al. 2020 (iralabdisco)."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.kinds import DataKind
from datasets.base import Pair, PairSet
from datasets.formats import read
from datasets.poses import Matrix, inverse, move
from datasets.scans import check_rigid, in_range, no_pair

COLUMNS = ("id", "source", "target", "overlap", *(f"t{k}" for k in range(1, 13)))


class Problem(NamedTuple):
    """One line of a list; `misplacement` (4, 4) is applied to the source before the problem is solved."""

    name: str
    source: str
    target: str
    overlap: float
    misplacement: Matrix


class PairList(PairSet):
    """Real pairs of a text or CSV file with a line of column names: id, source, target, overlap, t1 … t12.

    `source` and `target` name clouds in the frame of one map. t1 … t12 are the first three rows of the motion that is applied to
    the source; the true pose undoes it. Clouds are beside the file, or in a folder with its name without `_global` or `_local`.
    Values are separated by spaces, tabs, commas or semicolons; other columns are ignored.
    """

    kind = DataKind.SCANS
    shuffled = False
    licence = "that of the clouds; the lists of the benchmark: see its repository"
    where = (
        "get the lists with the setup script of point_clouds_registration_benchmark (Fontana 2020) and give the path of one: "
        "pair_list[path=eth/plain_global.txt]"
    )
    path: str = ""
    min_overlap: float = 0.0
    max_overlap: float = 1.0

    def __len__(self) -> int:
        return len(self._problems)

    def pair(self, row: int) -> Pair:
        """Return the displaced source and the target of a line."""
        problem = self._problems[row]
        source, target = (self._cloud(name) for name in (problem.source, problem.target))
        moved, T = move(problem.misplacement, source), inverse(problem.misplacement)
        return Pair(problem.name, self._file.stem, moved, target, T, overlap=problem.overlap)

    @cached_property
    def _file(self) -> Path:
        return self.place(self.path)

    @cached_property
    def _problems(self) -> list[Problem]:
        problems = read_list(self._file)
        chosen = in_range(np.array([p.overlap for p in problems]), self.min_overlap, self.max_overlap)
        if not chosen.any():
            raise no_pair(self._file, self.min_overlap, self.max_overlap)
        return [problems[k] for k in np.flatnonzero(chosen)]

    def _cloud(self, name: str) -> NDArray[np.float64]:
        places = [self._file.parent / re.sub(r"_(global|local)$", "", self._file.stem), self._file.parent]
        for place in places:
            if (place / name).is_file():
                return _points(place / name)
        raise InputError(
            f"{self._file}: names {name}, which is neither in {places[0]} nor beside the list; copy it there"
        )


@lru_cache(maxsize=4)
def _points(file: Path) -> NDArray[np.float64]:
    return read(file).points


def read_list(file: Path) -> list[Problem]:
    """Read the problems of a list.

    Raises:
        InputError: a column is missing, a line does not fit the columns, or a motion is not rigid.
    """
    lines = [
        re.split(r"[\s,;]+", line.strip()) for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()
    ]
    head = [name.lower() for name in lines[0]] if lines else []
    if missing := [name for name in COLUMNS if name not in head]:
        raise InputError(f"{file}: no column {missing[0]} in its first line; expected are {' '.join(COLUMNS)}")
    problems = [_problem(file, number, dict(zip(head, line, strict=False))) for number, line in enumerate(lines[1:], 2)]
    check_rigid(np.array([p.misplacement for p in problems]), f"{file}: motion {{row}} (from 0)")
    return problems


def _problem(file: Path, number: int, line: dict[str, Any]) -> Problem:
    try:
        motion = np.eye(4)
        motion[:3] = np.array([float(line[name]) for name in COLUMNS[4:]]).reshape(3, 4)
        return Problem(line["id"], line["source"], line["target"], float(line["overlap"]), motion)
    except (KeyError, ValueError) as error:
        raise InputError(f"{file}: line {number} does not fit the columns of the first ({error}); fix it") from error
