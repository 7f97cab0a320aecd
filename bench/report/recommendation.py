"""Which method to choose in one group: an order of methods, and a sentence that says what it comes to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd


class Standing(NamedTuple):
    """A method in one group: problems asked, recall with its 95 % interval, and the ms of a pair (NaN if not known)."""

    method: str
    problems: int
    recall: float
    low: float
    high: float
    ms: float


def ranked(standings: list[Standing]) -> list[Standing]:
    """The best recall first, of equals the faster; methods asked fewer problems than others last: five tell little."""
    most = max((s.problems for s in standings), default=0)

    def key(s: Standing) -> tuple[bool, float, float]:
        recall, ms = (math.inf if math.isnan(value) else value for value in (-s.recall, s.ms))
        return s.problems < most, recall, ms

    return sorted(standings, key=key)


def advice(order: list[Standing], named: Callable[[str], str] = str, how: str = "") -> str:
    """The best recall, and the fastest method that ever succeeds whose interval reaches the lower end of the best one's.

    Args:
        order: by `ranked`, at least one; those without a recall are left out.
        named: how a method's name is set.
        how: what kind of times they are, to stand behind the one that is told, such as " alone".
    """
    known = [s for s in order if not math.isnan(s.recall)]
    if not known:
        return ""
    best = known[0]
    if not best.recall:
        return "No method succeeds."
    first = f"Best recall: {named(best.method)} ({best.recall:.2f})."
    if all(math.isnan(s.ms) for s in known):
        return f"{first} Nothing was timed alone at this size."
    timed = [s for s in known if s.problems == best.problems and s.recall > 0 and not math.isnan(s.ms)]
    level = [s for s in timed if s.high >= best.low]
    fast = min(level, key=lambda s: s.ms, default=best)
    if fast.method == best.method:
        return f"{first} None whose interval overlaps is faster."
    told = f"{fast.ms:.0f}" if fast.ms >= 1 else f"{fast.ms:.1g}"
    return f"{first} Fastest whose interval overlaps: {named(fast.method)} ({told} ms{how})."


def alone(timing: pd.DataFrame, column: str) -> dict[tuple[str, int], float]:
    """A time in ms of `bench.evaluation.aggregate.timing`, where nothing else ran, by method and number of points."""
    alone = (timing["phase"] == "timing") & timing[column].notna()
    whole = timing[alone & (timing["angle_low"] == 0) & (timing["angle_high"] == 180)]
    return {
        (str(m), int(n)): float(ms) for m, n, ms in zip(whole["method"], whole["points"], whole[column], strict=True)
    }
