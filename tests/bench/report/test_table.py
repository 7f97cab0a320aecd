"""Markdown and LaTeX of a table."""

import numpy as np

from bench.report.table import Table, TableCell, tex


def test_latex_compiles_in_principle():
    """Braces balance, every row has as many cells as the head, and special letters are escaped."""
    rows = [[TableCell("<b>x_y&%"), TableCell("1.0", 1.0, True, "0.9"), TableCell("∞", np.inf)]]
    text = Table("a_b", ["method", "RMSE ↓", "p < 1"], rows, [("set", 2)], {0: "red"}, "100 %").latex(coloured=True)
    bare = text.replace("\\{", "").replace("\\}", "").replace("\\&", "").replace("\\%", "")
    assert bare.count("{") == bare.count("}") and "%" not in bare and "_" not in bare.replace("\\_", "")
    assert "\\textcolor{red}{\\textless{}b\\textgreater{}x\\_y\\&\\%}" in text and "\\textbf{1.0} (0.9)" in text
    body = [line for line in bare.splitlines() if line.endswith("\\\\")]
    assert {line.count("&") for line in body} == {2}
    assert tex("√ξ~^") == "$\\surd$$\\xi$\\textasciitilde{}\\textasciicircum{}"


def test_markdown_shows_names_as_they_are():
    table = Table("a|b", ["method"], [[TableCell("<b>x_y*|")], [TableCell("1", 1.0, bold=True)]])
    assert "| &lt;b&gt;x\\_y\\*\\| |" in table.markdown() and "| **1** |" in table.markdown()
