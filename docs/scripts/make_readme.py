"""Write the table of results in the README from a run: `python -m docs.scripts.make_readme results/reference`."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.report import paper
from docs.scripts.make_choosing import Row, filled, read, times_alone

PAGE = Path(__file__).resolve().parents[2] / "README.md"
FEW = 20
"""Methods with fewer problems come last and are marked with their number of problems."""
METHODS = (
    "deepgmr_resampled deepgmr deepgmr+icp pca fgr fgr+icp ransac10k+icp ransac10m+icp teaser kiss_matcher "
    "dcp_small prnet_small cpd hgmr fricp icp small_gicp deepgmr_untrained identity"
).split()
"""Methods shown: those of the paper and one of each kind; the report has all of them."""
HEAD = (
    "| method | noisy: recall [95 %], mean RMSE of answered | paper: RMSE / recall | resampled: recall [95 %], mean RMSE "
    "| ms per pair, 1024 points |\n|---|---|---|---|---|"
)


def table(summary: list[Row], times: dict[tuple[str, str], str], published: list[Row]) -> str:
    """Return the table of `METHODS`, sorted by recall on `resampled`, then on `noisy`."""
    rows = {(row["method"], row["condition"]): row for row in summary}
    lines = [
        (_order(*pair), _line(*pair, times.get((name, "1024"), ""), _published(published, name)))
        for name in METHODS
        if (pair := (rows[name, "noisy"], rows[name, "resampled"]))
    ]
    return "\n".join([HEAD, *(line for _, line in sorted(lines, key=lambda item: item[0]))])


def _order(noisy: Row, resampled: Row) -> tuple[bool, float, float, str]:
    few = int(resampled["problems"]) < FEW
    return few, -float(resampled["recall"]), -float(noisy["recall"]), noisy["method"]


def _line(noisy: Row, resampled: Row, time: str, published: str) -> str:
    count = int(noisy["problems"])
    name = f"`{noisy['method']}`" + (f" ({count} problems)" if count < FEW else "")
    time = f"{float(time):.2g}" if time and float(time) < 1 else f"{float(time):.0f}" if time else "–"
    return f"| {name} | {_result(noisy)} | {published} | {_result(resampled)} | {time} |"


def _result(row: Row) -> str:
    recall, low, high, rmse = (float(row[c]) for c in ("recall", "recall_low", "recall_high", "rmse_mean_answered"))
    answered = f" ({row['answered']} answered)" if int(row["answered"]) < int(row["problems"]) else ""
    return f"{recall:.2f} [{low:.2f}, {high:.2f}], {rmse:.3f}{answered}"


def _published(rows: list[Row], method: str) -> str:
    values = {
        row["metric"]: f"{float(row['value']):.2f}".lstrip("0")
        for row in rows
        if (row["table"], row["dataset"], row["condition"], row["method"])
        == ("accuracy", "modelnet40", "noisy", method)
    }
    return f"{values['rmse']} / {values['recall']}" if values else "–"


def written(page: str, folder: Path) -> str:
    """Return the page with the table of a run's folder."""
    published = read(Path(paper.__file__).with_name("paper.csv"))
    return filled(page, table(read(folder / "summary.csv"), times_alone(folder), published))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), Path(sys.argv[1])))
