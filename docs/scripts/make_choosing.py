"""Write the tables of `docs/choosing.md` from the CSVs of runs, scans first.

python -m docs.scripts.make_choosing results/reference-scans results/reference
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.evaluation.conventions import DEFAULT
from bench.report import ranking, style
from bench.report.ranking import groups_of
from bench.report.recommendation import Recommendation, recommend

PAGE = Path(__file__).resolve().parents[1] / "choosing.md"
RUNS = ("reference-scans", "reference")
"""Names of the runs of the page, in its order."""
BUDGETS_MS = (10, 50, 200)
"""Times within which the best method of each group is named."""
DATA_SETS = {
    "fragments[benchmark=3dlomatch]": "Scans of rooms, overlap from 10 to 30 %",
    "fragments[path=3dmatch/7-scenes-redkitchen,min_overlap=0.3]": "Scans of a kitchen, overlap of 30 % or more",
    "fragments[path=3dmatch/sun3d-hotel_umd-maryland_hotel3,min_overlap=0.3]": "Scans of a hotel, overlap of 30 % or more",
    "modelnet40": "Whole objects",
}
CONDITIONS = {"clean": "same points", "noisy": "same points with noise", "resampled": "resampled surface", "real": ""}
"""Words for data sets and conditions; others are named as they are."""
BEGIN, END = "<!-- begin: ", "<!-- end -->"


def tables(summary: pd.DataFrame, trials: pd.DataFrame, timing: pd.DataFrame, run: str) -> str:
    """Return a table per problem group, in the order of the ranking, with the recommendation above it."""
    parts = [f"Run `{run}`, up to {summary['problems'].max()} problems per group.\n"]
    for group in groups_of(summary):
        shown = ranking.select_group(summary, group)
        rows = {str(r["method"]): r for r in ranking.display_rows(shown) if r["problems"] and r["kind"] != "control"}
        errors = ranking.errors_of(ranking.select_group(trials, group), DEFAULT)
        parts.append(_table(group, rows, recommend(rows.values(), errors, timing)))
    return "\n".join(parts)


def in_words(group: ranking.GroupKey) -> str:
    """Return what the clouds of a group are in words that need no knowledge of the names of data sets.

    >>> in_words(("modelnet40", "resampled", 1024))
    'Whole objects, resampled surface, 1 024 points'
    """
    dataset, condition, points = group
    what = DATA_SETS.get(dataset, dataset), CONDITIONS.get(condition, condition), f"{points:,} points".replace(",", " ")
    return ", ".join(filter(None, what))


def _table(group: ranking.GroupKey, rows: dict[str, Mapping[Any, Any]], recommendation: Recommendation) -> str:
    order = recommendation.ranking
    how = "timed alone" if recommendation.alone else "during the run"
    head = [
        f"| method | recall (95 %) | RMSE, median | ms, {how} | problems | without a pose |",
        "|---|---|---|---|---|---|",
    ]
    lines = [_line(rows[m], recommendation.ms) for m in [*order.methods, *order.few]] if order else []
    title = f"## {in_words(group)}\n\n<small>`{group[0]}`, `{group[1]}`, {group[2]} points</small>\n"
    advice = f"{recommendation.sentence(named='**{}**'.format)} {_within_budgets(recommendation)}\n"
    return "\n".join([title, advice, *head, *lines, ""])


def _within_budgets(recommendation: Recommendation) -> str:
    """Return a sentence with the highest recall that a method has within each time."""
    parts = []
    for budget in BUDGETS_MS:
        methods = recommendation.ranking.methods if recommendation.ranking else ()
        fast = [m for m in methods if recommendation.ms.get(m, np.inf) <= budget]
        best = max(fast, key=recommendation.recall.__getitem__, default=None)
        parts.append(f"{budget} ms: {f'**{best}** {recommendation.recall[best]:.2f}' if best else 'none'}")
    return f"Highest recall within {', '.join(parts)}."


def _line(row: Mapping[Any, Any], ms: Any) -> str:
    time = f"{ms[row['method']]:.0f}" if row["method"] in ms else "–"
    recall = f"{row['recall']:.2f} ({row['recall_low']:.2f}–{row['recall_high']:.2f})"
    median = f"{row['rmse_median']:.3g}" if np.isfinite(row["rmse_median"]) else style.number(row["rmse_median"])
    without = row["problems"] - row["answered"]
    return f"| {ranking.display_name(row)} | {recall} | {median} | {time} | {row['problems']} | {without} |"


def read_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read summary, trials and times of a run."""
    summary, trials, timing = (
        pd.read_csv(folder / f"{name}.csv", low_memory=False) for name in ("summary", "trials", "timing")
    )
    return summary, trials, timing


def filled(page: str, text: str) -> str:
    """Return the page with the text between its marks."""
    before, rest = page.split(BEGIN)
    mark, rest = rest.split("\n", 1)
    return f"{before}{BEGIN}{mark}\n{text}\n{END}{rest.split(END, 1)[1]}"


def written(page: str, *folders: Path) -> str:
    """Return the page with the tables of the folders of runs."""
    return filled(page, "\n".join(tables(*read_tables(folder), folder.name) for folder in folders))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), *map(Path, sys.argv[1:])))
