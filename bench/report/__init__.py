"""Report of a finished run: figures, tables, an HTML page, and the summary in the terminal."""

from bench.report.build import Options, begin_report, write_first_page
from bench.report.ranking import errors_by_group
from bench.report.replay import ProblemReplay
from bench.report.terminal import json_summary, terminal_summary

__all__ = [
    "Options",
    "ProblemReplay",
    "begin_report",
    "errors_by_group",
    "json_summary",
    "terminal_summary",
    "write_first_page",
]
