"""Selection of the methods that a picture shows if it cannot show all: the best of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bench.report import style
from bench.report.ranking import Ranking, below_floor

PER_KIND = 2
"""Methods of each kind in the selection, each of another family, beside the best ones and the featured ones."""
MOST = 8
"""Most methods in the selection."""


def best_of_each_kind(rows: Iterable[Mapping[Any, Any]], ranking: Ranking | None, most: int = MOST) -> list[str]:
    """Return the selected methods of a group, best first: featured ones, the best, then the best of each kind in turn.

    Of several variants of a family, which would look alike, the best is selected.

    Args:
        rows: rows of `aggregate.summary` of the group.
        ranking: ranking of the group; without one, the order is by recall.
        most: maximum number of methods.
    """
    run = by_rank([r for r in rows if r["problems"] and r["kind"] != "control"], ranking)
    order = [r for r in run if not below_floor(r)] or run
    turns: dict[str, int] = {}
    families: set[tuple[str, str]] = set()
    wanted: dict[str, tuple[bool, int, int]] = {}
    for place, row in enumerate(order):
        method, kind = str(row["method"]), str(row["kind"])
        family = kind, style.family(method)
        turn = PER_KIND if family in families else turns.get(kind, 0)
        if family not in families:
            turns[kind] = turn + 1
            families.add(family)
        if turn < PER_KIND or style.featured(method) or place == 0:
            wanted[method] = (not style.featured(method), turn, place)
    chosen = set(sorted(wanted, key=lambda m: wanted[m])[:most])
    return [str(r["method"]) for r in order if r["method"] in chosen]


def by_rank(rows: Iterable[Mapping[Any, Any]], ranking: Ranking | None) -> list[Mapping[Any, Any]]:
    """Return rows best first: by the ranking or else by recall; controls after the others, too few problems last."""
    order = {m: i for i, m in enumerate([*ranking.methods, *ranking.few])} if ranking else {}

    def key(row: Mapping[Any, Any]) -> tuple[bool, bool, int, float, str]:
        method, recall = str(row["method"]), float(np.nan_to_num(row.get("recall", 0.0)))
        return below_floor(row), row["kind"] == "control", order.get(method, len(order)), -recall, method

    return sorted(rows, key=key)
