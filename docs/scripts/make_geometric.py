"""Write the tables of `docs/geometric.md`: `python -m docs.scripts.make_geometric results/NAME …`.

Untuned methods and those selected by `METHOD[tuned=NAME]` can be in any of the runs. Of two rows of one method, the one
with more problems is used.
"""

from __future__ import annotations

import csv
import sys
from importlib.resources import files
from pathlib import Path

from docs.scripts.make_choosing import filled

PAGE = Path(__file__).resolve().parents[1] / "geometric.md"
Row = dict[str, str]


def condition_tables(rows: list[Row], paper: list[Row]) -> str:
    """Return a table per condition: recall untuned, tuned and in the paper, mean error here and in the paper."""
    printed = {
        (r["condition"], r["method"], r["metric"]): r["value"]
        for r in paper
        if r["table"] == "accuracy" and r["dataset"] == "modelnet40"
    }
    rows_run = sorted((r for r in rows if r["kind"] != "control" and r["recall"]), key=lambda r: int(r["problems"]))
    known = {(r["condition"], r["method"]): r for r in rows_run}
    better = {(r["condition"], untuned_name(r["method"])): r for r in known.values() if "[tuned=" in r["method"]}
    parts = []
    for condition in dict.fromkeys(r["condition"] for r in rows):
        plain = [r for (c, method), r in known.items() if c == condition and "[tuned=" not in method]
        parts += [f"## {condition}, {plain[0]['points']} points\n", HEAD]
        for r in sorted(plain, key=lambda r: (-float(r["recall"]), r["method"])):
            theirs = [printed.get((condition.split("[")[0], r["method"], metric), "–") for metric in ("recall", "rmse")]
            other = better.get((condition, r["method"]))
            cells = [f"`{r['method']}`", recall(r), recall(other) if other else "–", theirs[0]]
            cells += [f"{float(r['rmse_mean_answered']):.2g}", theirs[1], f"{r['answered']}/{r['problems']}"]
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


HEAD = "| method | recall [95 %] | tuned | paper | RMSE, mean of answered | paper | answered |\n|---|---|---|---|---|---|---|"


def untuned_name(method: str) -> str:
    """Return the untuned name: `a+b` for `a[tuned=…]+b`."""
    return "+".join(part.split("[")[0] for part in method.split("+"))


def recall(row: Row) -> str:
    """Format recall with its interval."""
    low, high = float(row["recall_low"]), float(row["recall_high"])
    return f"{float(row['recall']):.2f} [{low:.2f}, {high:.2f}]"


def read_rows(file: Path) -> list[Row]:
    """Read the rows of a CSV file."""
    with file.open(newline="") as handle:
        return list(csv.DictReader(handle))


if __name__ == "__main__":
    rows_run = [row for folder in sys.argv[1:] for row in read_rows(Path(folder) / "summary.csv")]
    PAGE.write_text(
        filled(PAGE.read_text(), condition_tables(rows_run, read_rows(Path(str(files("bench.report") / "paper.csv")))))
    )
