"""Objects that give several problems."""

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import aggregate, statistics
from bench.evaluation.clusters import clusters_of
from bench.evaluation.conventions import CONVENTIONS
from tests.bench.synthetic_run import as_loaded, synthetic_run

CRITERION = CONVENTIONS["deepgmr"]


def _partition(objects, condition):
    numbers = clusters_of(pd.DataFrame({"object": objects, "condition": condition}))
    return [objects[int(np.flatnonzero(numbers == n)[0])] for n in numbers]


def test_problems_of_an_object_are_a_cluster():
    objects = ["chair_1", "lamp-2", "chair_1", "lamp-3"]
    assert _partition(objects, "noisy") == ["chair_1", "lamp-2", "chair_1", "lamp-3"]
    assert _partition(objects, "real") == [
        "chair_1",
        "lamp-2",
        "chair_1",
        "lamp-3",
    ]  # not named scene/a-b: exported objects


def test_real_pairs_of_a_scan_are_a_cluster():
    pairs = ["kitchen/3-1", "kitchen/3-2", "hotel/3-1", "kitchen/4-1"]
    assert _partition(pairs, "real") == ["kitchen/3-1", "kitchen/3-1", "hotel/3-1", "kitchen/4-1"]


def test_without_an_object_the_number_is_minus_one():
    assert clusters_of(pd.DataFrame({"object": pd.Categorical(["a", None]), "condition": "noisy"})).tolist() == [0, -1]
    scans = pd.Categorical(["s/1-2", None, "s/1-3", "s/2-3"])
    real = clusters_of(pd.DataFrame({"object": scans, "condition": "real"}))
    assert real[1] == -1 and real[0] == real[2] != real[3] and (real[[0, 2, 3]] >= 0).all()
    mixed = clusters_of(pd.DataFrame({"object": scans, "condition": ["real", "real", "real", "noisy"]}))
    assert len({*mixed.tolist()}) == 3 and mixed[1] == -1, "a scan and an object have different numbers"


@pytest.fixture(scope="module")
def clustered():
    """Summaries of the same outcomes with 60 objects, and with 12 objects of 5 problems."""
    problems, outcomes, run = synthetic_run(n=60, sizes=(256,), methods=("icp", "fgr"), conditions=("noisy",))
    few = problems.assign(object=[f"object_{i // 5}" for i in range(len(problems))])
    return [
        aggregate.add_success(as_loaded(p, outcomes, run), CRITERION).query("dataset == 'modelnet40'")
        for p in (problems, few)
    ]


def test_intervals_of_the_summary_are_over_objects(clustered):
    apart, together = (aggregate.summary(trials, CRITERION) for trials in clustered)
    for name in ("recall", "rmse_mean_answered", "rmse_median"):
        pd.testing.assert_series_equal(apart[name], together[name])
    for _, row in together.iterrows():
        trials = clustered[1].query(f"method == '{row['method']}' and status != 'skipped'")
        objects = trials["object"].astype(str)
        answered = trials[trials["status"] == "ok"]
        expected = statistics.share_interval(trials["success"].to_numpy(), pd.factorize(objects)[0])
        assert (row["recall_low"], row["recall_high"]) == pytest.approx(expected)
        key = [str(row[n]) for n in ("method", "dataset", "condition", "points")]
        codes = pd.factorize(objects[answered.index], sort=True)[0]
        expected = statistics.bootstrap_mean(answered["rmse"].to_numpy(), *key, cluster=codes)
        assert (row["rmse_mean_low"], row["rmse_mean_high"]) == pytest.approx(expected)
        assert row["recall_low"] <= row["recall"] <= row["recall_high"]


def test_repeats_and_objects_together(clustered):
    trials = clustered[1]
    again = pd.concat([trials, trials.assign(repeat=1)], ignore_index=True)
    once, twice = (aggregate.summary(rows, CRITERION) for rows in (trials, again))
    for name in ("recall_low", "recall_high", "rmse_median_low", "rmse_median_high"):
        pd.testing.assert_series_equal(once[name], twice[name])
