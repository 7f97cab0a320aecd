"""Outcomes that are solved again: which, with what, for how long, and what a difference means. With a stand-in process."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bench.evaluation.loader import POSE_COLUMNS
from bench.isolation.protocol import Limits, MethodSetup, PairReply, Reply
from bench.planning.catalog import Catalog
from bench.report import solve_again
from bench.report.replay import ProblemReplay
from bench.report.solve_again import TOLERANCE, SolveAgain, SolvedAgain, pose_of
from bench.storage.outcome import Status
from common.errors import InputError
from common.kinds import DataKind
from datasets.problems import call_seed
from methods.core.registry import MethodSpec
from tests.bench.report.real_run import real_run

CONFIG = {"timeout": 7.0, "memory_limit_gb": 3.0, "threads": 2, "device": "cpu"}
HERE = {"cpu": "a processor", "packages": {"numpy": "2"}, "os": "Linux"}
FACTS = {"config": CONFIG, "methods": {"pca": {}, "icp": {}}, "unavailable": {}, "environment": HERE}
NAMES = {"exact": "pca", "turned": "icp"}


@pytest.fixture(scope="module")
def run():
    """A run of two methods on four problems, which `answer` of the stand-in process repeats."""
    loaded = real_run("noisy")
    methods = loaded.outcomes["method"].astype(str).map(NAMES).astype("category")
    return replace(loaded, outcomes=loaded.outcomes.assign(method=methods), run=FACTS)


@pytest.fixture(scope="module")
def catalog():
    return Catalog.of()


@pytest.fixture(scope="module")
def solved(run, catalog):
    """Problems by name, and poses by method and problem."""
    replay = ProblemReplay(run, catalog)
    poses = {
        (str(row["method"]), str(row["problem"])): row[POSE_COLUMNS].to_numpy(float).reshape(4, 4)
        for _, row in run.outcomes.iterrows()
    }
    return {name: replay.problem(name) for name in run.problems["problem"]}, poses


@pytest.fixture
def again(run, catalog, solved, monkeypatch):
    """A comparison with a stand-in for the processes, whose clock moves by a second per call; `made` lists what they got."""
    stub = SimpleNamespace(made=[], closed=0, now=0.0, setup_s=0.0, answer=None, notes={})
    problems, stored = dict(solved[0]), solved[1]
    code = {name: {"file": name} for name in FACTS["methods"]}
    monkeypatch.setattr(MethodSpec, "source_hashes", lambda self: {"file": self.text})
    names = {problem.source.tobytes(): name for name, problem in problems.items()}
    monkeypatch.setattr(ProblemReplay, "problem", lambda self, name: problems[name])
    monkeypatch.setattr(solve_again, "environment", lambda: HERE)

    class Process:
        def __init__(self, setup, limits):
            self.setup, self.process = setup, None
            stub.made.append(limits)

        def set_up(self, setup):
            self.setup, self.process = setup, object()
            stub.made.append(setup)
            stub.now += stub.setup_s
            return Reply(notes=stub.notes)

        def register(self, source, target, seed):
            name = names[source.tobytes()]
            stub.made.append((name, target is problems[name].target, seed))
            stub.now += 1.0
            pose = stored[self.setup.method.text, name]
            return stub.answer(pose) if stub.answer else Reply(pairs=[PairReply(pose=pose)])

        def close(self):
            stub.closed += 1

    monkeypatch.setattr(solve_again, "MethodProcess", Process)
    monkeypatch.setattr(solve_again.time, "monotonic", lambda: stub.now)

    def result(budget_s=1e3, seed=0, **changes):
        stub.made.clear()
        loaded = replace(run, **changes)
        return SolveAgain(loaded, ProblemReplay(loaded, catalog), code, budget_s, seed).result()

    stub.problems = problems
    return stub, result


def test_all_outcomes_are_solved_as_in_the_run_and_found_equal(again):
    stub, result = again
    found = result()
    assert found == SolvedAgain([], [], 8, 8, 8)
    assert found.summary == "8 of 8 outcomes are equal, of 8 that could be solved again"
    first, setup, *_ = stub.made
    assert first == Limits(7.0, 3.0) and stub.closed == 2
    assert (setup.method.text, setup.domain, setup.device, setup.threads) == ("pca", "shapes40", "cpu", 2)
    assert (setup.seed, setup.kind) == (3, DataKind.OBJECTS)
    calls = [made for made in stub.made if isinstance(made, tuple) and len(made) == 3]
    assert len({call[:2] for call in calls}) == 4 and all(is_target for _, is_target, _ in calls)
    seeds = {(name, seed) for name, _, seed in calls}
    expected = {(n, call_seed(p, m, 0)) for n, p in stub.problems.items() for m in ("pca", "icp")}
    assert seeds == expected and [made for made in stub.made if isinstance(made, MethodSetup)] == [setup, stub.made[7]]


def test_without_time_nothing_is_solved(again):
    stub, result = again
    for budget_s in (0.0, -1.0):
        assert result(budget_s) == SolvedAgain(reasons=[("", "no time was given for it")]) and stub.made == []


@pytest.mark.parametrize(
    ("budget_s", "setup_s", "calls"), [(1e-9, 0.0, 1), (3.0, 0.0, 2), (3.0, 50.0, 1), (9.0, 0.0, 4)]
)
def test_each_method_has_an_equal_share_of_the_time_and_at_least_one_call(again, budget_s, setup_s, calls):
    """A call that ends after the share is the last; a setup that takes longer leaves time for one call."""
    stub, result = again
    stub.setup_s = setup_s
    found = result(budget_s)
    assert (found.solved, found.candidates) == (2 * calls, 8)


def test_the_choice_depends_on_the_seed_and_on_the_method(again):
    stub, result = again

    def chosen(seed):
        result(1e-9, seed)
        return [made[0] for made in stub.made if isinstance(made, tuple) and len(made) == 3]

    drawn = [chosen(seed) for seed in range(8)]
    assert chosen(0) == drawn[0] and len(set(map(tuple, drawn))) > 3 and any(len(set(names)) == 2 for names in drawn)


@pytest.mark.parametrize(
    ("column", "value"), [("phase", "timing"), ("status", "timeout"), ("status", "crash"), ("batch", 2)]
)
def test_outcomes_that_depend_on_time_or_memory_are_left_out(again, run, column, value):
    _, result = again
    changed = run.outcomes.copy()
    changed[column] = changed[column].astype(object)
    mine = changed["method"] == "pca"
    changed.loc[mine, column] = value
    found = result(outcomes=changed)
    assert found.candidates == 4 and found.reasons == [("pca", "no outcome is independent of time and memory")]
    assert result(outcomes=changed, run=FACTS | {"unavailable": {"pca": "why"}}).reasons == []


def test_a_method_or_problem_that_is_not_here_is_a_reason(again, run):
    stub, result = again
    renamed = run.outcomes.assign(method=run.outcomes["method"].astype(str).replace("icp", "absent"))
    found = result(outcomes=renamed, run=FACTS | {"methods": {"pca": {}, "absent": {}}})
    ((name, reason),) = found.reasons
    assert name == "absent" and "unknown method 'absent'" in reason and found.solved == 4
    for problem in stub.problems:
        stub.problems[problem] = None
    assert result() == SolvedAgain(reasons=[("pca", "data missing"), ("icp", "data missing")], candidates=8)


@pytest.mark.parametrize(("share", "equal"), [(0.9, True), (1.1, False)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_pose_is_equal_within_a_tolerance(again, share, equal, sign):
    """In every element: of the rotation, too, and whatever its sign."""
    stub, result = again
    for row in (0, 1):
        moved = np.zeros((4, 4))
        moved[row, 3] = sign * share * TOLERANCE
        stub.answer = lambda pose, moved=moved: Reply(pairs=[PairReply(pose=pose + moved)])
        found = result()
        assert found.equal == 8 * equal and len(found.faults) == 8 * (not equal) and found.reasons == []
        assert equal or all(line.endswith(": gives another pose") for line in found.faults)


def test_another_ending_is_a_fault_and_the_same_failure_is_equal(again, run):
    stub, result = again
    stub.answer = lambda pose: Reply(pairs=[PairReply(Status.NO_SOLUTION)])
    found = result()
    assert found.equal == 0 and len(found.faults) == 8
    assert found.faults[0].startswith("pca on shapes40/noisy/128/0000")
    assert found.faults[0].endswith(": gives no_solution, not ok")
    failed = run.outcomes.assign(status="no_solution")
    failed[POSE_COLUMNS] = np.nan
    assert result(outcomes=failed).equal == 8


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"cpu": "other"}, "with another cpu"),
        ({"packages": {}, "cpu": "other"}, "with another cpu and other packages"),
        ({"gpu": {"name": "A"}, "os": "other"}, ""),
    ],
)
def test_a_difference_under_other_conditions_is_no_fault(again, changes, why):
    stub, result = again
    stub.answer = lambda pose: Reply(pairs=[PairReply(Status.NO_SOLUTION)])
    found = result(run=FACTS | {"environment": HERE | changes})
    assert len(found.faults) == 8 * (not why) and len(found.reasons) == 8 * bool(why)
    assert all(reason.endswith(f"not ok, {why}") for _, reason in found.reasons)
    assert {name for name, _ in found.reasons} <= {"pca", "icp"}


def test_the_gpu_counts_for_methods_that_use_one(catalog, monkeypatch):
    monkeypatch.setattr(solve_again, "environment", lambda: HERE)
    monkeypatch.setattr(MethodSpec, "source_hashes", lambda self: {"file": self.text})
    there = HERE | {"gpu": {"name": "A"}}
    loaded = SimpleNamespace(run={"config": CONFIG | {"device": "cuda:1"}, "environment": there})
    monkeypatch.setattr(solve_again, "resolve", lambda name: name)
    for here, differs in (({"name": "A"}, False), ({"name": "B"}, True)):
        monkeypatch.setattr(solve_again, "identity", lambda device, here=here: here if device == "cuda:1" else {})
        for name, on_gpu in (("deepgmr", True), ("pca", False)):
            spec = catalog.methods.spec(name)
            one = SolveAgain(loaded, SimpleNamespace(catalog=catalog), {name: {"file": name}}, 1.0, 0)
            assert one._other_conditions(spec) == ("with another gpu" if on_gpu and differs else "")
            assert SolveAgain(loaded, None, {}, 1.0, 0)._other_conditions(spec) == "with another version of its code"
    assert SolveAgain(loaded, None, {}, 1.0, 0)._device() == "cuda:1"

    def fails(name):
        raise InputError("no GPU")

    monkeypatch.setattr(solve_again, "resolve", fails)
    assert SolveAgain(loaded, None, {}, 1.0, 0)._device() == "cpu"


@pytest.mark.parametrize(
    ("claimed", "loaded", "says"),
    [
        ({"a sha256": "1" * 64}, {"a sha256": "1" * 64, "b": "2"}, None),
        ({"a sha256": "1" * 64}, {"a sha256": "2" * 64}, "222222222222 here, the run claims 111111111111"),
        ({}, {"a sha256": "2" * 64}, "222222222222 here, the run claims none"),
        ({"a sha256": "1" * 64}, {}, "none here, the run claims 111111111111"),
        ({"a": "1"}, {"a": "2"}, None),
        (None, {"a sha256": "2" * 64}, None),
    ],
)
def test_weights_are_those_of_the_run(again, claimed, loaded, says):
    """Runs of earlier versions have no notes of any setup."""
    stub, result = again
    stub.notes = loaded
    setups = {} if claimed is None else {f"{m} on shapes40": claimed for m in ("pca", "icp")}
    found = result(run=FACTS | {"setup": setups})
    assert found.equal == 8 and len(found.faults) == (2 if says else 0)
    assert says is None or found.faults[0] == f"pca: its weights have the SHA-256 {says}"


def test_the_ending_of_a_reply_is_that_of_a_run(again):
    problem = next(iter(again[0].problems.values()))
    far = np.eye(4)
    far[0, 3] = 1e8
    for reply, ending in (
        (Reply(Status.CRASH, [PairReply(pose=np.eye(4))]), Status.CRASH),
        (Reply(), Status.OK),
        (Reply(pairs=[PairReply(pose=np.eye(4))] * 2), Status.OK),
        (Reply(pairs=[PairReply(Status.NO_SOLUTION, np.eye(4))]), Status.NO_SOLUTION),
        (Reply(pairs=[PairReply(pose=2 * np.eye(4))]), Status.INVALID),
        (Reply(pairs=[PairReply(pose=far)]), Status.INVALID),
    ):
        assert pose_of(reply, problem) == (ending, None)
    status, pose = pose_of(Reply(pairs=[PairReply(pose=np.eye(4, dtype=int))]), problem)
    assert status == Status.OK and pose.dtype == np.float64 and np.array_equal(pose, np.eye(4))
