"""Text as scanners and programs export it."""

import numpy as np
import pytest

from common.errors import InputError, MalformedFile
from common.keys import rng
from datasets import formats
from datasets.formats import text

POINTS = np.round(rng("text").normal(size=(30, 3)), 4)
BYTES = rng("bytes").integers(0, 256, (30, 3))


def lines(*columns, separator=" ", comma=False):
    table = np.column_stack([c if np.ndim(c) == 2 else np.array(c)[:, None] for c in columns])
    rows = [separator.join(f"{v:g}" for v in row) for row in table]
    text = "\n".join(rows) + "\n"
    return text.replace(".", ",") if comma else text


TEXTS = {
    "decimal_comma.xyz": (lines(POINTS, comma=True), "commas are decimal commas"),
    "decimal_semicolon.csv": ("X;Y;Z\n" + lines(POINTS, separator=";", comma=True), "commas are decimal commas"),
    "decimal_tab.asc": (lines(POINTS, separator="\t", comma=True), "commas are decimal commas"),
    "comma_space.txt": (lines(POINTS, separator=", "), None),
    "count.pts": ("30\n" + lines(POINTS, POINTS[:, 0], BYTES), "columns 1, 2, 3 of 7 are x, y, z"),
    "count.xyz": ("30\n" + lines(POINTS), None),
    "slashes.txt": ("//X Y Z R G B\n" + lines(POINTS, BYTES), "columns 1, 2, 3 of 6 are x, y, z by the header"),
    "names.csv": (
        "r,g,b,x,y,z\n" + lines(BYTES, POINTS, separator=","),
        "columns 4, 5, 6 of 6 are x, y, z by the header",
    ),
    "quoted.csv": ('"Points:0","Points:1","Points:2"\n' + lines(POINTS, separator=","), None),
    "units.txt": ("Y[m] X[m] Z[m]\n" + lines(POINTS[:, [1, 0, 2]]), "columns 2, 1, 3 of 3 are x, y, z by the header"),
    "pandas.csv": (
        ",x,y,z\n" + lines(np.arange(30), POINTS, separator=","),
        "columns 2, 3, 4 of 4 are x, y, z by the header",
    ),
    "r_table.txt": ("x y z\n" + lines(np.arange(1, 31), POINTS), "column 1 numbers the rows"),
    "numbered.txt": (lines(np.arange(30), POINTS), "columns 2, 3, 4 of 4 are x, y, z; column 1 numbers the rows"),
    "shuffled.txt": (
        lines(rng("o").permutation(30), POINTS),
        "columns 2, 3, 4 of 4 are x, y, z; column 1 numbers the rows",
    ),
    "labels.csv": (
        "x,y,z,class\n" + "".join(f"{row},tree\n" for row in lines(POINTS, separator=",").splitlines()),
        "column 4 of 4 is text and left out",
    ),
    "atoms.xyz": (
        "30\n\n" + "".join(f"C {row}\n" for row in lines(POINTS).splitlines()),
        "column 1 of 4 is text and left out",
    ),
    "trailing.csv": (lines(POINTS, separator=",").replace("\n", ",\n"), None),
    "windows.xyz": (lines(POINTS).replace("\n", "\r\n"), None),
    "dos.xyz": (lines(POINTS).replace("\n", "\r\n") + "\x1a\r\n", None),
    "prose.xyz": ("# exported by me\n% units m\n" + lines(POINTS), None),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", TEXTS)
def test_the_points_of_an_export_are_read_and_what_was_taken_is_remarked(tmp_path, name, encoding):
    text, remark = TEXTS[name]
    (tmp_path / name).write_bytes(text.encode(encoding))
    cloud = formats.read(tmp_path / name)
    np.testing.assert_allclose(cloud.points, POINTS)
    assert remark in cloud.remarks if remark else cloud.remarks == ()


def test_text_in_utf_16_without_a_mark_and_comments_in_latin_1_are_read(tmp_path):
    for name, data in {
        "a.xyz": lines(POINTS).encode("utf-16-le"),
        "b.xyz": b"# H\xf6he\n" + lines(POINTS).encode(),
    }.items():
        (tmp_path / name).write_bytes(data)
        np.testing.assert_allclose(formats.read(tmp_path / name).points, POINTS)


@pytest.mark.parametrize("mark", ["#", "//", "%", "!"])
def test_a_comment_may_follow_any_row(tmp_path, mark):
    """Whatever the sign of its first number, and be alone on a line."""
    rows = ["1 2 3", f"4 5 6 {mark} a b", f"-7 8 9{mark} 50", f"{mark} 1 2 3", f".5 6 1 {mark}"]
    (tmp_path / "a.xyz").write_text("\n".join(rows))
    assert text.read_text(tmp_path / "a.xyz").points.tolist() == [[1, 2, 3], [4, 5, 6], [-7, 8, 9], [0.5, 6, 1]]


def test_colours_are_kept_by_their_names(tmp_path):
    (tmp_path / "a.txt").write_text("//X Y Z R G B intensity\n" + lines(POINTS, BYTES, POINTS[:, 0]))
    columns = formats.read(tmp_path / "a.txt").columns
    assert list(columns) == ["red", "green", "blue", "intensity"]
    np.testing.assert_array_equal(columns["green"], BYTES[:, 1])
    assert columns["red"].dtype == np.uint8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,234.5 2,345.6 3,456.7\n" * 4, "has numbers such as 1,234.5; write numbers with a point"),
        ("0,31,0,25,1,205\n" * 4, "has commas that may separate decimals or columns"),
        ("31\n" + lines(POINTS), "line 1 announces 31 points, but has 30 rows after it"),
        (lines(np.arange(30), POINTS[:, :2]), "column 1 of 3 numbers the rows (0 … 29)"),
        ("lat lon alt\n" + lines(POINTS), "has columns lat, lon, alt, none x, y, z"),
        ("1 2 3\n4 5\n7 8 0\n", "line 2 has 2 columns, line 1 has 3"),
        ("x y z a b\n" + lines(POINTS), "names 5 columns in 'x y z a b', but has 3"),
        ("0x1 2 3\n4 5 6\n7 8 0\n", "the first row has '0x1', which is no number"),
        ("ncols 4\nnrows 4\n1 2 3 4\n", "begins with 'ncols 4', not with rows of numbers"),
        ("a\0b\0\0\0c", "holds zero bytes, so it is no text"),
    ],
)
def test_what_is_ambiguous_or_no_table_is_refused_with_the_reason(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.txt")
    assert message in str(error.value) and "a.txt" in str(error.value)


@pytest.mark.parametrize(
    ("row", "decimals"),
    [
        ("0,31,0,25,1,205", True),
        ("0,3,0,2,1,205", True),
        ("0,3,0,2,1,05", True),
        ("0,3,0,2,1,5", False),
        ("0,31,0,25,1,20", False),
        ("0,31,0,x5,1,205", False),
        ("0,310,0,-25,1,205", False),
        ("0,310,0,0,1,0", True),
        ("0, 31 ,0, 25 ,1, 205 ", True),
        ("0, ,0,255", False),
    ],
)
def test_numbers_between_commas_look_like_decimals_if_one_is_long_or_begins_with_zero(row, decimals):
    assert text._looks_decimal(row.split(",")) == decimals


def test_commas_separate_columns_if_a_single_row_has_no_decimals_between_them(tmp_path):
    (tmp_path / "a.csv").write_text("0,31,0,25,1,205\n0,31,0,25,1,2.5\n" * 2)
    assert text.read_text(tmp_path / "a.csv").points[0].tolist() == [0, 31, 0]
    (tmp_path / "a.csv").write_text("0,31,0,25,1,205\n0,31,0,-5,1,205\n" * 2)
    assert text.read_text(tmp_path / "a.csv").points[1].tolist() == [0, 31, 0]


@pytest.mark.parametrize(("comments", "read"), [(199, True), (200, False)])
def test_two_hundred_lines_may_come_before_the_numbers(tmp_path, comments, read):
    (tmp_path / "a.txt").write_text("# c\n" * comments + lines(POINTS))
    if read:
        np.testing.assert_allclose(text.read_text(tmp_path / "a.txt").points, POINTS)
    else:
        with pytest.raises(text.NoTable, match="begins with '# c', not with rows of numbers"):
            text.read_text(tmp_path / "a.txt")


@pytest.mark.parametrize(("row", "columns"), [(0, 6), (49, 6), (50, None)])
def test_what_a_comma_is_depends_on_the_first_fifty_rows(tmp_path, row, columns):
    """Of a row with a decimal point on, commas separate columns; a point in a later row contradicts decimal commas."""
    rows = ["1,5 2,5 3,5"] * 60
    rows[row] = "1.5,5 2,5 3,5"
    (tmp_path / "a.txt").write_text("\n\n".join(rows))
    if columns:
        assert text.read_text(tmp_path / "a.txt").remarks == ("columns 1, 2, 3 of 6 are x, y, z",)
    else:
        with pytest.raises(MalformedFile, match=r"'1\.5\.5' is no number"):
            text.read_text(tmp_path / "a.txt")


@pytest.mark.parametrize(("words", "read"), [("x y z\n", True), ("a b\nx y z\n", False)])
def test_one_line_of_words_may_come_before_the_numbers(tmp_path, words, read):
    (tmp_path / "a.txt").write_text("# c\n\n" + words + lines(POINTS))
    if read:
        np.testing.assert_allclose(text.read_text(tmp_path / "a.txt").points, POINTS)
    else:
        with pytest.raises(text.NoTable, match="begins with '# c', not with rows of numbers"):
            text.read_text(tmp_path / "a.txt")


def test_exponents_of_fortran_and_text_in_several_columns_are_read(tmp_path):
    rows = [f"a {x:e} b {y:.6f} c {z:.6f} d".replace("e", "D" if k % 2 else "d") for k, (x, y, z) in enumerate(POINTS)]
    (tmp_path / "a.txt").write_text("\n".join(rows))
    cloud = text.read_text(tmp_path / "a.txt")
    np.testing.assert_allclose(cloud.points, POINTS, atol=1e-6)
    assert cloud.remarks == ("column 1, 3, 5 of 7 is text and left out",)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("header", ["", "# Größe\n"])
def test_the_order_of_bytes_of_utf_16_is_found(tmp_path, encoding, header):
    (tmp_path / "a.txt").write_bytes((header + lines(POINTS)).encode(encoding))
    np.testing.assert_allclose(text.read_text(tmp_path / "a.txt").points, POINTS)
