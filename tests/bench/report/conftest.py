"""A synthetic run and its report, shared by the tests of this folder."""

import pytest

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.planning.catalog import Catalog
from bench.report import (
    Options,
    ProblemReplay,
    begin_report,
    errors_by_group,
)
from tests.bench.synthetic_run import HOSTILE, as_loaded, synthetic_run

CRITERION = CONVENTIONS["deepgmr"]


FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


def report(loaded, folder, against=False, data="nowhere"):
    options = Options(CRITERION, against, folder / "results" / "a", folder / "reports" / "a")
    frames, replay = aggregate.tables(loaded, CRITERION), ProblemReplay(loaded, Catalog.of(folder / data))
    return begin_report(loaded, frames, errors_by_group(frames, CRITERION), replay, options)()


@pytest.fixture(scope="session")
def synthetic():
    return synthetic_run(n=24, sizes=(256,), methods=FEW, conditions=("noisy",))


@pytest.fixture(scope="session")
def frames():
    return aggregate.tables(as_loaded(*synthetic_run(n=40, sizes=(256, 4096))), CRITERION)


@pytest.fixture(scope="session")
def written(synthetic, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, report(as_loaded(*synthetic), folder)
