"""`--dry-run`: the plan, and the estimated time."""

import json

import pytest

from bench.cli import main
from bench.planning.dry_run import RecordedTimes, Sample, format_time
from bench.storage import environment
from tests.bench.command_line import QUICK

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
