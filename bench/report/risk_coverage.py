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
from bench.report.jobs import FigureJob
from bench.report.panels import LineEnd, label_ends, lines_of_row, new_figure, put_title, wrapped
from bench.report.ranking import GROUP_KEY_COLUMNS, GroupKey, below_floor, group_title, named_rows, select_group

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CAPTION = (
    "The share of accepted answers that are wrong, if a method accepts the answers that it is most confident of, as more "
    "problems are accepted. A curve that starts low recognises its failures; a level curve carries no information. It ends at "
    "the share of wrong answers among all answers of the method. The number behind a name is Somers' D: 1 if every right "
    "answer has a higher confidence than every wrong one, 0 for a random order. Confidence is never used as a score. Methods "
    "that report no confidence are not drawn."
)


_PARSED = 1_000
"""Number of notes that are parsed at once."""


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
    if wrong.all() or not wrong.any():
        return float("nan")
    _, place, count = np.unique(confidence, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]  # ties share their mean rank
    right = int((~wrong).sum())
    above = ranks[~wrong].sum() - right * (right + 1) / 2
    return float(2 * above / (wrong.sum() * right) - 1)


def confidences(loaded: RunData, trials: pd.DataFrame) -> NDArray[np.float64]:
    """Return the `confidence` in the notes of each trial (n,), NaN without one."""
    import orjson

    accuracy = (loaded.outcomes["phase"] == "accuracy").to_numpy()
    notes = loaded.outcomes["notes"].to_numpy()[accuracy][trials.index.to_numpy()]
    confidence = np.full(len(notes), np.nan)
    rows = [row for row, text in enumerate(notes) if isinstance(text, str) and '"confidence"' in text]
    for some in (rows[start : start + _PARSED] for start in range(0, len(rows), _PARSED)):
        parsed = orjson.loads("[" + ",".join(notes[some]) + "]")
        confidence[some] = [float(note["confidence"]) for note in parsed]
    return confidence


def risks_of(
    loaded: RunData, trials: pd.DataFrame, groups: list[GroupKey], criterion: Convention, folder: Path
) -> Iterator[FigureJob]:
    """Yield the figure of each group in which a method with confidences had both correct and wrong poses."""
    if not criterion.limits:
        return
    columns = [*GROUP_KEY_COLUMNS, "method", "kind", "problem", "status", *criterion.columns]
    with_confidence = trials[columns].assign(confidence=confidences(loaded, trials))
    for group in groups:
        here = select_group(with_confidence, group)
        evaluated = here[here["status"] != "skipped"]
        confident = evaluated[(evaluated["status"] == "ok") & evaluated["confidence"].notna()]
        confident = confident[confident["kind"] != "control"]
        risks = []
        for method, name in named_rows(evaluated).items():
            rows = confident[confident["method"] == method]
            wrong, count = criterion.success(rows) != 1, int((evaluated["method"] == method).sum())
            if len(rows) and not below_floor(name):
                risks.append((name, risk_of(rows["confidence"].to_numpy(), wrong, count)))
        if any(np.isfinite(risk.somers_d) for _, risk in risks):
            where, stem = group_title(group), folder / f"risk_{style.slug(*group)}"
            values = "; ".join(f"{row['method']} {style.number(risk.somers_d, 2)}" for row, risk in risks)
            alt, title = f"Somers' D of the confidences: {values}.", f"Wrong answers among those accepted · {where}"
            yield FigureJob(_risk_figure, (risks, criterion, where), "risk", title, CAPTION, stem, alt)


def _risk_figure(risks: list[tuple[Mapping[Any, Any], Risk]], criterion: Convention, where: str) -> Figure:
    figure, ((axes,),) = new_figure(1, 1, 2.6)
    label = "share of problems accepted, the most confident answers first"
    axes.set(xlim=(0, 1), ylim=(-0.01, 1), xlabel=wrapped(label, style.figure_width() - 1.1, 8))
    axes.set_ylabel(
        "share of accepted answers\nthat are wrong" + (f" ({criterion.recall_label})" if criterion.limits else "")
    )
    ends = []
    for row, risk in risks:
        axes.plot(risk.coverage, risk.risk, **(lines_of_row(row) | {"marker": ""}))
        name = f"{style.label(str(row['method']), 22)} {style.number(risk.somers_d, 2)}"
        ends.append(LineEnd(float(risk.risk[-1]), name, lines_of_row(row)))
    label_ends(axes, sorted(ends, key=lambda end: -end.y), 2.0)
    put_title(figure, "Share of accepted answers that are wrong", where)
    return figure
