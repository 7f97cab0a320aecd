"""`bench.py verify`: an honest run passes, and every kind of forged run is refused."""

import json
import random
import shutil

import pytest

from bench.cli import main
from bench.isolation import server
from bench.isolation.protocol import RegisterRequest
from bench.planning.catalog import Catalog
from bench.report.verify import NOT_SOLVED, Verdict, VerifyRequest, claims_of, problem_fault, verify
from performance import forgeries

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


def test_a_folder_without_a_run_is_bad_input(tmp_path, capsys):
    assert main.main(["verify", str(tmp_path)]) == 2
    assert "no record.sqlite" in capsys.readouterr().err
