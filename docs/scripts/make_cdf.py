"""Draw the first picture of the README, `docs/cdf.png`, from a run: `python -m docs.scripts.make_cdf results/reference`."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from bench.evaluation.conventions import DEFAULT
from bench.report import figures, ranking, style
from bench.report.recommendation import recommend
from bench.report.selection import best_of_each_kind
from bench.report.tables import group_records
from docs.scripts.make_choosing import read_tables
from docs.scripts.pictures import save

GROUP = ("modelnet40", "resampled", 512)


def main(folder: Path, file: Path) -> None:
    """Draw the CDFs of the best methods of each kind, at most eight, on the problems without shared points."""
    summary, trials, timing = read_tables(folder)
    columns = [*summary.columns, *(n for n in ("ceiling_problems", "ceiling") if n not in summary)]
    rows = group_records(summary.reindex(columns=columns).fillna({"ceiling_problems": 0}), GROUP)
    errors = ranking.errors_of(ranking.select_group(trials, GROUP), DEFAULT)
    advice = recommend(rows, errors, timing)
    curves = ranking.select_group(pd.read_csv(folder / "cdf.csv"), GROUP)
    shown = best_of_each_kind(rows, advice)
    with style.drawing(style.Drawing(tuple(map(str, summary["method"].unique())))):
        job = figures.cdf_job(rows, curves, advice, DEFAULT, "ModelNet40, no shared points, 512 points", file, shown)
        save(job.make, job.arguments, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).resolve().parents[1] / "cdf.png")
