"""Recommendation of a method for one problem group, and the statements that the terminal, the report and the pages share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.evaluation.aggregate import all_angles, of_one_machine
from bench.report import style
from bench.report.ranking import MIN_PROBLEMS, Errors, Ranking, by_recall
from common.devices import CPU

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5
"""Most tied methods that a sentence names."""


@dataclass(frozen=True)
class Recommendation:
    """The methods of a problem group by the rule of `ranking`, with their times.

    Attributes:
        ranking: ranked methods; None without methods or if success is undefined.
        recall: of every method.
        ms: time per pair in ms by method, where known: of those timed alone if any was, else the median of the run.
        alone: whether the times are of methods timed alone.
        devices: device by method.
    """

    ranking: Ranking | None
    recall: Mapping[str, float]
    ms: Mapping[str, float]
    alone: bool
    devices: Mapping[str, str] = field(default_factory=dict)

    @property
    def method(self) -> str | None:
        """The recommended method: the fastest of the tied."""
        return self.ranking.recommended(self.ms) if self.ranking else None

    def sentence(self, label: str = "recall", named: Callable[[str], str] = str) -> str:
        """Return the statements as one text."""
        return " ".join(f"{head}: {text}." if head else f"{text}." for head, text in self.statements(label, named))

    def statements(self, label: str = "recall", named: Callable[[str], str] = str) -> list[tuple[str, str]]:
        """Name the best methods and the recommended one, each with a head that may be empty; none if success is undefined.

        Args:
            label: name of the recall, such as `recall@0.2`.
            named: format of a method's name.
        """
        if self.ranking is None:
            return []
        if not self.ranking.methods:
            return [("", f"No method was run on {MIN_PROBLEMS} problems or more: none is ranked")]
        best, tied = self.ranking.methods[0], self.ranking.tied
        if not self.recall[best]:
            return [("", "No method succeeds")]
        if len(tied) == 1:
            against = (
                f", higher than that of every other method (p = {self.ranking.p:.1g})" if self.ranking.winner else ""
            )
            return [(f"Best {label}", f"{self._with_recall(best, named)}{against}")]
        names = ", ".join(self._with_recall(m, named) for m in tied[:NAMED]) + (", …" if len(tied) > NAMED else "")
        return [(f"Tied for the best {label}", f"{names} ({len(tied)} methods)"), self._fastest(named)]

    def _with_recall(self, method: str, named: Callable[[str], str]) -> str:
        return f"{named(method)} {self.recall[method]:.2f}"

    def _fastest(self, named: Callable[[str], str]) -> tuple[str, str]:
        """Return the statement on the recommended one of several tied methods."""
        method = self.method
        if method is None or method not in self.ms:
            return "", "The time of none is known"
        ms = f"{self.ms[method]:.0f}" if self.ms[method] >= 1 else f"{self.ms[method]:.1g}"
        place = style.gpu_mark(self.devices.get(method, CPU), " on ")
        assert self.ranking is not None
        faster = [m for m in self.ranking.worse if self.ms.get(m, np.inf) < self.ms[method]]
        but = (
            f" that loses no single test (faster, but worse in one: {', '.join(map(named, faster))})" if faster else ""
        )
        alone = ", timed alone" if self.alone else ""
        return "Recommended", f"{named(method)} ({ms} ms{place}{alone}), the fastest of them{but}"


def recommend(rows: Iterable[Mapping[Any, Any]], errors: Errors, timing: pd.DataFrame) -> Recommendation:
    """Recommend a method of a group from its rows of `aggregate.summary`, its errors and `aggregate.timing`."""
    run = {str(row["method"]): row for row in rows if row["problems"]}
    solo = alone(timing, "time_ms_median")
    ms = {m: solo[m, int(r["points"])] for m, r in run.items() if (m, int(r["points"])) in solo}
    timed_alone = any(run[m]["kind"] != "control" for m in ms)
    if not timed_alone:
        ms = {m: float(r["time_ms_median"]) for m, r in run.items() if np.isfinite(r["time_ms_median"])}
    recall = {m: float(r["recall"]) for m, r in run.items()}
    return Recommendation(by_recall(errors), recall, ms, timed_alone, style.devices_of(timing))


def alone(timing: pd.DataFrame, column: str) -> dict[tuple[str, int], float]:
    """Return a column of `aggregate.timing` in ms of methods timed alone on one machine, by method and number of points."""
    timing = of_one_machine(timing)
    measured = (timing["phase"] == "timing") & timing[column].notna()
    whole = timing[measured & all_angles(timing)]
    return {
        (str(m), int(n)): float(ms) for m, n, ms in zip(whole["method"], whole["points"], whole[column], strict=True)
    }
