"""Tables of a report: cells with text, value to sort by and emphasis; output as Markdown, LaTeX and CSV."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from bench.report import style


@dataclass(frozen=True)
class TableCell:
    """Text, value to sort by (None: the text), emphasis, and a number of the paper to show beside it.

    `faint` cells are of methods with too few problems to be ranked. `heat` is the strength of the background between 0 and 1,
    `note` a remark in small print; both are for the HTML page.
    """

    text: str
    value: float | None = None
    bold: bool = False
    beside: str = ""
    faint: bool = False
    heat: float | None = None
    note: str = ""

    @property
    def whole(self) -> str:
        """Text with the number beside it."""
        return f"{self.text} ({self.beside})" if self.beside else self.text


@dataclass(frozen=True)
class Table:
    """A titled table.

    Attributes:
        columns: heads with units, one per cell of a row.
        column_groups: heads above groups of columns, each with its number of columns, from the second column on.
        colours: LaTeX colour of the first cell, by row number.
    """

    title: str
    columns: list[str]
    rows: list[list[TableCell]]
    column_groups: list[tuple[str, int]] = field(default_factory=list)
    colours: dict[int, str] = field(default_factory=dict)
    caption: str = ""

    @property
    def heads(self) -> list[str]:
        """Heads in one line, each with that of its column group."""
        if not self.column_groups:
            return self.columns
        above = [name for name, width in self.column_groups for _ in range(width)]
        return [self.columns[0], *(f"{a} {b}".strip() for a, b in zip(above, self.columns[1:], strict=True))]

    def markdown(self) -> str:
        """Format as GitHub Markdown, with all texts escaped."""
        lines = [[escaped(h) for h in self.heads], ["---" if i == 0 else "--:" for i in range(len(self.columns))]]
        lines += [[f"**{escaped(c.whole)}**" if c.bold else escaped(c.whole) for c in row] for row in self.rows]
        note = [escaped(self.caption), ""] if self.caption else []
        body = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([f"### {escaped(self.title)}", "", *body, "", *note])

    def csv(self) -> str:
        """Format as CSV with `\\n` line ends; numbers beside a cell stay in its field."""
        import csv
        import io

        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([self.heads, *([c.whole for c in row] for row in self.rows)])
        return file.getvalue()

    def latex(self, coloured: bool = False) -> str:
        """Format as a LaTeX `table` with `booktabs`; with `coloured`, rows have colours or are grey, which needs `xcolor`."""
        head = [" & ".join(map(tex, self.columns)) + r" \\"]
        if self.column_groups:
            spans = " & ".join(rf"\multicolumn{{{n}}}{{c}}{{{tex(name)}}}" for name, n in self.column_groups)
            starts = [2 + sum(n for _, n in self.column_groups[:i]) for i in range(len(self.column_groups))]
            rules = "".join(
                rf"\cmidrule(lr){{{s}-{s + n - 1}}}"
                for s, (name, n) in zip(starts, self.column_groups, strict=True)
                if name
            )
            head = [rf" & {spans} \\ {rules}", *head]
        rows = [" & ".join(self._tex_cells(i, coloured)) + r" \\" for i in range(len(self.rows))]
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{tex(self.title)}. {tex(self.caption)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}", r"\toprule", *head, r"\midrule", *rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def _tex_cells(self, row: int, coloured: bool) -> list[str]:
        cells = [rf"\textbf{{{tex(c.text)}}}" if c.bold else tex(c.text) for c in self.rows[row]]
        cells = [f"{t} ({tex(c.beside)})" if c.beside else t for t, c in zip(cells, self.rows[row], strict=True)]
        if not coloured:
            return cells
        cells = [rf"\textcolor{{gray}}{{{t}}}" if c.faint else t for t, c in zip(cells, self.rows[row], strict=True)]
        if row in self.colours and not self.rows[row][0].faint:
            cells[0] = rf"\textcolor{{{self.colours[row]}}}{{{cells[0]}}}"
        return cells


def escaped(text: str) -> str:
    """Escape text for Markdown."""
    for old, new in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("*", "\\*"),
        ("_", "\\_"),
        ("\n", " "),
    ):
        text = text.replace(old, new)
    return text


_TEX = {letter: "\\" + letter for letter in "&%$#_{}"}
_TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " ", "\u00a0": "~"}
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "…": r"\dots{}", "–": "--", "°": r"$^\circ$"}
_TEX |= {"∞": r"$\infty$", "·": r"$\cdot$", "×": r"$\times$", "√": r"$\surd$", "τ": r"$\tau$", "↓": r"$\downarrow$"}
_TEX |= {"↑": r"$\uparrow$", "ᵀ": r"$^T$", "ξ": r"$\xi$", "Λ": r"$\Lambda$", "₀": r"$_0$"}


def tex(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def num(value: Any, digits: int = 3, bold: bool = False, suffix: str = "") -> TableCell:
    """Build the cell of a number."""
    value = float(value)
    return TableCell(style.number(value, digits) + suffix, value, bold)


def fainted(cells: list[TableCell], faint: bool) -> list[TableCell]:
    """Return the cells of a row, faint and never bold if `faint` is set."""
    return [replace(cell, faint=True, bold=False) for cell in cells] if faint else cells


def count(value: Any) -> TableCell:
    """Build the cell of a count."""
    return TableCell(str(int(value)), float(value))
