"""Selection of the methods that a picture shows if it cannot show all: the best of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bench.report import style
from bench.report.ranking import Ranking, below_floor, pareto_front
from bench.report.recommendation import Recommendation

MOST = 8
"""Most methods in the selection."""


def best_of_each_kind(rows: Iterable[Mapping[Any, Any]], advice: Recommendation, most: int = MOST) -> list[str]:
    """Return the selected methods of a group, best first.

    They are the featured ones, the best, those on the Pareto front, then the best of each kind in turn. Of several variants of
    a family, which would look alike, these are the best.

    Args:
        rows: rows of `aggregate.summary` of the group.
        advice: ranking and times of the group; without a ranking, the order is by recall.
        most: maximum number of methods.
    """
    run = by_rank([r for r in rows if r["problems"] and r["kind"] != "control"], advice.ranking)
    order = [r for r in run if not below_floor(r)] or run
    front = {str(r["method"]) for r in pareto_front(order, advice.ms, advice.method)}
    turns: dict[str, int] = {}
    families: set[tuple[str, str]] = set()
    wanted: dict[str, tuple[bool, int, int]] = {}
    for place, row in enumerate(order):
        method, kind = str(row["method"]), str(row["kind"])
        family = kind, style.family(method)
        turn = turns.get(kind, 0)
        pinned = style.featured(method) or method in front or place == 0
        if pinned or family not in families:
            wanted[method] = (not pinned, turn, place)
        if family not in families:
            turns[kind] = turn + 1
            families.add(family)
    chosen = set(sorted(wanted, key=lambda m: wanted[m])[:most])
    return [str(r["method"]) for r in order if r["method"] in chosen]


def by_rank(rows: Iterable[Mapping[Any, Any]], ranking: Ranking | None) -> list[Mapping[Any, Any]]:
    """Return rows best first: by the ranking or else by recall; controls after the others, too few problems last."""
    order = {m: i for i, m in enumerate([*ranking.methods, *ranking.few])} if ranking else {}

    def key(row: Mapping[Any, Any]) -> tuple[bool, bool, int, float, str]:
        method, recall = str(row["method"]), float(np.nan_to_num(row.get("recall", 0.0)))
        return below_floor(row), row["kind"] == "control", order.get(method, len(order)), -recall, method

    return sorted(rows, key=key)
