"""Write the tables of `docs/choosing.md` from the summary of a run: `python -m docs.make_choosing results/reference`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "choosing.md"
BEGIN, END = "<!-- begin: ", "<!-- end -->"
Row = dict[str, str]


def tables(rows: list[Row], run: str) -> str:
    """A table for each data set and condition, the best recall first, and above it what it comes to."""
    cells: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["kind"] != "control" and row["recall"]:
            cells.setdefault((row["dataset"], row["condition"], row["points"]), []).append(row)
    most = max(int(row["problems"]) for row in rows)
    parts = [f"Run `{run}`, {most} problems a cell; slow methods have fewer.\n"]
    return "\n".join(parts + [_table(place, some) for place, some in cells.items()])


def _table(place: tuple[str, str, str], rows: list[Row]) -> str:
    most = max(int(r["problems"]) for r in rows)
    ranked = sorted(
        rows, key=lambda r: (int(r["problems"]) < most, -float(r["recall"]), float(r["time_ms_median"] or "inf"))
    )
    name = f"## {place[0]}, {place[1]}, {place[2]} points\n"
    head = ["| method | recall (95 %) | RMSE, median | ms, timed alone | problems |", "|---|---|---|---|---|"]
    return "\n".join([name, f"{advice(ranked)}\n", *head, *map(_line, ranked), ""])


def advice(ranked: list[Row]) -> str:
    """The best recall, and the fastest method whose interval reaches the lower end of the best one's."""
    best = ranked[0]
    if not any(r["time_ms_median"] for r in ranked):
        return f"Best recall: **{best['method']}** ({float(best['recall']):.2f}). Nothing was timed alone at this size."
    asked = [r for r in ranked if r["problems"] == best["problems"] and r["time_ms_median"]]
    level = [r for r in asked if float(r["recall_high"]) >= float(best["recall_low"])]
    fast = min(level, key=lambda r: float(r["time_ms_median"]), default=best)
    first = f"Best recall: **{best['method']}** ({float(best['recall']):.2f})."
    if fast["method"] == best["method"]:
        return f"{first} None whose interval overlaps is faster."
    return f"{first} Fastest whose interval overlaps: **{fast['method']}** ({float(fast['time_ms_median']):.0f} ms)."


def _line(row: Row) -> str:
    low, high = float(row["recall_low"]), float(row["recall_high"])
    time = f"{float(row['time_ms_median']):.0f}" if row["time_ms_median"] else "–"
    median = f"{float(row['rmse_median']):.3g}" if row["rmse_median"] else "–"
    recall = f"{float(row['recall']):.2f} ({low:.2f}–{high:.2f})"
    return f"| {row['method']} | {recall} | {median} | {time} | {row['problems']} |"


def filled(page: str, text: str) -> str:
    """The page with the text between its marks."""
    before, rest = page.split(BEGIN)
    mark, rest = rest.split("\n", 1)
    return f"{before}{BEGIN}{mark}\n{text}\n{END}{rest.split(END, 1)[1]}"


def read(file: Path) -> list[Row]:
    """The rows of a CSV file."""
    with file.open(newline="") as handle:
        return list(csv.DictReader(handle))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    alone = {
        (row["method"], row["points"]): row["time_ms_median"]
        for row in read(folder / "timing.csv")
        if float(row["angle_low"]) == 0 and float(row["angle_high"]) == 180
    }
    # Times of the summary were taken while other processes worked; only those of methods timed alone are compared.
    found = [r | {"time_ms_median": alone.get((r["method"], r["points"]), "")} for r in read(folder / "summary.csv")]
    PAGE.write_text(filled(PAGE.read_text(), tables(found, folder.name)))
