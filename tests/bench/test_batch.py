"""Several pairs in one call: the same answers, each fault with its own problem, and times that never pass for latency."""

import json
import sqlite3
import sys
import types

import numpy as np
import pandas as pd
import pytest

from bench.conformance import checks
from bench.execution import pool_worker
from bench.isolation import server
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, RegisterRequest
from bench.planning.config import load_preset
from bench.storage.database import ResultsDatabase
from datasets.problems import ProblemKey, make_problem
from tests.bench.test_run import PLUGINS, TIMES, bench, read  # noqa: F401
from tests.catalog import build, open_data, spec


def pairs(n, points=50):
    return [make_problem(open_data("blobs", None, PLUGINS), ProblemKey("blobs", "noisy", points, i)) for i in range(n)]


@pytest.fixture
def child():
    """Starts a method's process."""
    started = []

    def start(method):
        started.append(MethodProcess(MethodSetup(spec(method, PLUGINS), "blobs"), Limits(20, 4)))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_a_run_in_batches_gives_the_same_and_says_so(bench):  # noqa: F811
    asked = ["--methods", "together", "good", "--problems", 19, "--conditions", "noisy"]
    alone, batched = bench(*asked, out="alone"), bench(*asked, "--batch", 8, out="batched")
    one, several = read(alone, "trials"), read(batched, "trials")
    changed = [*TIMES, "batch"]
    pd.testing.assert_frame_equal(one.drop(columns=changed), several.drop(columns=changed), rtol=1e-6)
    sizes = several.groupby("method")["batch"].value_counts().to_dict()
    assert sizes == {("together", 8): 16, ("together", 3): 3, ("good", 1): 19} and (one["batch"] == 1).all()
    assert read(batched, "summary").set_index("method")["batch"].to_dict() == {"together": 8, "good": 1}
    assert "batch" in read(batched, "poses")
    notes = json.loads((batched / "run.json").read_text())["notes"]
    assert any("a batch's over its pairs (--batch 8" in n and n.endswith("together") for n in notes)
    assert set(read(batched, "stages")["method"]) == {"good"}, "stages of a batch are not those of a pair"
    timing = read(batched, "timing").query("angle_low == 0 and angle_high == 180").set_index("method")
    assert timing["batch"].fillna(0).to_dict() == {"together": 8, "good": 0}
    assert np.isnan(timing.loc["together", "time_ms_median"]) and timing.loc["good", "time_ms_median"] > 0


def test_throughput_stands_beside_latency_and_apart_from_it(bench):  # noqa: F811
    folder = bench("--methods", "together", "good", "--problems", 3, "--conditions", "noisy", "--timing-rounds", 2)
    poses, timing = read(folder, "poses"), read(folder, "timing")
    asked = poses.groupby(["phase", "method", "batch"]).size().to_dict()
    assert asked["batch", "together", 32] == 64 and asked["timing", "together", 1] == asked["timing", "good", 1] == 2
    assert ("batch", "good", 32) not in asked
    whole = timing[(timing["angle_low"] == 0) & (timing["angle_high"] == 180)].set_index("method")
    assert whole["batch"].fillna(0).to_dict() == {"together": 32, "good": 0}
    share = poses[poses["phase"] == "batch"]["time_ms"].median()
    assert whole.loc["together", "pairs_per_s"] == pytest.approx(1000 / share) and np.isnan(
        whole.loc["good", "pairs_per_s"]
    )
    latency = poses[(poses["phase"] == "timing") & (poses["method"] == "together")]["time_ms"].median()
    assert whole.loc["together", "time_ms_median"] == pytest.approx(latency)
    parts = timing[timing["angle_high"] - timing["angle_low"] < 180]
    assert parts["batch"].isna().all() and parts["pairs_per_s"].isna().all()
    assert timing["gpu_memory_mb"].isna().all()


@pytest.mark.parametrize(
    ("method", "expected", "says"),
    [
        ("together_few", ["invalid"] * 5, "returned 4 results for 5 pairs"),
        ("together_spoilt", ["ok", "invalid", "no_solution", "invalid", "ok"], "not finite"),
        ("together_crash", ["crash"] * 5, "in a batch of 5: the process ended with exit code 4"),
        ("together_raise", ["error"] * 5, "in a batch of 5: RuntimeError: broke"),
        ("together_give_up", ["no_solution"] * 5, "none of them"),
    ],
)
def test_what_goes_wrong_in_a_batch_is_the_outcome_of_the_right_problems(child, method, expected, says):
    found = pool_worker.solve_problems(child(method), pairs(5), "accuracy", 0)
    assert [o.problem for o in found] == [p.key.id for p in pairs(5)]
    assert [o.status for o in found] == expected and all(o.batch == 5 for o in found)
    assert says in found[1].message and all((o.pose is None) == (o.status != "ok") for o in found)


def test_pairs_of_other_sizes_go_in_calls_of_their_own(child):
    mixed = [*pairs(2, 50), *pairs(1, 60), *pairs(3, 50)[2:]]
    found = pool_worker.solve_problems(child("together"), mixed, "accuracy", 0)
    sizes = {o.problem: o.batch for o in found}
    assert sizes == {p.key.id: 1 if p.key.points == 60 else 3 for p in mixed}
    assert all(o.status == "ok" for o in found)


def test_only_clouds_and_a_seed_cross_with_a_batch(child, monkeypatch):
    sent, one = [], child("together")
    one.start()
    exchange = one._exchange
    monkeypatch.setattr(
        one, "_exchange", lambda requests, timeout: (sent.append((requests, timeout)), exchange(requests, timeout))[1]
    )
    problems = pairs(3)
    pool_worker.solve_problems(one, problems, "accuracy", 0)
    ((request,), timeout) = sent[0]
    assert set(vars(request)) == {"sources", "targets", "seed"} and isinstance(request.seed, int)
    assert all(a is p.source for a, p in zip(request.sources, problems, strict=True))
    assert timeout == 3 * 20


def test_random_methods_and_chains_take_no_batches():
    made = {name: build(name, PLUGINS) for name in ("together", "together+icp", "good", "lottery")}
    assert [name for name, method in made.items() if method.solves_batches] == ["together"]


def test_the_check_of_batches_finds_what_is_wrong():
    assert "3 pairs at once" in checks.batches(build("together", PLUGINS))
    assert checks.batches(build("good", PLUGINS)) == "takes none"
    for name, says in {
        "together_few": "2 results for 3 pairs",
        "together_raise": "broke",
        "together_spoilt": "another",
    }.items():
        with pytest.raises(checks.CheckFailed, match=says):
            checks.batches(build(name, PLUGINS))


def test_growth_of_gpu_memory_is_measured_over_the_idle_state(monkeypatch):
    told = []
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        reset_peak_memory_stats=lambda device: told.append(("reset", device)),
        memory_allocated=lambda device: 100 * 2**20,
        max_memory_allocated=lambda device: 350 * 2**20,
        synchronize=lambda device: told.append(("synchronise", device)),
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    cloud = np.zeros((5, 3), np.float32)
    request = RegisterRequest([cloud], [cloud], 0)
    method = build("identity")
    assert server.register(method, "cuda:0", request).gpu_memory_mb == 250
    assert told == [("reset", "cuda:0"), ("synchronise", "cuda:0")]
    assert np.isnan(server.register(method, "cpu", request).gpu_memory_mb) and len(told) == 2
    cuda.is_available = lambda: False
    assert np.isnan(server.register(method, "cuda:0", request).gpu_memory_mb) and len(told) == 2


def test_a_record_of_an_earlier_version_is_continued(tmp_path, bench):  # noqa: F811
    asked = ["--methods", "good", "--problems", 3, "--conditions", "noisy"]
    folder = bench(*asked)
    before = read(folder, "trials")
    with sqlite3.connect(folder / "record.sqlite") as db:
        for name in ("batch", "gpu_memory_mb"):
            db.execute(f"ALTER TABLE outcomes DROP COLUMN {name}")
    pd.testing.assert_frame_equal(read(bench(*asked), "trials"), before)
    record = ResultsDatabase(folder / "record.sqlite")
    assert len(record.finished_keys("accuracy")) == 3
    record.close()


def test_repeats_are_of_random_methods_and_the_first_is_as_ever(bench):  # noqa: F811
    asked = ["--methods", "good", "lottery", "oracle", "--problems", 6, "--conditions", "noisy"]
    once, thrice = bench(*asked, out="once"), bench(*asked, "--repeats", 3, "--jobs", 2, out="thrice")
    few, many = read(once, "trials"), read(thrice, "trials")
    assert many.groupby("method")["repeat"].nunique().to_dict() == {"good": 1, "lottery": 3, "oracle": 1}
    first = many[many["repeat"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(few.drop(columns=TIMES), first.drop(columns=TIMES))
    assert many[many["method"] == "lottery"].groupby("problem")["rre_deg"].nunique().eq(3).all(), "seeds differ"
    row = read(thrice, "summary").set_index("method").loc["lottery"]
    mine = many[many["method"] == "lottery"]
    assert (row["problems"], row["distinct_problems"]) == (18, 6)
    assert row["recall"] == pytest.approx((mine["rmse"] < 0.2).groupby(mine["problem"]).mean().mean())
    assert row["rmse_mean_answered"] == pytest.approx(mine.groupby("problem")["rmse"].mean().mean())
    assert row["rmse_median"] == pytest.approx(mine.groupby("problem")["rmse"].median().median())
    assert row["rmse_mean_low"] <= row["rmse_mean_answered"] <= row["rmse_mean_high"]
    assert row["rmse_seed_sd"] > 0 and row["recall_seed_sd"] >= 0
    assert np.isnan(read(thrice, "summary").set_index("method").loc["good", "rmse_seed_sd"])
    with sqlite3.connect(thrice / "record.sqlite") as db:
        db.execute("DELETE FROM outcomes WHERE repeat = 2 AND problem LIKE '%00003'")
    again = read(bench(*asked, "--repeats", 3, out="thrice"), "trials")
    pd.testing.assert_frame_equal(again.drop(columns=TIMES), many.drop(columns=TIMES))


@pytest.mark.parametrize("flag", ["--repeats", "--batch"])
def test_none_is_not_a_number_of_either(bench, capsys, flag):  # noqa: F811
    bench("--methods", "good", flag, 0, expect=2)
    assert f"{flag}: must be at least 1" in capsys.readouterr().err


def test_presets_say_nothing_of_either_so_that_hashes_stay():
    assert not {"repeats", "batch"} & load_preset("quick").keys()
