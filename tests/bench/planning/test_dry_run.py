"""`--dry-run`: the plan, and the estimated time."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli import main
from bench.planning.dry_run import (
    RecordedTimes,
    Sample,
    _csv_rows,
    estimate_times,
    format_time,
    plan,
    plan_row,
    recorded_times,
    timing_s,
)
from bench.planning.tasks import make_groups
from bench.storage import environment
from tests.bench.command_line import PLUGINS, QUICK
from tests.catalog import spec

pytestmark = pytest.mark.usefixtures("empty_folder")


def test_a_dry_run_plans_and_writes_nothing(empty_folder, capsys):
    arguments = [*QUICK, "--methods", "good", "bad_unset", "--problems", "3", "--dry-run"]
    assert main.main(arguments) == 0
    out = capsys.readouterr().out
    assert "problems  9 in 3 groups" in out and "time not known" in out and not (empty_folder / "results").exists()
    assert "not known: no run in results/" in out


def earlier_run(folder, rows, timed="", **config):
    """Write the files of an earlier run that a dry run reads: rows of its summary and of its timing phase."""
    folder.mkdir(parents=True)
    (folder / "summary.csv").write_text(f"method,dataset,condition,points,time_ms_mean\n{rows}")
    (folder / "timing.csv").write_text(f"method,points,angle_low,angle_high,time_ms_mean\n{timed}")
    facts = {"config": {"device": "cpu", "threads": 1} | config, "environment": {"cpu": environment.processor()}}
    (folder / "run.json").write_text(json.dumps(facts))


@pytest.fixture
def output(capsys):
    """Return a function that prints a dry run of the method `good`: 9 calls of 60 points in three conditions."""

    def call(*more):
        assert main.main([*QUICK, "--methods", "good", "--problems", "3", "--dry-run", *more]) == 0
        return capsys.readouterr().out

    return call


def test_time_comes_from_the_same_condition_and_the_nearest_size(empty_folder, output):
    rows = "good,blobs,{},60,1000\ngood,blobs,{},600,9\n"
    earlier_run(empty_folder / "results" / "old", "".join(rows.format(c, c) for c in ("clean", "noisy", "resampled")))
    out = output()
    assert "9 calls  about 9 s" in out and "about 9 s with 1 jobs, by results/old; starting" in out
    earlier_run(empty_folder / "results" / "new", "good,blobs,noisy,120,40000\n")
    assert "9 calls  about 9 s" in output()  # 60 points are nearer
    earlier_run(empty_folder / "results" / "newer", "good,blobs,noisy,60,2000\n")
    assert "9 calls  about 12 s" in output() and "by results/old, results/newer; starting" in output()


def test_time_of_other_conditions_is_a_rough_estimate_within_the_timeout(empty_folder, output):
    earlier_run(empty_folder / "results" / "old", "good,other,real,6,1000000\nbad_exit,blobs,noisy,60,5\n")
    assert (
        "about 45 s with 1 jobs, by results/old (in part of other data sets or conditions: a rough estimate)"
        in output("--timeout", "5")
    )
    earlier_run(empty_folder / "results" / "else", "good,other,real,60,1\n", device="cuda")
    assert "results/else" not in output("--timeout", "5")
    (empty_folder / "results" / "old" / "run.json").write_text("{}")
    assert "not known" in output()


def test_timing_phase_is_added_within_its_budget(empty_folder, output):
    rows = "".join(f"good,blobs,{c},60,0\n" for c in ("clean", "noisy", "resampled"))
    earlier_run(empty_folder / "results" / "old", rows, "good,60,0,180,1000\ngood,60,0,30,9000\n")
    assert "about 3 s with 1 jobs" in output("--timing-rounds", "2")
    assert "about 2 s with 4 jobs" in output("--timing-rounds", "2", "--jobs", "4")  # the warm-up is shared
    assert "about 4 s with 1 jobs" in output("--timing-rounds", "3000")  # the budget of the preset, and a warm-up


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h"), (36000, "10.0 h")],
)
def test_times_are_seconds_minutes_or_hours(seconds, text):
    assert format_time(seconds) == text


def test_the_nearest_sample_is_that_of_the_condition_then_of_the_size_then_of_the_data_set(tmp_path):
    def sample(method, dataset, condition, points):
        return Sample(tmp_path, False, method, dataset, condition, points, 1.0)

    samples = [sample("m", "d", "c", n) for n in (50, 201, 1000)] + [sample("m", "e", "c", 50)]
    samples += [sample("m", "d", "other", 100), sample("other", "d", "c", 100)]
    times = RecordedTimes(tuple(samples))
    assert times.nearest("m", "d", "c", 100) is samples[0], "half is nearer than twice and a bit"
    assert times.nearest("m", "e", "c", 100) is samples[3] and times.nearest("m", "d", "c", 150) is samples[1]
    assert times.nearest("m", "d", "other", 1000) is samples[4] and times.nearest("none", "d", "c", 1) is None
    assert Sample(tmp_path, False, "m", "d", "c", 50, 250.0).time_s(200) == pytest.approx(1.0)


def test_times_are_those_of_the_newest_runs_with_the_same_device_threads_and_gpu(empty_folder, given):
    config, results = replace(given, device="cuda:0", gpu={"name": "A"}), empty_folder / "results"
    same = {"device": "cuda:0", "threads": 2, "gpu": {"name": "A"}}
    timed = "good,60,0,180,3\ngood,60,0,90,4\ngood,60,90,180,5\ngood,90,0,180,\n"
    for age in range(12):
        earlier_run(results / f"r{age}", f"good,blobs,clean,60,{age}\ngood,blobs,noisy,60,\n", timed, **same)
    for age, other in enumerate(({"device": "cpu"}, {"threads": 1}, {"gpu": {"name": "B"}}, {"gpu": {}})):
        earlier_run(results / f"o{age}", "good,blobs,clean,60,9\n", **(same | other))
        os.utime(results / f"o{age}" / "summary.csv", (20_000, 20_000))
    for age in range(12):
        os.utime(results / f"r{age}" / "summary.csv", (10_000 - 1000 * age, 10_000 - 1000 * age))
    for processor, other in ((environment.processor(), False), ("another", True)):
        samples = recorded_times(results, config, processor).samples
        assert samples == tuple(
            Sample(results / f"r{age}", other, "good", *group, 60, ms)
            for age in range(6)  # ten with the four others
            for group, ms in ((("blobs", "clean"), float(age)), (("", ""), 3.0))
        )


def sample(method, dataset, condition, points, ms, run="r", other=False):
    return Sample(Path(run), other, method, dataset, condition, points, ms)


TIMES = RecordedTimes(
    (
        sample("lottery", "blobs", "clean", 60, 10.0),
        sample("lottery", "blobs", "noisy", 60, 5000.0, "s"),
        sample("lottery", "blobs", "resampled", 30, 7.0),
        sample("lottery", "", "", 60, 200.0),
        sample("identity", "blobs", "clean", 60, 2.0),
        sample("identity", "other", "noisy", 60, 4.0, "t", True),
        sample("random_pose", "blobs", "clean", 60, 50.0),
    )
)
"""Times of some methods on the data set of `given`, of which 5000 ms are above its time-out."""
SECONDS = {"lottery": 3 * (30 * 0.01 + 45 * 0.1 + 45 * 0.014), "identity": 22 * (0.002 + 0.004 + 0.002)}
SECONDS |= {"random_pose": 90 * 0.05}


def test_the_time_of_a_method_is_that_of_all_its_calls_each_within_the_time_out(given):
    groups = make_groups(given)
    assert [len(group.keys) for group in groups] == [30, 45, 45]
    expected = {"lottery": (360, True), "identity": (66, False), "random_pose": (90, True)}
    for name, (calls, exact) in expected.items():
        row = plan_row(given, spec(name, PLUGINS), groups, TIMES)
        assert (row.calls, row.exact, row.reason) == (calls, exact, "")
        assert row.seconds == pytest.approx(SECONDS[name]) and row.outlook == f"about {format_time(row.seconds)}"
    unknown = plan_row(given, spec("together", PLUGINS), groups, TIMES)
    assert (unknown.calls, unknown.outlook) == (120, "time not known") and math.isnan(unknown.seconds)
    absent = plan_row(given, spec("needy", PLUGINS), groups, TIMES)
    assert absent.calls == 0 and absent.reason and absent.outlook == f"skipped: {absent.reason}"


@pytest.mark.parametrize("jobs", [0, 1, 4])
@pytest.mark.parametrize(
    ("points", "rounds", "budget", "timed", "warm"),
    [((60, 120), 0, 9.0, 0, 0), ((60, 120), 4, 9.0, 2.4, 0.6), ((60, 120), 4, 2.0, 2.0, 0.6), ((60, 120), 4, 0.5, 0.5, 0.5),
     ((60, 6000), 2, 99.0, 6.4, 3.2)],
)  # fmt: skip
def test_the_timing_phase_has_its_rounds_and_a_warm_up_each_within_the_budget(
    given, jobs, points, rounds, budget, timed, warm
):
    config = replace(given, timeout=3, timing_points=points, timing_rounds=rounds, timing_budget_s=budget)
    seconds = timing_s(config, spec("lottery", PLUGINS), jobs, TIMES)
    assert seconds == pytest.approx(timed + warm / max(jobs, 1))
    assert timing_s(config, spec("together", PLUGINS), jobs, TIMES) == 0


@pytest.mark.parametrize("jobs", [1, 4])
def test_the_time_of_a_run_is_that_of_its_calls_over_the_jobs_and_of_its_timing_phase(given, jobs):
    config, groups = replace(given, timing_points=(60,), timing_rounds=100, timing_budget_s=1e6), make_groups(given)
    rows = [plan_row(config, method, groups, TIMES) for method in config.every_method]
    rows.append(plan_row(config, spec("needy", PLUGINS), groups, TIMES))
    calls = sum(SECONDS.values()) / jobs
    timing = (100 + 1 / jobs) * (0.1 + 0.002)  # not of a method in the extra grid alone
    text = estimate_times(config, rows, jobs, TIMES)
    assert text.startswith(
        f"about {format_time(calls + timing)} with {jobs} jobs, by r, s, t (in part of other data sets or conditions, of "
        "another processor: a rough estimate), without together, of which no time is known; starting"
    )
    exact = [row for row in rows if row.method.text in ("lottery", "random_pose")]
    assert ", by r, s; starting" in estimate_times(config, exact, jobs, TIMES)
    assert estimate_times(config, [rows[1]], jobs, TIMES).startswith("not known: no run in results/")


def test_a_plan_has_a_line_for_each_group_and_method_and_the_sums(given):
    config = replace(given, timing_points=(60, 120), timing_rounds=4, timing_budget_s=2.5)
    groups = make_groups(config)
    lines = plan(config, [*groups[:2], replace(groups[2], skip="too few points")], 1, TIMES)
    cells = [line.split() for line in lines]
    assert lines[0] == "problems  75 in 2 groups" and [" ".join(c) for c in cells[1:4]] == [
        "blobs/clean/60 30", "blobs/noisy/60 45", "blobs/resampled/60 skipped: too few points"
    ]  # fmt: skip
    assert lines[4] == "methods   4, calls 434"
    assert [(c[0], c[1]) for c in cells[5:9]] == [
        ("lottery", "225"), ("together", "75"), ("identity", "44"), ("random_pose", "90")
    ]  # fmt: skip
    assert lines[9] == "timing    8 calls per method after a warm-up, at most 2.5 s per method"
    assert lines[10].startswith("time      about ") and len(lines) == 11


def test_a_line_end_within_a_field_of_a_table_is_kept(tmp_path):
    (tmp_path / "a.csv").write_bytes('method,points\n"a\r\nb ×",5\r\n'.encode())
    assert _csv_rows(tmp_path / "a.csv") == [{"method": "a\r\nb ×", "points": "5"}]
