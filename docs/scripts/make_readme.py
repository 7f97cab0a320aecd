"""Write the table of results in the README from a run: `python -m docs.scripts.make_readme results/reference`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.report import paper, ranking
from bench.report.recommendation import alone
from docs.scripts.make_choosing import filled, read_tables

PAGE = Path(__file__).resolve().parents[2] / "README.md"
METHODS = "so3_grid deepgmr_resampled deepgmr pca fgr+icp ransac10k+icp teaser hgmr icp".split()
"""Methods shown: the reference, its variant for scans, and the best known of each kind; the report has all of them."""
HEAD = (
    "| method | noisy: recall / mean RMSE | the same in the paper | resampled: recall / mean RMSE | ms per pair, 1024 points |"
    "\n|---|---|---|---|---|"
)
Row = Mapping[Any, Any]


def table(summary: pd.DataFrame, timing: pd.DataFrame, published: pd.DataFrame) -> str:
    """Return the table of `METHODS`, sorted by recall on `resampled`, then on `noisy`; small groups come last."""
    rows = {(row["method"], row["condition"]): row for row in summary.to_dict("records")}
    pairs = sorted(((rows[m, "noisy"], rows[m, "resampled"]) for m in METHODS), key=lambda pair: _order(*pair))
    times = alone(timing, "time_ms_median")
    return "\n".join([HEAD, *(_line(noisy, resampled, times, published) for noisy, resampled in pairs)])


def _order(noisy: Row, resampled: Row) -> tuple[bool, float, float, str]:
    return ranking.below_floor(resampled), -resampled["recall"], -noisy["recall"], noisy["method"]


def _line(noisy: Row, resampled: Row, times: Mapping[tuple[str, int], float], published: pd.DataFrame) -> str:
    method = noisy["method"]
    name = ranking.display_name(noisy).replace(method, f"`{method}`", 1)
    ms = _time(times.get((method, 1024), float("nan")))
    return f"| {name} | {_result(noisy)} | {_published(published, method)} | {_result(resampled)} | {ms} |"


def _time(ms: float) -> str:
    return "–" if ms != ms else f"{ms:.2g}" if ms < 1 else f"{ms:.0f}"


def _result(row: Row) -> str:
    return f"{row['recall']:.2f} / {row['rmse_mean_answered']:.3f}"


def _published(rows: pd.DataFrame, method: str) -> str:
    shown = rows[(rows.table == "accuracy") & (rows.dataset == "modelnet40") & (rows.condition == "noisy")]
    values = shown[shown.method == method].set_index("metric").value
    return " / ".join(f"{float(values[name]):.2f}" for name in ("recall", "rmse")) if len(values) else "–"


def written(page: str, folder: Path) -> str:
    """Return the page with the table of a run's folder."""
    summary, _, timing = read_tables(folder)
    return filled(page, table(summary, timing, pd.read_csv(Path(paper.__file__).with_name("paper.csv"))))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), Path(sys.argv[1])))
