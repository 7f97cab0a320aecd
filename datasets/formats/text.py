"""Text with one point a line, as scanners and programs export it: .xyz .txt .pts .csv .asc."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from common.text import counted
from datasets.formats.geometry import Geometry
from datasets.formats.tables import axes_of, counts_rows, from_table

MAX_PREAMBLE = 200
"""Most lines of comments and names before the first row of numbers."""
SAMPLED_ROWS = 50
"""Rows from which the separator is found."""
_NUMBER = r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eEdD][+-]?\d+)?"
_IS_NUMBER = re.compile(rf"{_NUMBER}|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_COMMENT = re.compile(r"(?:#|//|%|!).*")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[+-]?\d{1,3}(?:\.\d{3})+,\d+")
_DOS_END = "\x1a\r\n"
"""Ctrl-Z marks the end of a text of DOS, and editors may add a line end to it."""
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class NoTable(MalformedFile):
    """A text without rows of numbers, such as a list of names or a description."""


def read_text(file: Path) -> Geometry:
    """Read columns of numbers, x, y, z first or as the line of names says.

    Separators are spaces, tabs, semicolons, bars, or commas; with one of the others, a comma is a decimal comma. Comments begin
    with #, //, % or !. A first number that equals the number of the rows is their count.

    Raises:
        MalformedFile: rows are of different lengths, a separator is ambiguous, or no columns can be x, y, z.
    """
    lines = [line.strip().replace('"', "") for line in _decoded(file.read_bytes()).rstrip(_DOS_END).splitlines()]
    first, header = _preamble(lines)
    count = _announced(lines, first)
    first += count is not None
    body = [_without_comment(line) for line in lines[first:]]
    comma, remark = _comma([row for row in body[: 2 * SAMPLED_ROWS] if row][:SAMPLED_ROWS])
    rows = [_spaced(row, comma) for row in body]
    table, kept, left = _parsed(rows, first)
    if count is not None and count != len(table):
        raise MalformedFile(
            f"line {first} announces {counted(count, 'point')}, but has {counted(len(table), 'row')} after it"
        )
    names = _names_of(header, comma, table, kept, left)
    remarks = [*([remark] if remark else []), *([left] if left else [])]
    if names and len(names) == table.shape[1] - 1:
        table = table[:, 1:]
        remarks.append("column 1 numbers the rows")
    return from_table(table, names, *remarks)


def _decoded(data: bytes) -> str:
    """Decode UTF-8 or UTF-16, with or without a byte order mark; else Latin-1, in which only comments can differ.

    Raises:
        MalformedFile: it is not text.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), None)
    if encoding is None and b"\0" in data[:4000]:
        head = data[:4000]
        even, odd = head[::2].count(0), head[1::2].count(0)
        if not max(even, odd) > 0.4 * len(head) > 10 * min(even, odd):
            raise NoTable("holds zero bytes, so it is no text")
        encoding = "utf-16-le" if odd > even else "utf-16-be"
    try:
        return data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        if encoding:
            raise MalformedFile(f"is no complete {encoding.upper()} text; save it as UTF-8") from error
        return data.decode("latin-1")


def _without_comment(line: str) -> str:
    """Return a line without the comment at its end; few lines have a mark of one, so that the slower pattern is rarely needed."""
    has_mark = "#" in line or "/" in line or "%" in line or "!" in line
    return _COMMENT.sub("", line).strip() if has_mark else line


def _is_row(line: str) -> bool:
    words = re.split(r"[\s,;|]+", line)
    return any(words) and sum(bool(_IS_NUMBER.fullmatch(w)) for w in words if w) >= min(3, len(words))


def _preamble(lines: list[str]) -> tuple[int, tuple[str, bool]]:
    """Return the number of the first row of numbers, and the last text before it with whether it is a comment.

    Raises:
        NoTable: there is no row of numbers, or too much text before it.
    """
    names, plain = ("", True), 0
    for number, line in enumerate(lines[:MAX_PREAMBLE]):
        text = _COMMENT.sub("", line).strip()
        if _is_row(text):
            return number, names
        bare = text or line.lstrip("#/%! ")
        plain += bool(text)
        if bare.strip():
            names = bare, not text
        if plain > 1:
            break
    first = next((line for line in lines if line), "")[:60]
    if not first or all(not _COMMENT.sub("", line).strip() for line in lines):
        raise NoTable("has 0 points, at least 3 are needed")
    raise NoTable(f"begins with '{first}', not with rows of numbers; give x y z a line")


def _announced(lines: list[str], first: int) -> int | None:
    """Return the count that a first row of one whole number announces; None if it is a row like the others."""
    words = lines[first].split()
    following = next((line for line in lines[first + 1 :] if line), "")
    if len(words) == 1 and words[0].isdigit() and len(re.split(r"[\s,;|]+", following)) > 1:
        return int(words[0])
    return None


def _comma(rows: list[str]) -> tuple[str, str]:
    """Return what a comma is (`separator`, `decimal`, or empty if there is none), and a remark.

    Raises:
        MalformedFile: it may be both.
    """
    if not any("," in row for row in rows):
        return "", ""
    words = [word for row in rows for word in re.split(r"[\s;|]+", row) if word]
    fit = "write numbers with a point and without separators of thousands"
    is_split = any(len(re.split(r"[\s;|]+", row)) >= 3 for row in rows)
    if is_split and any(_THOUSANDS.fullmatch(w) and "." in w for w in words):
        raise MalformedFile(f"has numbers such as {next(w for w in words if '.' in w and ',' in w)}; {fit}")
    if any(re.search(r"\d\.\d", word) for word in words):
        return "separator", ""
    if is_split and all(word.count(",") <= 1 and not word.startswith(",") and not word.endswith(",") for word in words):
        return "decimal", "commas are decimal commas"
    pieces = [row.split(",") for row in rows]
    if not is_split and len(pieces[0]) in (6, 12) and all(_looks_decimal(row) for row in pieces):
        raise MalformedFile(f"has commas that may separate decimals or columns ({rows[0][:40]}); {fit}")
    return "separator", ""


def _looks_decimal(pieces: list[str]) -> bool:
    """Tell whether every second of the numbers between commas looks like the decimals of the number before it."""
    fractions = pieces[1::2]
    return all(f.strip().isdigit() for f in fractions) and any(
        len(f) >= 3 or (len(f) > 1 and f[0] == "0") for f in fractions
    )


def _spaced(row: str, comma: str) -> str:
    """Return a row with spaces as separators, points as decimal marks, and nan in empty cells."""
    if comma == "decimal":
        row = row.replace(",", ".")
    for separator in ",;|\t":
        if separator in row:
            if separator != "\t" and (separator * 2 in row or row.startswith(separator)):
                row = " ".join(cell.strip() or "nan" for cell in row.rstrip(separator).split(separator))
            row = row.replace(separator, " ")
    return row


def _parsed(rows: list[str], first: int) -> tuple[NDArray[np.float64], list[int], str]:
    """Return the numbers (N, k) of rows, the columns that hold them, and a remark on columns of text, which are left out.

    Raises:
        MalformedFile: rows are of different lengths, or a cell is no number.
    """
    try:
        table = np.loadtxt(rows, ndmin=2)
        return table, list(range(table.shape[1])), ""
    except ValueError:
        pass
    cells = [(number, row.split()) for number, row in enumerate(rows, first + 1) if row]
    width = len(cells[0][1])
    for number, words in cells:
        if len(words) != width:
            raise MalformedFile(
                f"line {number} has {counted(len(words), 'column')}, line {cells[0][0]} has {width}; remove or fix it"
            )
    numeric = [k for k in range(width) if _IS_NUMBER.fullmatch(cells[0][1][k])]
    for number, words in cells:
        if wrong := [words[k] for k in numeric if not _IS_NUMBER.fullmatch(words[k])]:
            raise MalformedFile(f"line {number}: '{wrong[0][:40]}' is no number")
    values = [[float(re.sub("[dD]", "e", words[k])) for k in numeric] for _, words in cells]
    texts = [str(k + 1) for k in range(width) if k not in numeric]
    remark = f"column {', '.join(texts[:3])} of {width} is text and left out" if texts else ""
    return np.array(values, dtype=np.float64).reshape(len(cells), -1), numeric, remark


def _names_of(
    header: tuple[str, bool], comma: str, table: NDArray[Any], kept: list[int], left: str
) -> list[str] | None:
    """Return the names of the columns, or of all but a first column that numbers the rows; None if the file names none.

    Raises:
        MalformedFile: x, y and z are named, but for another number of columns.
    """
    (line, is_comment), count = header, table.shape[1]
    cut = (
        r"\s*,\s*" if "," in line and comma != "decimal" else r"\s*[;|\t]\s*" if re.search(r"[;|\t]", line) else r"\s+"
    )
    words = [word.strip() for word in re.split(cut, line.strip())]
    if left and len(words) > max(kept):
        words = [words[k] for k in kept]
    axes = axes_of(words)
    if axes is None:
        if is_comment or len(words) != count:
            return None
        if number := next((word for word in words if word[:1].isdigit()), ""):
            raise MalformedFile(f"the first row has '{number[:40]}', which is no number")
        return words
    if len(words) == count or (len(words) == count - 1 and counts_rows(table[:, 0])):
        return words
    if len(words) < count and axes == [0, 1, 2]:
        return [*words, *(f"column_{k + 1}" for k in range(len(words), count))]
    raise MalformedFile(f"names {counted(len(words), 'column')} in '{line[:60]}', but has {count}; name each column")
