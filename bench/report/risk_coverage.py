"""What a method's own confidence is worth: the share of wrong answers among those it is surest of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.figures import FigureJob, lines_of, new_figure, place_legend
from bench.report.ranking import GroupKey, group_title, select_group

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CAPTION = (
    "Risk against coverage: of the answers a method is surest of, by its own word, the share that is wrong, as ever more of the "
    "problems are accepted. A curve that starts low knows its failures; a level one says nothing. It ends where the method has "
    "no more answers, at the share that is wrong among all of them. The number is the area over chance: 1 if every right answer "
    "comes before every wrong one, 0 if the order is worthless. Confidence is never used as a score."
)


class Risk(NamedTuple):
    """Coverage and risk (n,) of one method, surest answers first, and its area over chance (NaN if all or none are right)."""

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    worth: float


def risk_of(confidence: NDArray[np.float64], wrong: NDArray[np.bool_], asked: int) -> Risk:
    """Risk against coverage of answers with a confidence (n,), of which some are wrong (n,), for `asked` problems.

    Answers of equal confidence are accepted together. The worth is Somers' D of confidence and being right.
    """
    order = np.argsort(-confidence, kind="stable")
    sure, missed = confidence[order], np.cumsum(wrong[order])
    last = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))  # of each group of equals
    return Risk((last + 1) / asked, missed[last] / (last + 1), _worth(confidence, wrong))


def _worth(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
    """2 AUC - 1 of confidence as a mark of right answers, ties counting half."""
    from scipy.stats import mannwhitneyu

    if wrong.all() or not wrong.any():
        return float("nan")
    above = mannwhitneyu(confidence[~wrong], confidence[wrong], method="asymptotic").statistic
    return float(2 * above / (wrong.sum() * (~wrong).sum()) - 1)


def confidences(loaded: RunData, trials: pd.DataFrame) -> NDArray[np.float64]:
    """What methods noted as `confidence` beside each trial (n,), NaN where nothing."""
    import orjson

    accuracy = loaded.outcomes[loaded.outcomes["phase"] == "accuracy"]
    notes = accuracy["notes"].to_numpy()[trials.index.to_numpy()]
    found = np.full(len(notes), np.nan)
    for row, text in enumerate(notes):
        if isinstance(text, str) and '"confidence"' in text:
            found[row] = float(orjson.loads(text)["confidence"])
    return found


def risks_of(
    loaded: RunData, trials: pd.DataFrame, groups: list[GroupKey], criterion: Convention, folder: Path
) -> Iterator[FigureJob]:
    """The figure of each group where a method that says how sure it is had wrong answers among right ones."""
    if not criterion.limits:
        return
    sure = trials.assign(confidence=confidences(loaded, trials))
    for group in groups:
        here = select_group(sure, group)
        asked = here[here["status"] != "skipped"]
        said = asked[(asked["status"] == "ok") & asked["confidence"].notna() & (asked["kind"] != "control")]
        found = {}
        for (method, kind), mine in said.groupby(["method", "kind"], observed=True, sort=True):
            wrong, count = criterion.success(mine) != 1, int((asked["method"] == method).sum())
            found[str(method), str(kind)] = risk_of(mine["confidence"].to_numpy(), wrong, count)
        if any(np.isfinite(risk.worth) for risk in found.values()):
            title = group_title(group)
            yield FigureJob(
                _figure, (found, criterion, title), "risk", title, CAPTION, folder / f"risk_{style.slug(*group)}"
            )


def _figure(found: dict[tuple[str, str], Risk], criterion: Convention, title: str) -> Figure:
    figure, (axes,) = new_figure(len(found))
    for method, kind in sorted(found, key=lambda mk: style.order(*mk)):
        risk = found[method, kind]
        worth = "–" if np.isnan(risk.worth) else f"{risk.worth:.2f}"
        axes.plot(
            risk.coverage, risk.risk, label=f"{worth}  {style.label(method)}", **lines_of(method, kind), markevery=0.2
        )
    axes.set(xlim=(0, 1.01), ylim=(-0.01, 1), xlabel="coverage: share of asked problems accepted")
    axes.set(ylabel=f"risk: share of them that {criterion.recall_label} does not count")
    axes.set_title(title, loc="left")
    place_legend(figure, axes)
    return figure
