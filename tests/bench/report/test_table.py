"""Markdown and LaTeX of a table."""

import numpy as np

from bench.report.table import Table, TableCell, count, fainted, num, tex


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


TABLE = Table(
    "Times",
    ["method", "RMSE ↓", "recall ↑", "n"],
    [
        [TableCell("a_b"), TableCell("0.10*", 0.1, True, "0.11"), TableCell("0.50", 0.5), count(7)],
        [TableCell("c"), num(0.25, 2, True), num(np.nan), count(8.0)],
        fainted([TableCell("few, n = 2"), num(1.5, 1, True, " ms"), TableCell("1.00", beside="2"), count(2)], True),
    ],
    [("noisy", 2), ("", 1)],
    {0: "red", 2: "blue"},
    "Of 3 problems.",
)


def test_the_formats_of_a_table():
    assert TABLE.markdown().split("\n") == [
        "### Times",
        "",
        "| method | noisy RMSE ↓ | noisy recall ↑ | n |",
        "| --- | --: | --: | --: |",
        "| a\\_b | **0.10\\* (0.11)** | 0.50 | 7 |",
        "| c | **0.25** | – | 8 |",
        "| few, n = 2 | 1.5 ms | 1.00 (2) | 2 |",
        "",
        "Of 3 problems.",
        "",
    ]
    assert TABLE.csv().split("\n") == [
        "method,noisy RMSE ↓,noisy recall ↑,n",
        "a_b,0.10* (0.11),0.50,7",
        "c,0.25,–,8",
        '"few, n = 2",1.5 ms,1.00 (2),2',
        "",
    ]
    head = [
        r"\begin{table}",
        r"\centering",
        r"\caption{Times. Of 3 problems.}",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r" & \multicolumn{2}{c}{noisy} & \multicolumn{1}{c}{} \\ \cmidrule(lr){2-3}",
        r"method & RMSE $\downarrow$ & recall $\uparrow$ & n \\",
        r"\midrule",
    ]
    foot = [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    plain = [
        r"a\_b & \textbf{0.10*} (0.11) & 0.50 & 7 \\",
        r"c & \textbf{0.25} & -- & 8 \\",
        r"few, n = 2 & 1.5 ms & 1.00 (2) & 2 \\",
    ]
    faint = " & ".join(rf"\textcolor{{gray}}{{{text}}}" for text in ("few, n = 2", "1.5 ms", "1.00 (2)", "2")) + r" \\"
    assert TABLE.latex().split("\n") == [*head, *plain, *foot]
    coloured = [plain[0].replace(r"a\_b", r"\textcolor{red}{a\_b}"), plain[1], faint]
    assert TABLE.latex(coloured=True).split("\n") == [*head, *coloured, *foot]
    bare = Table("t", ["a"], [[TableCell("x")]])
    assert bare.heads == ["a"] and bare.markdown() == "### t\n\n| a |\n| --- |\n| x |\n"


def test_all_texts_of_markdown_are_escaped():
    cells = [[TableCell("a_a", beside="<1>"), TableCell("2|3", bold=True)]]
    text = Table("t_t", ["m_m", "n"], cells, [("g*", 1)], {}, "c&c").markdown()
    assert text.split("\n")[::2] == ["### t\\_t", "| m\\_m | g\\* n |", "| a\\_a (&lt;1&gt;) | **2\\|3** |", "c&amp;c"]


def test_cells_of_numbers_sort_by_their_values():
    assert num("0.1234", 2) == TableCell("0.12", 0.1234) and num(2, 0, True, " s") == TableCell("2 s", 2.0, True)
    assert count(np.int64(3)) == TableCell("3", 3.0)
    cells = [TableCell("x", 1.0, bold=True, beside="y", note="z")]
    assert fainted(cells, False) is cells and fainted(cells, True) == [TableCell("x", 1.0, False, "y", True, None, "z")]
