"""`bench.py verify`: an honest run passes, and every kind of forged run is refused."""

import contextlib
import json
import random
import shutil
import sqlite3

import pytest

from bench.cli import main
from bench.evaluation.problem_groups import problem_counts
from bench.isolation import server
from bench.isolation.protocol import RegisterRequest
from bench.planning.catalog import Catalog
from bench.report.verify import (
    NOT_SOLVED,
    Verdict,
    VerifyRequest,
    claims_of,
    completeness_faults,
    problem_fault,
    problem_set_faults,
    verify,
)
from bench.storage.environment import ROOT
from performance import forgeries
from tests.bench.command_line import PLUGINS, refused

NO_TIME = "0"


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The folder of a run of two methods and the oracle, never changed by a test."""
    return forgeries.make_run(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def copied(honest, tmp_path):
    shutil.copytree(honest, tmp_path / "run")
    return tmp_path / "run"


def verdicts(folder, budget_s=0.0):
    return {f.check: f.verdict for f in verify(VerifyRequest(folder, Catalog.of(), budget_s, seed=0))}


def test_an_honest_run_is_verified_completely(honest, capsys):
    assert main.main(["verify", str(honest), "--budget", "1000", "--seed", "0", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    by_check = {finding["check"]: finding for finding in verdict["findings"]}
    assert verdict["verdict"] == "verified"
    assert {name for name, finding in by_check.items() if finding["verdict"] != "verified"} == {"claims"}
    assert by_check["problems"]["detail"] == "8 of 8 problems generated again"
    assert by_check["poses solved again"]["detail"] == "16 of 16 outcomes are equal, of 16 that could be solved again"


class InThisProcess:
    """Replaces `MethodProcess` by the same calls without the seconds that a process takes to start."""

    process = None

    def __init__(self, setup, limits):
        self.setup = setup

    def set_up(self, setup):
        self.setup, (self.process, ready) = setup, server._set_up(setup)
        return ready

    def register(self, source, target, seed):
        return server.register(self.process, self.setup.device, RegisterRequest((source,), (target,), seed))

    def close(self):
        pass


@pytest.fixture
def quickly(monkeypatch):
    monkeypatch.setattr("bench.report.solve_again.MethodProcess", InThisProcess)


@pytest.mark.parametrize("forgery", [*forgeries.FORGERIES, *forgeries.EDITS], ids=lambda f: f.__name__)
def test_a_forged_run_is_refused_although_its_files_agree(honest, tmp_path, quickly, forgery):
    forged = forgeries.forge(honest, tmp_path / "forged", forgery, random.Random(3))
    needs_solving = forgery in forgeries.NEEDS_SOLVING
    refused = [check for check, verdict in verdicts(forged, 1e3 * needs_solving).items() if verdict is Verdict.REFUSED]
    assert refused
    assert not needs_solving or refused == ["poses solved again"]


@pytest.mark.parametrize("forgery", forgeries.UNDECIDED, ids=lambda f: f.__name__)
def test_a_forgery_under_a_false_claim_leaves_the_method_unverified(honest, tmp_path, quickly, forgery):
    forged = forgeries.forge(honest, tmp_path / "forged", forgery, random.Random(3))
    findings = verify(VerifyRequest(forged, Catalog.of(), 1e3, seed=0))
    assert all(finding.verdict is not Verdict.REFUSED for finding in findings)
    open_to_doubt = {finding.method for finding in findings if finding.check == NOT_SOLVED}
    assert open_to_doubt and open_to_doubt <= {"pca", "random_pose", "ours"}


def test_scaled_times_are_listed_as_not_verifiable(honest, tmp_path, capsys):
    forged = forgeries.forge(honest, tmp_path / "forged", forgeries.scale_time, random.Random(3))
    assert main.main(["verify", str(forged), "--budget", NO_TIME]) == 0
    assert "not verifiable: times" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["summary", "trials", "poses", "cdf", "per_category"])
def test_an_edited_csv_is_refused_with_file_line_and_column(copied, capsys, name):
    path = copied / f"{name}.csv"
    head, first, rest = path.read_text().split("\n", 2)
    column = head.split(",").index("points")
    fields = first.split(",")
    fields[column] = "63"
    path.write_text("\n".join([head, ",".join(fields), rest]))
    assert main.main(["verify", str(copied), "--budget", NO_TIME]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert f"{name}.csv, line 2, points: 63, not 64" in text and "refused: tables" in text


def test_a_removed_row_and_a_missing_csv_are_refused(copied):
    lines = (copied / "trials.csv").read_text().splitlines(keepends=True)
    (copied / "trials.csv").write_text("".join(lines[:-1]))
    assert verdicts(copied)["tables"] is Verdict.REFUSED
    (copied / "trials.csv").unlink()
    assert verdicts(copied)["tables"] is Verdict.REFUSED


def test_a_column_that_an_earlier_version_lacks_is_no_fault(copied):
    import pandas as pd

    table = pd.read_csv(copied / "summary.csv", dtype=str, keep_default_na=False)
    table.drop(columns="recall_as_good").to_csv(copied / "summary.csv", index=False)
    assert verdicts(copied)["tables"] is Verdict.VERIFIED


def test_run_json_is_compared_with_the_database(copied):
    facts = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(facts | {"command": "bench.py --methods better"}))
    assert verdicts(copied)["run.json"] is Verdict.REFUSED
    for schema, verdict in ((facts["schema"] - 1, Verdict.VERIFIED), (facts["schema"] + 1, Verdict.REFUSED)):
        (copied / "run.json").write_text(json.dumps(facts | {"schema": schema}))
        assert verdicts(copied)["run.json"] is verdict


def test_problems_without_data_are_not_verified_and_not_refused(copied, monkeypatch):
    monkeypatch.setattr("bench.report.replay.ProblemReplay.generate", lambda *_: None)
    assert verdicts(copied)["problems"] is Verdict.UNVERIFIED


@pytest.mark.parametrize("reason", ["data missing", "no time was given for it"])
def test_a_run_of_which_nothing_was_solved_again_is_not_called_verified(copied, monkeypatch, capsys, reason):
    budget = ["--budget", "0" if "time" in reason else "9"]
    if reason == "data missing":
        monkeypatch.setattr("bench.report.replay.ProblemReplay._generate", lambda *_: None)
    assert main.main(["verify", str(copied), *budget]) == 0
    assert f"run: files verified; 0 outcomes solved again: {reason}" in capsys.readouterr().out
    assert main.main(["verify", str(copied), *budget, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "files verified"


def test_every_part_of_a_problem_is_compared(honest):
    run = claims_of(honest, Catalog.of())
    first, second = (run.replay.generate(str(name)) for name in run.loaded.problems["problem"][:2])
    assert problem_fault(run.loaded, 0, first) is None
    assert problem_fault(run.loaded, 0, second) == "its clouds or its true pose are not those of its key"


def test_outcomes_of_changed_code_are_solved_again_but_not_refused(honest, tmp_path, quickly, monkeypatch):
    forged = forgeries.forge(honest, tmp_path / "forged", forgeries.blend_pose, random.Random(3))
    monkeypatch.setattr("methods.core.registry.MethodSpec.source_hashes", lambda _: {"new": "code"})
    findings = verify(VerifyRequest(forged, Catalog.of(), 1e3, seed=0))
    assert all(finding.verdict is not Verdict.REFUSED for finding in findings)
    assert any("with another version of its code" in finding.detail for finding in findings)


TIMED = "--methods together oracle --conditions noisy --angles 0 180 --timing-rounds 4".split()
"""Timed calls on problems of the group of the accuracy phase, and on further ones: 32 in a batch, 4 rounds."""


def test_problems_that_only_timed_calls_got_belong_to_no_problem_set(bench, quickly, capsys):
    folder = bench(*TIMED, "--problems", 3)
    catalog = Catalog.of(plugins=PLUGINS)
    claims = claims_of(folder, catalog)
    assert len(claims.loaded.problems) == 32 and claims.groups == {"blobs/noisy/60": [0, 1, 2]}
    assert {f.verdict for f in verify(VerifyRequest(folder, catalog, 1e3)) if f.check != "claims"} == {Verdict.VERIFIED}
    bench(*TIMED, "--problems", 3, "--seed", 1, out="s")
    assert main.main(["merge", "r", "s", "--out", "both", "--plugins", str(PLUGINS)]) == 0
    assert "incomplete" not in capsys.readouterr().out
    merged = claims_of(folder.parent / "both", catalog)
    assert {seed: len(ids) for seed, ids in merged.problems_of("blobs/noisy/60").items()} == {0: 3, 1: 3}
    assert not list(problem_set_faults(merged)) and not list(completeness_faults(merged))
    bench(*TIMED, "--problems", 4, out="more")
    assert main.main(["compare", "r", "more"]) == 2
    assert "the problems of blobs/noisy/60 differ (3 and 4 problems)" in capsys.readouterr().err


def test_a_problem_that_neither_a_group_nor_a_timed_call_has_is_refused(bench):
    folder = bench(*TIMED, "--problems", 3)
    with contextlib.closing(sqlite3.connect(folder / "record.sqlite")) as db, db:
        db.execute("DELETE FROM outcomes WHERE problem LIKE '%/00031'")
    faults = list(problem_set_faults(claims_of(folder, Catalog.of(plugins=PLUGINS))))
    assert faults == ["blobs/noisy/60/00031: is a problem that the run has no use for"]


def test_numbers_of_problems_are_those_of_the_grid_that_has_the_group():
    grid = {"datasets": ["d"], "conditions": ["clean"], "points": [60], "problems": 9}
    config = grid | {
        "more": [grid | {"points": [40, 80], "problems": 4}, grid | {"conditions": ["noisy"], "problems": 99}]
    }
    assert problem_counts(config, "d/clean/60") == [9, 4]
    assert problem_counts(config, "d/clean/40") == [4, 9]
    assert problem_counts(config, "d/noisy/60")[0] == 9


def test_a_folder_without_a_record_is_bad_input_that_says_what_can_be_done(tmp_path, capsys):
    assert "no record.sqlite; give the name or folder of a run" in refused(capsys, "verify", tmp_path)
    (tmp_path / "run.json").write_text('{"command": "bench.py --methods icp"}')
    again = "this command makes it again: bench.py --methods icp"
    assert f"{tmp_path}: no record.sqlite; {again}" in refused(capsys, "verify", tmp_path)
    reference = refused(capsys, "verify", ROOT / "results" / "reference")
    assert (
        "only run.json and CSVs, which bench.load and publish read (docs/verify.md, Verify a number by hand)"
        in reference
    )
    assert "makes the record again: bench.py --methods all --datasets modelnet40" in reference
    missing = tmp_path / "results" / "mine"
    assert f"{missing}: no such run; looked in {missing.parent}: give" in refused(capsys, "verify", missing)
