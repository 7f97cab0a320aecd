"""Files of a report."""

import pytest

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.planning.catalog import Catalog
from bench.report import (
    Options,
    ProblemReplay,
    begin_report,
)
from tests.bench.synthetic_run import HOSTILE, as_loaded

CRITERION = CONVENTIONS["deepgmr"]


FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


def report(loaded, folder, against=False, data="nowhere"):
    options = Options(CRITERION, against, folder / "results" / "a", folder / "reports" / "a")
    return begin_report(
        loaded, aggregate.tables(loaded, CRITERION), ProblemReplay(loaded, Catalog.of(folder / data)), options
    )()


def test_all_files_are_written(written):
    folder, files = written
    assert files[0] == folder / "reports" / "a" / "report.html"
    names = {file.name for file in files}
    group = "modelnet40_noisy_1024"
    kinds = (f"cdf_{group}", f"angle_{group}", f"categories_{group}", "time_points", "time_angle_256")
    assert {f"{kind}.{end}" for kind in kinds for end in ("png", "svg")} <= names
    stems = (f"categories_{group}", f"summary_{group}", "table1", "table2", "conventions")
    assert {f"{stem}.{end}" for stem in stems for end in ("csv", "md", "tex")} | {"summary.md"} <= names
    assert all(file.stat().st_size > 20 for file in files)
    assert not list(folder.rglob("*.tmp"))


def test_two_reports_of_one_run_are_the_same_bytes(written, synthetic, tmp_path):
    problems, outcomes, run = synthetic
    again = report(as_loaded(problems, outcomes.sample(frac=1, random_state=3), run), tmp_path)
    for one, two in zip(written[1], again, strict=True):
        if one.suffix != ".png":
            assert one.read_bytes().replace(bytes(written[0]), bytes(tmp_path)) == two.read_bytes(), one.name


@pytest.mark.parametrize("keep", ["skipped", "accuracy", "one method"])
def test_runs_with_little_in_them(synthetic, tmp_path, keep):
    problems, outcomes, run = synthetic
    kept = {
        "skipped": outcomes[outcomes["status"] == "skipped"],
        "accuracy": outcomes[outcomes["phase"] == "accuracy"],
        "one method": outcomes[(outcomes["method"] == "fgr+icp") & (outcomes["phase"] == "accuracy")],
    }[keep]
    files = report(as_loaded(problems, kept, run | {"notes": [], "unavailable": {}}), tmp_path)
    assert files[0].exists() and len(files) >= 2
