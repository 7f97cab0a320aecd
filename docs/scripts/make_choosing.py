"""Write the tables of `docs/choosing.md` from the summary of a run: `python -m docs.scripts.make_choosing results/reference`."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

from bench.report import recommendation

PAGE = Path(__file__).resolve().parents[1] / "choosing.md"
BEGIN, END = "<!-- begin: ", "<!-- end -->"
Row = dict[str, str]


def tables(rows: list[Row], run: str) -> str:
    """Return a table per data set and condition, sorted by recall, with a recommendation above it."""
    cells: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        if row["kind"] != "control" and row["recall"]:
            cells.setdefault((row["dataset"], row["condition"], row["points"]), {})[row["method"]] = row
    most = max(int(row["problems"]) for row in rows)
    parts = [f"Run `{run}`, {most} problems per group; slow methods have fewer.\n"]
    return "\n".join(parts + [_table(place, some) for place, some in cells.items()])


def _table(place: tuple[str, str, str], rows: dict[str, Row]) -> str:
    order = recommendation.ranked([_standing(row) for row in rows.values()])
    name = f"## {place[0]}, {place[1]}, {place[2]} points\n"
    head = ["| method | recall (95 %) | RMSE, median | ms, timed alone | problems |", "|---|---|---|---|---|"]
    lines = [_line(one, rows[one.method]["rmse_median"]) for one in order]
    return "\n".join([name, f"{recommendation.advice(order, '**{}**'.format)}\n", *head, *lines, ""])


def _standing(row: Row) -> recommendation.Standing:
    numbers = (float(row[name] or "nan") for name in ("recall", "recall_low", "recall_high", "time_ms_median"))
    return recommendation.Standing(row["method"], int(row["problems"]), *numbers)


def _line(one: recommendation.Standing, rmse: str) -> str:
    time = "–" if math.isnan(one.ms) else f"{one.ms:.0f}"
    median = f"{float(rmse):.3g}" if rmse else "–"
    recall = f"{one.recall:.2f} ({one.low:.2f}–{one.high:.2f})"
    return f"| {one.method} | {recall} | {median} | {time} | {one.problems} |"


def filled(page: str, text: str) -> str:
    """Return the page with the text between its marks."""
    before, rest = page.split(BEGIN)
    mark, rest = rest.split("\n", 1)
    return f"{before}{BEGIN}{mark}\n{text}\n{END}{rest.split(END, 1)[1]}"


def read(file: Path) -> list[Row]:
    """Read the rows of a CSV file."""
    with file.open(newline="") as handle:
        return list(csv.DictReader(handle))


def times_alone(folder: Path) -> dict[tuple[str, str], str]:
    """Return the median time of the timing phase by method and points; accuracy times were measured beside other processes."""
    return {
        (row["method"], row["points"]): row["time_ms_median"]
        for row in read(folder / "timing.csv")
        if float(row["angle_low"]) == 0 and float(row["angle_high"]) == 180 and row["phase"] == "timing"
    }


def written(page: str, folder: Path) -> str:
    """Return the page with the tables of a run's folder."""
    times = times_alone(folder)
    rows = [r | {"time_ms_median": times.get((r["method"], r["points"]), "")} for r in read(folder / "summary.csv")]
    return filled(page, tables(rows, folder.name))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), Path(sys.argv[1])))
