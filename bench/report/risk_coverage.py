"""Risk-coverage curves: the share of wrong poses among those a method is most confident of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.figures import FigureJob, label_of, lines_of_row, new_figure, place_legend
from bench.report.ranking import GroupKey, group_title, named_rows, select_group

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CAPTION = (
    "Risk against coverage: the share of wrong poses among those with the highest reported confidence, as more problems are "
    "accepted. A curve that starts low recognises its failures; a level curve carries no information. It ends at the share of "
    "wrong poses among all poses of the method. The number is Somers' D: 1 if every correct pose has a higher confidence than "
    "every wrong one, 0 for a random order. Confidence is never used as a score."
)


class Risk(NamedTuple):
    """Coverage and risk (n,) of a method by descending confidence, and Somers' D (NaN if all or no poses are correct)."""

    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    somers_d: float


def risk_of(confidence: NDArray[np.float64], wrong: NDArray[np.bool_], problems: int) -> Risk:
    """Compute risk against coverage from the confidence (n,) and wrongness (n,) of poses, for `problems` problems run.

    Poses of equal confidence are accepted together.
    """
    order = np.argsort(-confidence, kind="stable")
    descending, errors = confidence[order], np.cumsum(wrong[order])
    last = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))  # last of each group of ties
    return Risk((last + 1) / problems, errors[last] / (last + 1), _somers_d(confidence, wrong))


def _somers_d(confidence: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
    """Compute Somers' D, 2 AUC - 1 of confidence as a classifier of correct poses; ties count half."""
    from scipy.stats import mannwhitneyu

    if wrong.all() or not wrong.any():
        return float("nan")
    above = mannwhitneyu(confidence[~wrong], confidence[wrong], method="asymptotic").statistic
    return float(2 * above / (wrong.sum() * (~wrong).sum()) - 1)


def confidences(loaded: RunData, trials: pd.DataFrame) -> NDArray[np.float64]:
    """Return the `confidence` in the notes of each trial (n,), NaN without one."""
    import orjson

    accuracy = loaded.outcomes[loaded.outcomes["phase"] == "accuracy"]
    notes = accuracy["notes"].to_numpy()[trials.index.to_numpy()]
    confidence = np.full(len(notes), np.nan)
    for row, text in enumerate(notes):
        if isinstance(text, str) and '"confidence"' in text:
            confidence[row] = float(orjson.loads(text)["confidence"])
    return confidence


def risks_of(
    loaded: RunData, trials: pd.DataFrame, groups: list[GroupKey], criterion: Convention, folder: Path
) -> Iterator[FigureJob]:
    """Yield the figure of each group in which a method with confidences had both correct and wrong poses."""
    if not criterion.limits:
        return
    with_confidence = trials.assign(confidence=confidences(loaded, trials))
    for group in groups:
        here = select_group(with_confidence, group)
        evaluated = here[here["status"] != "skipped"]
        confident = evaluated[(evaluated["status"] == "ok") & evaluated["confidence"].notna()]
        confident = confident[confident["kind"] != "control"]
        risks = []
        for method, name in named_rows(evaluated).items():
            rows = confident[confident["method"] == method]
            wrong, count = criterion.success(rows) != 1, int((evaluated["method"] == method).sum())
            if len(rows):
                risks.append((name, risk_of(rows["confidence"].to_numpy(), wrong, count)))
        if any(np.isfinite(risk.somers_d) for _, risk in risks):
            title = group_title(group)
            yield FigureJob(
                _risk_figure, (risks, criterion, title), "risk", title, CAPTION, folder / f"risk_{style.slug(*group)}"
            )


def _risk_figure(risks: list[tuple[Mapping[Any, Any], Risk]], criterion: Convention, title: str) -> Figure:
    figure, (axes,) = new_figure(len(risks))
    for row, risk in risks:
        number = "–" if np.isnan(risk.somers_d) else f"{risk.somers_d:.2f}"
        axes.plot(risk.coverage, risk.risk, label=f"{number}  {label_of(row)}", **lines_of_row(row), markevery=0.2)
    axes.set(xlim=(0, 1.01), ylim=(-0.01, 1), xlabel="coverage: share of problems accepted")
    axes.set(ylabel=f"risk: share of these not counted by {criterion.recall_label}")
    axes.set_title(title, loc="left")
    place_legend(figure, axes)
    return figure
