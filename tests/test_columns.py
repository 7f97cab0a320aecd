"""Every column of every CSV is defined in docs/metrics.md, and no other."""

import csv
import re

import pytest

from bench.evaluation import aggregate, protocols
from bench.evaluation.conventions import CONVENTIONS
from bench.isolation.guard import ROOT
from bench.storage.run_folder import REAL_TABLES
from bench.storage.run_folder import TABLES as TABLES_OF_ALL
from tests.bench.synthetic_run import as_loaded, synthetic_run

PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
TABLES = (*TABLES_OF_ALL, *REAL_TABLES)
OPTIONAL = {"rmse_information", "rmse_correspondences", "chamfer"}
"""Columns that only some data or conventions have."""


def definitions():
    """The columns that the page defines, by CSV; "" for those in several files."""
    section = PAGE.split("## Columns of the CSVs", 1)[1]
    head, *_ = section.split("In several files:")
    defined = {}
    for part in re.split(r"\n\n(?=In several files:|`\w+\.csv`)", section.removeprefix(head)):
        intro, _, table = part.partition("\n\n")
        rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
        names = [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]
        for file in re.findall(r"`(\w+)\.csv`", intro) or [""]:
            defined.setdefault(file, []).extend(names)
    return defined


@pytest.fixture(scope="module")
def headers():
    loaded = as_loaded(*synthetic_run(n=6, sizes=(256,), methods=("icp",), conditions=("noisy",)))
    frames = aggregate.tables(loaded, CONVENTIONS["deepgmr"])
    return {name: list(frame.columns) for name, frame in frames.items()} | {"scenes": protocols.COLUMNS}


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_defined(headers, name):
    defined = definitions()
    known = {*defined[""], *defined.get(name, [])}
    assert [column for column in headers[name] if column not in known] == [], (
        f"define them in docs/metrics.md, {name}.csv"
    )


def test_every_defined_column_exists_where_the_page_says(headers):
    defined = definitions()
    assert set(defined) == {"", *TABLES}
    shared = [column for column in defined.pop("") if not any(column in head for head in headers.values())]
    assert shared == []
    groups = [{"by_angle", "by_overlap", "per_category"}, {"timing", "stages"}]
    for name, columns in defined.items():
        files = next((group for group in groups if name in group), {name})
        found = {column for file in files for column in headers[file]} | OPTIONAL
        assert [column for column in columns if column not in found] == [], name
        assert len(columns) == len(set(columns)), name


def test_the_reference_runs_columns_are_defined():
    """It may lack columns of later versions."""
    defined = definitions()
    for file in sorted((ROOT / "results" / "reference").glob("*.csv")):
        with file.open(newline="", encoding="utf-8") as lines:
            head = next(csv.reader(lines))
        assert set(head) <= {*defined[""], *defined[file.stem]}, file.name


def test_columns_of_a_pair_are_defined_in_own_scans():
    from bench.pair.agreement import Agreement
    from bench.pair.files import agreement_rows
    from bench.pair.result import PairResult

    page = (ROOT / "docs" / "own-scans.md").read_text(encoding="utf-8")
    section = page.split("## Reading the table", 1)[1].split("\n## ")[0]
    source = (ROOT / "bench" / "pair" / "result.py").read_text(encoding="utf-8")
    row = source.split("def row(", 1)[1].split("\n    @property")[0]
    other = (ROOT / "bench" / "pair" / "files.py").read_text(encoding="utf-8").split("def agreement_rows", 1)[1]
    columns = re.findall(r'"(\w+)":', row) + re.findall(r'"(\w+)":', other.split("\n\n\n")[0])
    assert len(columns) >= 16 and PairResult.row and agreement_rows and Agreement
    assert [column for column in dict.fromkeys(columns) if f"`{column}`" not in section] == []
