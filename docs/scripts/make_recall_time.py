"""Draw recall against time on scans for docs/choosing.md: `python -m docs.scripts.make_recall_time results/reference-scans`.

One picture for low and one for high overlap, `docs/recall_time_low.png` and `docs/recall_time_high.png`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.evaluation.conventions import DEFAULT
from bench.report import figures, ranking, style
from bench.report.recommendation import recommend
from bench.report.tables import group_records
from docs.scripts.make_choosing import in_words, read_tables
from docs.scripts.pictures import save

GROUPS = {
    "low": ("fragments[benchmark=3dlomatch]", "real", 4096),
    "high": ("fragments[path=3dmatch/7-scenes-redkitchen,min_overlap=0.3]", "real", 4096),
}


def main(folder: Path, place: Path) -> None:
    """Draw the pictures of a run below a folder."""
    summary, trials, timing = read_tables(folder)
    with style.drawing(style.Drawing(tuple(map(str, summary["method"].unique())))):
        for name, group in GROUPS.items():
            rows = group_records(summary, group)
            errors = ranking.errors_of(ranking.select_group(trials, group), DEFAULT)
            file = place / f"recall_time_{name}.png"
            advice = recommend(rows, errors, timing)
            if job := figures.recall_time_job(rows, advice, DEFAULT, in_words(group), file):
                save(job.make, job.arguments, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).resolve().parents[1])
