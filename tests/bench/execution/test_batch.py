"""Several pairs per call: the same poses, each fault with its own problem, and throughput apart from latency."""

import json

import numpy as np
import pandas as pd
import pytest

from bench.execution import pool_worker
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from datasets.problems import ProblemKey, make_problem
from tests.bench.command_line import PLUGINS, TIME_COLUMNS, read_csv
from tests.catalog import build, open_data, spec


def pairs(n, points=50):
    return [make_problem(open_data("blobs", None, PLUGINS), ProblemKey("blobs", "noisy", points, i)) for i in range(n)]


@pytest.fixture
def start_process():
    """Return a function that starts the process of a method."""
    started = []

    def start(method):
        started.append(MethodProcess(MethodSetup(spec(method, PLUGINS), "blobs"), Limits(20, 4)))
        return started[-1]

    yield start
    for process in started:
        process.close()


def test_batches_give_the_same_results_with_a_note(bench):
    arguments = ["--methods", "together", "good", "--problems", 19, "--conditions", "noisy"]
    alone, batched = bench(*arguments, out="alone"), bench(*arguments, "--batch", 8, out="batched")
    single, several = read_csv(alone, "trials"), read_csv(batched, "trials")
    changed = [*TIME_COLUMNS, "batch"]
    pd.testing.assert_frame_equal(single.drop(columns=changed), several.drop(columns=changed), rtol=1e-6)
    sizes = several.groupby("method")["batch"].value_counts().to_dict()
    assert sizes == {("together", 8): 16, ("together", 3): 3, ("good", 1): 19} and (single["batch"] == 1).all()
    assert read_csv(batched, "summary").set_index("method")["batch"].to_dict() == {"together": 8, "good": 1}
    assert "batch" in read_csv(batched, "poses")
    notes = json.loads((batched / "run.json").read_text())["notes"]
    assert any("a batch's over its pairs (--batch 8" in n and n.endswith("together") for n in notes)
    assert set(read_csv(batched, "stages")["method"]) == {"good"}, "stages of a batch are not those of a pair"
    timing = read_csv(batched, "timing").query("angle_low == 0 and angle_high == 180").set_index("method")
    assert timing["batch"].fillna(0).to_dict() == {"together": 8, "good": 0}
    assert np.isnan(timing.loc["together", "time_ms_median"]) and timing.loc["good", "time_ms_median"] > 0


def test_throughput_is_separate_from_latency(bench):
    folder = bench("--methods", "together", "good", "--problems", 3, "--conditions", "noisy", "--timing-rounds", 2)
    poses, timing = read_csv(folder, "poses"), read_csv(folder, "timing")
    counts = poses.groupby(["phase", "method", "batch"]).size().to_dict()
    assert counts["batch", "together", 32] == 64 and counts["timing", "together", 1] == counts["timing", "good", 1] == 2
    assert ("batch", "good", 32) not in counts
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
def test_faults_in_a_batch_belong_to_the_right_problems(start_process, method, expected, says):
    outcomes = pool_worker.solve_problems(start_process(method), pairs(5), "accuracy", 0)
    assert [o.problem for o in outcomes] == [p.key.id for p in pairs(5)]
    assert [o.status for o in outcomes] == expected and all(o.batch == 5 for o in outcomes)
    assert says in outcomes[1].message and all((o.pose is None) == (o.status != "ok") for o in outcomes)


def test_pairs_of_other_sizes_get_their_own_calls(start_process):
    mixed = [*pairs(2, 50), *pairs(1, 60), *pairs(3, 50)[2:]]
    outcomes = pool_worker.solve_problems(start_process("together"), mixed, "accuracy", 0)
    sizes = {o.problem: o.batch for o in outcomes}
    assert sizes == {p.key.id: 1 if p.key.points == 60 else 3 for p in mixed}
    assert all(o.status == "ok" for o in outcomes)


def test_only_clouds_and_a_seed_are_sent_with_a_batch(start_process, monkeypatch):
    sent, process = [], start_process("together")
    process.start()
    exchange = process._exchange
    monkeypatch.setattr(
        process,
        "_exchange",
        lambda requests, timeout: (sent.append((requests, timeout)), exchange(requests, timeout))[1],
    )
    problems = pairs(3)
    pool_worker.solve_problems(process, problems, "accuracy", 0)
    ((request,), timeout) = sent[0]
    assert set(vars(request)) == {"sources", "targets", "seed"} and isinstance(request.seed, int)
    assert all(a is p.source for a, p in zip(request.sources, problems, strict=True))
    assert timeout == 3 * 20


def test_random_methods_and_chains_support_no_batches():
    methods = {name: build(name, PLUGINS) for name in ("together", "together+icp", "good", "lottery")}
    assert [name for name, method in methods.items() if method.solves_batches] == ["together"]
