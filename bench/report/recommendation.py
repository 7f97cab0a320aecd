"""Recommendation of a method for one problem group: an order of methods and one sentence of advice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from bench.evaluation.aggregate import all_angles

if TYPE_CHECKING:
    import pandas as pd


class Standing(NamedTuple):
    """A method on one problem group: problems run, recall with its 95 % interval, and ms per pair (NaN if unknown)."""

    method: str
    problems: int
    recall: float
    low: float
    high: float
    ms: float


def ranked(standings: list[Standing]) -> list[Standing]:
    """Sort by recall, then time; methods run on fewer problems than others come last."""
    most = max((s.problems for s in standings), default=0)

    def key(s: Standing) -> tuple[bool, float, float]:
        recall, ms = (math.inf if math.isnan(value) else value for value in (-s.recall, s.ms))
        return s.problems < most, recall, ms

    return sorted(standings, key=key)


def advice(order: list[Standing], named: Callable[[str], str] = str, how: str = "") -> str:
    """Name the method with the best recall, and the fastest method whose interval overlaps with its interval.

    Args:
        order: from `ranked`, at least one method; methods without recall are left out.
        named: format of a method's name.
        how: text after the time that says how it was measured, such as ", timed alone".
    """
    known = [s for s in order if not math.isnan(s.recall)]
    if not known:
        return ""
    best = known[0]
    if not best.recall:
        return "No method succeeds."
    first = f"Best recall: {named(best.method)} ({best.recall:.2f})."
    if all(math.isnan(s.ms) for s in known):
        return f"{first} No method was timed alone at this size."
    timed = [s for s in known if s.problems == best.problems and s.recall > 0 and not math.isnan(s.ms)]
    level = [s for s in timed if s.high >= best.low]
    fast = min(level, key=lambda s: s.ms, default=best)
    if fast.method == best.method:
        return f"{first} None whose interval overlaps is faster."
    ms = f"{fast.ms:.0f}" if fast.ms >= 1 else f"{fast.ms:.1g}"
    return f"{first} Fastest whose interval overlaps: {named(fast.method)} ({ms} ms{how})."


def alone(timing: pd.DataFrame, column: str) -> dict[tuple[str, int], float]:
    """Return a column of `aggregate.timing` in ms of methods timed alone, by method and number of points."""
    measured = (timing["phase"] == "timing") & timing[column].notna()
    whole = timing[measured & all_angles(timing)]
    return {
        (str(m), int(n)): float(ms) for m, n, ms in zip(whole["method"], whole["points"], whole[column], strict=True)
    }
