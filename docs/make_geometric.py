"""Write the tables of `docs/geometric.md`: `python -m docs.make_geometric results/UNTUNED results/TUNED …`.

The first run has the methods as they come, the others the same ones by `METHOD[tuned=NAME]`.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from docs.make_choosing import Row, filled, read

PAGE = Path(__file__).parent / "geometric.md"


def tables(plain: list[Row], tuned: list[Row], paper: list[Row]) -> str:
    """A table for each condition: recall untuned, tuned and printed in the paper, mean error, and the paper's."""
    printed = {
        (r["condition"], r["method"], r["metric"]): r["value"]
        for r in paper
        if r["table"] == "accuracy" and r["dataset"] == "modelnet40"
    }
    better = {(r["condition"], untuned_name(r["method"])): r for r in tuned}
    parts = []
    for condition in dict.fromkeys(r["condition"] for r in plain):
        rows = [r for r in plain if r["condition"] == condition and r["kind"] != "control" and r["problems"] != "0"]
        parts += [f"## {condition}, {rows[0]['points']} points\n", HEAD]
        for r in sorted(rows, key=lambda r: -float(r["recall"])):
            theirs = [printed.get((condition.split("[")[0], r["method"], metric), "–") for metric in ("recall", "rmse")]
            other = better.get((condition, r["method"]))
            cells = [f"`{r['method']}`", recall(r), recall(other) if other else "–", theirs[0]]
            cells += [f"{float(r['rmse_mean_answered']):.2g}", theirs[1], f"{r['answered']}/{r['problems']}"]
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


HEAD = "| method | recall [95 %] | tuned | paper | RMSE, mean of answered | paper | answered |\n|---|---|---|---|---|---|---|"


def untuned_name(method: str) -> str:
    """`a+b` of `a[tuned=…]+b`."""
    return "+".join(part.split("[")[0] for part in method.split("+"))


def recall(row: Row) -> str:
    """Recall with its interval."""
    low, high = float(row["recall_low"]), float(row["recall_high"])
    return f"{float(row['recall']):.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    runs = [read(Path(folder) / "summary.csv") for folder in sys.argv[1:]]
    paper = read(Path(str(files("bench.report") / "paper.csv")))
    PAGE.write_text(filled(PAGE.read_text(), tables(runs[0], [row for run in runs[1:] for row in run], paper)))
