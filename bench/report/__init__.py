"""Everything a person reads of a finished run: figures, tables, one offline HTML page, and the table in the terminal."""

from bench.report.terminal import terminal_summary
from bench.report.write import write_report

__all__ = ["terminal_summary", "write_report"]
