"""Single claims of a run: what is found wrong when one fact, problem, outcome or cell is another one."""

import hashlib
import json
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import aggregate
from bench.evaluation.loader import POSE_COLUMNS
from bench.evaluation.problem_groups import problem_set_of
from bench.planning.config import configuration_hash
from bench.report import verify
from bench.report.replay import ProblemReplay
from bench.report.verify import Finding, RunClaims, Verdict
from bench.storage.csv_writer import csv_text
from tests.bench.report.real_run import real_run
from tests.bench.synthetic_run import as_loaded, synthetic_run

CLEAN, NOISY = "modelnet40/clean/1024", "modelnet40/noisy/1024"


@pytest.fixture(scope="module")
def honest():
    """A run of two methods and the oracle on four problems of two groups, in which everything is as claimed."""
    problems, outcomes, facts = synthetic_run(
        n=4, sizes=(256,), methods=("icp", "fgr", "oracle"), conditions=("clean", "noisy")
    )
    outcomes = outcomes[~outcomes["problem"].str.startswith("none/")].assign(seed=0)
    loaded = as_loaded(problems, outcomes, facts)
    config = facts["config"] | {"methods": ["icp", "fgr"], "oracle": True, "limits": {}, "problems": 4, "repeats": 2}
    methods = {"icp": {"random": False}, "fgr": {"random": False}, "oracle": {"random": False}}
    facts = facts | {"config": config, "methods": methods, "unavailable": {}, "schema": 3, "finished": "today"}
    rows = {name: _rows(loaded, name) for name in (CLEAN, NOISY)}
    sets = {name: problem_set_of(loaded, own) for name, own in rows.items()}
    facts |= {"problem_sets": sets, "hash": configuration_hash(config)}
    return replace(loaded, run=facts)


def _rows(loaded, group):
    names = loaded.problems["problem"].astype(str)
    return np.flatnonzero(names.str.startswith(group + "/00"))


def claims(loaded, facts=None, outcomes=None, config=None, **changes):
    """The claims of a run whose facts, configuration or outcomes were changed, without another hash."""
    run = deepcopy(loaded.run) | (facts or {})
    run["config"] = run["config"] | (config or {})
    loaded = replace(loaded, run=run, outcomes=loaded.outcomes if outcomes is None else outcomes)
    given = {"folder": None, "code": {}, "configuration_hash": loaded.run["hash"], "finished": True, "catalog": None}
    return RunClaims(loaded=loaded, **given | changes)


def where(loaded, method, group=NOISY, phase="accuracy"):
    o = loaded.outcomes
    group = f"/{group.split('/')[1]}/"
    return (o["method"] == method) & o["problem"].astype(str).str.contains(group) & (o["phase"] == phase)


CHECKS = (verify.configuration_faults, verify.problem_set_faults, verify.completeness_faults, verify.outcome_faults)


def test_nothing_is_found_wrong_in_an_honest_run(honest):
    assert [list(check(claims(honest))) for check in CHECKS] == [[]] * 4
    assert claims(honest).seeds == [0] and claims(honest, config={"seeds": [7, 0]}).seeds == [7, 0]


def test_the_configuration_has_its_hash_and_the_run_its_end(honest):
    computed = configuration_hash(honest.run["config"])[:12]
    for changed in (claims(honest, {"hash": "0" * 64}), claims(honest, configuration_hash="0" * 64)):
        claimed = changed.loaded.run["hash"][:12]
        expected = [f"the configuration has the hash {computed}, the run claims {claimed}"]
        assert list(verify.configuration_faults(changed)) == expected
    assert list(verify.configuration_faults(claims(honest, finished=False))) == ["the run was stopped before its end"]
    assert len(list(verify.configuration_faults(claims(honest, config={"seed": 1})))) == 1


def test_every_group_has_its_problems(honest):
    def found(changed):
        return list(verify.problem_set_faults(changed))

    sets = honest.run["problem_sets"]
    more = sets | {"modelnet40/partial/1024": "0" * 64}
    assert found(claims(honest, {"problem_sets": more})) == ["modelnet40/partial/1024: has no stored problem"]
    other = sets | {NOISY: "0" * 64}
    assert found(claims(honest, {"problem_sets": other})) == [
        f"{NOISY}: its problems have another SHA-256 than the run claims"
    ]
    assert found(claims(honest, config={"seeds": [0, 1]})) == [
        f"{name}: has problems of the seeds [0], not of [0, 1]" for name in (CLEAN, NOISY)
    ]
    assert found(claims(honest, config={"problems": 5})) == [
        f"{name}: has 4 problems; the configuration has 5" for name in (CLEAN, NOISY)
    ]
    kept = np.setdiff1d(np.arange(len(honest.problems)), _rows(honest, NOISY)[1])
    without = replace(honest, problems=honest.problems.iloc[kept].reset_index(drop=True))
    lines = found(claims(without))
    assert lines[0] == f"{NOISY}: problems are missing among the first 4" and lines[-1].endswith("than the run claims")
    assert f"{NOISY}: has 3 problems; the configuration has 4" in lines and len(lines) == 3
    unused = found(claims(honest, outcomes=honest.outcomes[honest.outcomes["phase"] == "accuracy"]))
    timed = honest.problems["problem"].astype(str)
    assert unused == [f"{n}: is a problem that the run has no use for" for n in timed if "/0-180/" in n]


def completeness(*arguments, **changes):
    return list(verify.completeness_faults(claims(*arguments, **changes)))


def test_every_method_has_the_outcomes_that_the_configuration_requires(honest):
    o, noisy = honest.outcomes, where(honest, "icp")
    last = noisy & o["problem"].astype(str).str.endswith("3")
    assert completeness(honest, config={"methods": ["icp"]}) == ["fgr: is not in the configuration"]
    assert completeness(honest, config={"oracle": False}) == ["oracle: is not in the configuration"]
    lacks = f"icp has outcomes of 3 problems of {NOISY}, not of 4"
    assert completeness(honest, outcomes=o[~last]) == [lacks]
    assert completeness(honest, outcomes=o[~noisy]) == [f"icp has outcomes of 0 problems of {NOISY}, not of 4"]
    assert completeness(honest, config={"limits": {"icp": 0.75}}) == [
        f"icp has outcomes of 4 problems of {name}, not of 3" for name in (CLEAN, NOISY)
    ]
    assert completeness(honest, outcomes=o[~last], config={"limits": {"icp": 0.75}}) == [
        f"icp has outcomes of 4 problems of {CLEAN}, not of 3"
    ]
    first = noisy & o["problem"].astype(str).str.endswith("0")
    swapped = completeness(honest, outcomes=o[~first], config={"limits": {"icp": 0.75}})
    assert swapped[1] == f"icp lacks an outcome of {NOISY}/00000, and has one of {NOISY}/00003"
    oracle = where(honest, "oracle") & o["problem"].astype(str).str.endswith("3")
    assert completeness(honest, outcomes=o[~oracle], config={"limits": {"oracle": 0.75}}) == [
        f"oracle has outcomes of 3 problems of {NOISY}, not of 4"
    ]


def test_an_extra_grid_requires_the_groups_that_a_method_has(honest):
    """With groups of sizes that the main grid lacks, a method need not have all groups."""
    o, grid = honest.outcomes, {"datasets": ["modelnet40"], "conditions": ["noisy"], "points": [1024]}
    extra = {"more": [grid | {"methods": ["fgr"]}], "methods": ["icp"]}
    assert completeness(honest, config=extra) == []
    assert completeness(honest, outcomes=o[~where(honest, "fgr")], config=extra) == []
    gone = where(honest, "icp") & o["problem"].astype(str).str.endswith("3")
    assert completeness(honest, outcomes=o[~gone], config=extra) == [
        f"icp has outcomes of 3 problems of {NOISY}, not of 4"
    ]
    assert completeness(honest, outcomes=o[~where(honest, "icp")], config=extra) == [
        f"icp has outcomes of 0 problems of {NOISY}, not of 4"
    ]
    fewer = extra | {"points": []}
    assert completeness(honest, outcomes=o[~where(honest, "icp")], config=fewer) == []
    assert completeness(honest, outcomes=o[~where(honest, "oracle")], config=fewer) == []


def test_repeats_and_skipped_problems_are_as_claimed(honest):
    o, noisy = honest.outcomes, where(honest, "icp")
    last = noisy & o["problem"].astype(str).str.endswith("3")
    random = {"methods": honest.run["methods"] | {"icp": {"random": True}}}
    twice = pd.concat([o, o[o["method"] == "icp"].assign(repeat=1)])
    assert completeness(honest, random, twice) == []
    for wrong in (o.assign(repeat=o["repeat"].mask(last, 1)), pd.concat([o, o[last].assign(repeat=1)])):
        assert completeness(honest, outcomes=wrong) == [f"icp has other repeats of {NOISY}/00003 than 0 to 0"]
    assert completeness(honest, random, o) == [
        f"icp has other repeats of {name}/00000 than 0 to 1" for name in (CLEAN, NOISY)
    ]
    gap = pd.concat([o, o[o["method"] == "icp"].assign(repeat=np.where(last[o["method"] == "icp"], 2, 1))])
    assert completeness(honest, random, gap) == [f"icp has other repeats of {NOISY}/00003 than 0 to 1"]
    skipped = f"icp skipped {NOISY}/00003, although it was available"
    some = o.assign(status=pd.Categorical(o["status"].astype(object).mask(last, "skipped")))
    every = o.assign(status=pd.Categorical(o["status"].astype(object).mask(noisy, "skipped")))
    unavailable = {"unavailable": {"icp": "why"}}
    assert completeness(honest, outcomes=some) == completeness(honest, unavailable, some) == [skipped]
    assert completeness(honest, unavailable, every) == []
    assert completeness(honest, outcomes=every) == [f"icp skipped {NOISY}/00000, although it was available"]


@pytest.mark.parametrize(
    ("limits", "method", "problems", "expected"),
    [
        ({}, "fgr", 40, 40),
        ({}, "fgr", 7, 7),
        ({"fgr": 0.5}, "fgr", 40, 20),
        ({"fgr": 0.5}, "fgr+icp", 40, 20),
        ({"fgr": 0.5}, "fgr[tuples=9]+icp", 15, 15),
        ({"fgr": 0.5, "fgr+icp": 0.25}, "fgr+icp", 40, 10),
        ({"icp": 0.5}, "fgr+icp", 40, 40),
        ({"fgr": 0.001}, "fgr", 40, 1),
        ({"fgr": 0.04}, "fgr", 40, 2),
    ],
)
def test_a_method_gets_a_share_of_the_problems_and_at_least_one(limits, method, problems, expected):
    assert verify._limit({"problems": 40, "limits": limits}, method, problems) == expected


def test_outcomes_that_contradict_themselves_are_found(honest):
    def found(outcomes):
        return list(verify.outcome_faults(claims(honest, outcomes=outcomes)))

    o = honest.outcomes
    last = where(honest, "icp") & o["problem"].astype(str).str.endswith("3")
    assert found(o.assign(seed=o["seed"].mask(last, 5))) == [f"icp on {NOISY}/00003: has the seed of another run"]
    reflected = o.assign(status=pd.Categorical(o["status"].astype(object).mask(where(honest, "icp"), "ok")))
    reflected.loc[where(honest, "icp"), POSE_COLUMNS] = np.diag([1.0, 1, -1, 1]).ravel()
    assert found(reflected) == [f"icp on {NOISY}/0000{i}: no rigid pose" for i in range(3)], "at most three are listed"
    wrong = "the control oracle, whose poses are the true ones, has errors"
    moved = o.copy()
    moved.loc[where(honest, "oracle"), "t03"] += 1e-6
    skipped = o.assign(status=pd.Categorical(o["status"].astype(object).mask(where(honest, "oracle"), "skipped")))
    failed = o.assign(status=pd.Categorical(o["status"].astype(object).mask(where(honest, "oracle"), "timeout")))
    assert found(moved) == found(skipped) == found(failed) == [wrong]


def test_the_facts_are_those_of_the_database(honest, tmp_path):
    run = claims(honest, folder=tmp_path)

    def found(text):
        (tmp_path / "run.json").write_text(text)
        return list(verify.run_json_faults(run))

    facts = run.loaded.run
    assert found(json.dumps(facts)) == found(json.dumps(facts | {"later": 1})) == []
    assert found(json.dumps(facts | {"notes": []})) == ["notes differs from the database"]
    assert found(json.dumps({n: f for n, f in facts.items() if n != "notes"})) == ["notes differs from the database"]
    earlier = {name: fact for name, fact in facts.items() if name not in ("schema", "finished")}
    assert found(json.dumps(earlier)) == found(json.dumps(facts | {"schema": 2})) == []
    for schema in (4, 0, "3", None):
        assert found(json.dumps(facts | {"schema": schema})) == ["schema differs from the database"]
    assert found(json.dumps(facts | {"finished": "later"})) == ["finished differs from the database"]
    assert found("{")[0].startswith("run.json cannot be read (") and len(found("{")) == 1
    (tmp_path / "run.json").unlink()
    assert next(verify.run_json_faults(run)).startswith("run.json cannot be read (")


def test_cells_rows_and_columns_of_a_table_are_compared():
    frame = pd.DataFrame({"method": ["a", "b", "c"], "recall": [0.5, 0.25, np.nan], "as_good": [1.0, 0.5, 0.0]})

    def found(written):
        return list(verify._table_differences("t", frame, written))

    text = pd.DataFrame({"method": ["a", "b", "c"], "recall": ["0.5", "0.25", ""], "as_good": ["", "", ""]})
    assert found(text) == found(text.drop(columns="recall")) == []
    assert found(text.assign(mine="1")) == ["t.csv has the unknown columns mine"]
    assert found(text[:2]) == ["t.csv has 2 rows, not 3"]
    changed = text.assign(recall=["0.5", "0.3", "1"])
    assert found(changed) == ["t.csv, line 3, recall: 0.3, not 0.25 (2 rows)"]
    assert found(changed.assign(method=["x", "b", "c"]))[0] == "t.csv, line 2, method: x, not a (1 row)"


def test_every_table_is_compared_byte_by_byte_or_cell_by_cell(honest, tmp_path, monkeypatch):
    run = claims(honest, folder=tmp_path)
    tables = {name: pd.DataFrame({name: [0.5, np.nan]}) for name in ("summary", "cdf", "stages", "trials")}
    monkeypatch.setattr(aggregate, "tables", lambda loaded, criterion: tables if loaded is run.loaded else {})
    for name, frame in tables.items():
        (tmp_path / f"{name}.csv").write_bytes(csv_text(frame))
    assert list(verify.table_faults(run)) == []
    (tmp_path / "cdf.csv").unlink()
    (tmp_path / "stages.csv").write_text("")
    (tmp_path / "summary.csv").write_text((tmp_path / "summary.csv").read_text().replace("\n", "\r\n"))
    faults = list(verify.table_faults(run))
    assert sorted(faults)[0] == "cdf.csv is missing" and sorted(faults)[1].startswith("stages.csv cannot be read (")
    assert len(faults) == 2 and verify.digests(tmp_path).keys() == {f"{n}.csv" for n in tables if n != "cdf"}
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "other.txt").write_text("")
    digests = verify.digests(tmp_path)
    assert next(iter(digests)) == "run.json" and "other.txt" not in digests
    assert digests["run.json"] == hashlib.sha256(b"{}").hexdigest()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    from bench.planning.catalog import Catalog

    run = real_run("noisy")
    return run, ProblemReplay(run, Catalog.of(tmp_path_factory.mktemp("nothing"))).problem(run.problems["problem"][1])


def test_each_part_of_a_problem_is_compared(real):
    run, problem = real
    assert verify.problem_fault(run, 1, problem) is None
    scenes = run.scenes
    for name, says in (
        ("truth", "its true pose is not that of its key"),
        ("source_pose", "its source pose is not that of its key"),
        ("first", "its evaluation points are not those of its key"),
    ):
        other = replace(run, scenes=scenes._replace(**{name: getattr(scenes, name) + np.float64(1e-9)}))
        assert verify.problem_fault(other, 1, problem) == says
    for part in ("mean", "root"):
        moments = scenes.moments._replace(**{part: getattr(scenes.moments, part) * (1 + 1e-12)})
        found = verify.problem_fault(replace(run, scenes=scenes._replace(moments=moments)), 1, problem)
        assert found == "its evaluation points are not those of its key"
    problems = run.problems.assign(digest=b"other")
    assert "its clouds or its true pose" in verify.problem_fault(replace(run, problems=problems), 1, problem)
    one = run.problems.assign(category="other")
    assert verify.problem_fault(replace(run, problems=one), 1, problem) == "its category differs"
    two = verify.problem_fault(replace(run, problems=one.assign(overlap=0.5)), 1, problem)
    assert two in ("its category, overlap differ", "its overlap, category differ")
    for stored, again, same in ((None, np.eye(6), False), (np.eye(6), None, False), (np.eye(6), np.eye(6), True)):
        informed = replace(run, information={1: stored} if stored is not None else {})
        found = verify.problem_fault(informed, 1, replace(problem, information=again))
        assert found == (None if same else "its information matrix differs")
    other = verify.problem_fault(
        replace(run, information={1: np.eye(6)}), 1, replace(problem, information=2 * np.eye(6))
    )
    assert other == "its information matrix differs"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1.0, 1, True),
        ("x", "x", True),
        ("x", "y", False),
        (None, np.nan, True),
        (None, "", False),
        (np.nan, 0.0, False),
    ],
)
def test_tags_are_equal_if_both_are_missing(a, b, same):
    assert verify._same(a, b) is same and verify._same(b, a) is same


def test_a_check_without_faults_is_verified_and_one_with_lists_three():
    assert verify._finding("a", []) == Finding("a", Verdict.VERIFIED, "as claimed")
    assert verify._finding("a", [], "text", verified=False) == Finding("a", Verdict.UNVERIFIED, "text")
    for verified in (True, False):
        refused = Finding("a", Verdict.REFUSED, "1; 2; 3 and 1 more")
        assert verify._finding("a", ["1", "2", "3", "4"], "text", verified) == refused


@pytest.mark.parametrize(
    ("solved", "other", "verdict"),
    [
        (Verdict.VERIFIED, Verdict.VERIFIED, Verdict.VERIFIED),
        (Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.VERIFIED),
        (Verdict.VERIFIED, Verdict.REFUSED, Verdict.REFUSED),
        (Verdict.UNVERIFIED, Verdict.VERIFIED, Verdict.FILES_VERIFIED),
        (Verdict.UNVERIFIED, Verdict.REFUSED, Verdict.REFUSED),
        (Verdict.REFUSED, Verdict.VERIFIED, Verdict.REFUSED),
    ],
)
def test_a_run_is_verified_if_nothing_is_refused_and_poses_were_solved_again(solved, other, verdict):
    findings = [Finding(verify.SOLVED, solved, ""), Finding("other", other, "")]
    assert verify.verdict_of(findings) is verify.verdict_of(findings[::-1]) is verdict
