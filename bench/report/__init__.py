"""Everything a person reads of a finished run: figures, tables, one offline HTML page, and the table in the terminal."""

from bench.report.redraw import Redraw
from bench.report.terminal import terminal_summary
from bench.report.write import Options, begin_report

__all__ = ["Options", "Redraw", "begin_report", "terminal_summary"]
