"""The summary on the terminal."""

import io

import numpy as np
import pandas as pd
from rich.console import Console

from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    terminal_summary,
)

CRITERION = CONVENTIONS["deepgmr"]


def test_the_terminal_table_fits_and_takes_names_as_text(frames):
    long = {"teaser": "[bold]a_method_with_a_very_very_long_name[/bold]"}
    summary = frames["summary"].assign(method=frames["summary"]["method"].replace(long))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_summary(summary, frames["timing"], CRITERION))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 100
    assert any(" [bold]a_m…e[/bold] " in line for line in lines)  # cut in the middle
    assert any(" <script>a…/script> " in line for line in lines)
    assert sum("oracle" in line for line in lines) == 3
    assert any("1.00 [0.91,1.00]" in line for line in lines)


def _printed(rows, timed=()):
    """The terminal's lines of rows (method, kind, problems, recall, ms), and of times (method, ms) alone."""
    names = "method kind problems recall time_ms_median".split()
    summary = pd.DataFrame(rows, columns=names).assign(dataset="d", condition="noisy", points=64)
    summary = summary.assign(recall_low=summary["recall"] - 0.1, recall_high=summary["recall"] + 0.1)
    others = ["rmse_mean_answered", "rmse_median", "rre_deg_median", "rte_median", "time_ms_p95"]
    summary = summary.assign(answered=summary["problems"], **dict.fromkeys(others, 1.0))
    timing = pd.DataFrame(timed, columns=["method", "time_ms_median"]).assign(points=64, angle_low=0, angle_high=180)
    timing = timing.assign(phase="timing")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_summary(summary, timing, CRITERION))
    return [" ".join(line.split()) for line in console.export_text().splitlines() if line.strip()]


def test_the_terminal_sorts_by_recall_and_gives_advice():
    rows = [
        ("truth", "control", 40, 1.0, 1.0),
        ("poor", "local", 40, 0.3, 1.0),
        ("few", "global", 4, 1.0, 900.0),
        ("near", "local", 40, 0.8, 30.0),
        ("best", "learned", 40, 0.9, 50.0),
        ("absent", "global", 0, np.nan, np.nan),
    ]
    lines = _printed(rows)
    assert [line.split()[0] for line in lines[3:8]] == ["best", "near", "poor", "few", "truth"]
    assert lines[8].startswith("Not run: absent")
    assert lines[9] == "Best recall: best (0.90). Fastest whose interval overlaps: near (30 ms)."
    verdict = _printed(rows, [("best", 7.0), ("near", 9.0)])[9]
    assert verdict == "Best recall: best (0.90). None whose interval overlaps is faster."
    verdict = _printed(rows, [("best", 7.0), ("near", 0.25)])[9]
    assert verdict.endswith("overlaps: near (0.2 ms, timed alone).")


def test_a_method_that_never_succeeds_is_no_choice():
    assert "No method succeeds." in _printed([("a", "local", 2, 0.0, 1.0)])
    lines = _printed([("a", "local", 2, 0.05, 9.0), ("never", "local", 2, 0.0, 1.0)])
    assert "Best recall: a (0.05). None whose interval overlaps is faster." in lines


def test_without_a_recall_there_is_no_verdict():
    assert not any("recall:" in line for line in _printed([("a", "local", 40, np.nan, 1.0)]))
