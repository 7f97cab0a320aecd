"""Stored problems by group. The timing phase may store further ones beside those of a group: they are in none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bench.evaluation.loader import RunData
from bench.storage.seeds import split_seed
from datasets.conditions import condition
from datasets.problems import problem_set_sha256


def rows_of_groups(loaded: RunData) -> dict[str, list[int]]:
    """Return the rows of `loaded.problems` of each group (data set/condition/points) of the run, in the order of its digest.

    These are the problems below the number that the configuration gives the group. Groups without stored problems are left
    out.
    """
    config, by_stem = loaded.run["config"], _rows_by_stem(loaded)
    low, high = config["angles"][0], config["angles"][-1]
    bounds = "" if (low, high) == (0.0, 180.0) else f"/{low:g}-{high:g}"
    groups = {}
    for name, claimed in loaded.run["problem_sets"].items():
        is_real = condition(name.split("/")[-2]).real
        stored = by_stem.get(name if is_real else name + bounds, [])
        choices = [[row for index, row in stored if index < count] for count in problem_counts(config, name)]
        if rows := next((rows for rows in choices if problem_set_of(loaded, rows) == claimed), choices[0]):
            groups[name] = rows
    return groups


def problem_set_of(loaded: RunData, rows: Sequence[int]) -> str:
    """Return the SHA-256 of the problem set of some rows of `loaded.problems`."""
    return problem_set_sha256(loaded.problems["digest"].iloc[list(rows)])


def problem_counts(config: Mapping[str, Any], group: str) -> list[int]:
    """Return the numbers of problems of a seed that a group may have by a configuration as JSON values, most likely first.

    An extra grid may limit the number. There are several if a grid asks for more points than its data set has, since its group
    then has another name than the grid gives it.
    """
    whole = config["problems"]
    named = [whole] if group in _names(config) else []
    for grid in config.get("more", []):
        count = min(grid.get("problems", whole), whole)
        named = [count, *named] if group in _names(grid) else [*named, count]
    return list(dict.fromkeys([*named, whole]))


def _names(grid: Mapping[str, Any]) -> set[str]:
    return {f"{d}/{c}/{n}" for d in grid["datasets"] for c in grid["conditions"] for n in grid["points"]}


def _rows_by_stem(loaded: RunData) -> dict[str, list[tuple[int, int]]]:
    """Return index and row of the problems of all seeds by the common part of their ids, seed by seed, ascending."""
    first, ids = loaded.run["config"]["seed"], loaded.problems["problem"].astype(str)
    by_stem = defaultdict(list)
    for row, name in enumerate(ids):
        stem, _, index = split_seed(name, first)[0].rpartition("/")
        by_stem[stem].append((name.rpartition("/")[0], int(index), row))
    return {stem: [(index, row) for _, index, row in sorted(rows)] for stem, rows in by_stem.items()}
