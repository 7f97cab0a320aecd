"""`bench.py publish`: a static site of several runs; the same test data in a browser are in tests/browser/test_site.py."""

import dataclasses
import json
import random
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from bench.evaluation import aggregate
from bench.evaluation.conventions import convention
from bench.evaluation.loader import in_order
from bench.report import site
from bench.report.site import Entry, with_latest
from bench.report.verify import digests
from bench.storage.csv_writer import read_csv
from common.errors import InputError
from tests.bench.command_line import refused, tree
from tests.bench.synthetic_run import HOSTILE, METHODS, as_loaded, synthetic_run


def write_run(folder, number=0, seed=0, verdict=None, methods=("icp", "fgr", HOSTILE), n=20, timed=True):
    """Write the files of a synthetic run that ended on day `number`, on a machine of five, with or without a timing phase."""
    loaded = as_loaded(*synthetic_run(n=n, sizes=(1024,), methods=methods, conditions=("clean", "noisy"), seed=seed))
    loaded.run["config"] |= {"device": "cpu"}
    machines = {"0a": {"cpu": f"processor {number % 5}", "cores": 2, "os": "Linux"}}
    facts = loaded.run | {"finished": f"2026-01-{number + 1:02d}T00:00:00", "machines": machines}
    facts["environment"] = facts["environment"] | {"commit": f"c{number}"}
    loaded.outcomes["machine"] = "0a"
    if not timed:
        facts["environment"] |= machines["0a"]
        loaded = dataclasses.replace(loaded, outcomes=in_order(loaded.outcomes[loaded.outcomes["phase"] != "timing"]))
    aggregate.write_csvs(aggregate.tables(loaded, convention(None)), folder)
    (folder / "run.json").write_text(json.dumps(facts))
    if verdict:
        findings = [{"check": "tables", "verdict": verdict, "detail": "as claimed"}]
        content = {"verdict": verdict, "findings": findings, "files": digests(folder)}
        (folder / "verify.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on the same problems, one of them verified, and one on others; never changed by a test."""
    place = tmp_path_factory.mktemp("site")
    return [
        write_run(place / "a", 0, verdict="verified"),
        write_run(place / "b", 1),
        write_run(place / "c", 2, seed=1, verdict="refused"),
    ]


@pytest.fixture(scope="module")
def published(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "site"
    assert main.main(["publish", *map(str, runs), "--site", str(folder)]) == 0
    return folder


def test_rows_are_those_of_the_summaries_and_of_the_times_alone(runs, published):
    rows = json.loads((published / "leaderboard.json").read_text())
    summary, timing = (read_csv(runs[0] / f"{name}.csv") for name in ("summary", "timing"))
    assert len(rows) == 3 * 2 * 3 and len(read_csv(published / "leaderboard.csv")) == len(rows)
    for row in (row for row in rows if row["run"] == "a"):
        dataset, condition, points = row["group"].split("/")
        key = {"method": row["method"], "condition": condition, "points": int(points), "dataset": dataset}
        own = next(r for r in summary.to_dict("records") if key.items() <= r.items())
        assert [row[n] for n in ("recall", "recall_low", "problems", "answered")] == [
            own[n] for n in ("recall", "recall_low", "problems", "answered")
        ]
        alone = timing[(timing["method"] == row["method"]) & (timing["points"] == 1024)]
        whole = alone[(alone["angle_low"] == 0) & (alone["angle_high"] == 180)]
        assert row["time_ms"] == pytest.approx(whole["time_ms_median"].iloc[0])
        assert (row["processor"], row["commit"], row["task"]) == ("processor 0", "c0", f"objects, {condition}")
    assert {(row["run"], row["verified"]) for row in rows} == {("a", "verified"), ("b", "unverified"), ("c", "refused")}


def test_the_latest_run_of_a_method_on_the_same_problems_is_shown_and_earlier_ones_are_history(published):
    rows = json.loads((published / "leaderboard.json").read_text())
    assert {(row["run"], row["latest"]) for row in rows} == {("a", False), ("b", True), ("c", False)}
    page = (published / "index.html").read_text()
    assert page.count(' earlier" hidden') == 12 and page.count("<h2>") == 2


def test_a_method_whose_poses_were_not_solved_again_is_unverified(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "d")
    verdict = json.loads((tmp_path / "d" / "verify.json").read_text())
    for method, expected in (("fgr", {"fgr"}), ("", {"fgr", "icp", HOSTILE})):
        finding = {"check": "poses not solved again", "verdict": "not verified", "detail": "why", "method": method}
        changed = verdict | {"findings": [*verdict["findings"], finding]}
        (tmp_path / "d" / "verify.json").write_text(json.dumps(changed))
        rows = list(site.entries_of(site.read_published(tmp_path / "d"), main_catalog()))
        assert {row.method for row in rows if row.verified == "unverified"} == expected
        assert {row.verified for row in rows if row.method not in expected} <= {"verified"}


def entry(method, problems, recall, kind="global"):
    places = "task", "group", "set", method, kind, problems, problems, recall, recall, recall, 0.1, 1.0
    return Entry(*places, "cpu", "processor", "free", "run", "commit", "2026", "verified")


def test_too_few_problems_and_controls_come_last_and_are_named():
    rows = with_latest(
        [entry("few", 2, 1.0), entry("oracle", 40, 1.0, "control"), entry("a", 40, 0.5), entry("b", 20, 0.7)]
    )
    assert [row.method for row in rows] == ["b", "a", "oracle", "few"]
    assert [row.few for row in rows] == [False, False, False, True]


def test_other_problems_of_one_name_are_in_another_table(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "d")
    facts = json.loads((tmp_path / "d" / "run.json").read_text())
    facts["problem_sets"] = dict.fromkeys(facts["problem_sets"], "f" * 64)
    (tmp_path / "d" / "run.json").write_text(json.dumps(facts))
    site.publish([runs[1], tmp_path / "d"], tmp_path / "s", main_catalog())
    rows = json.loads((tmp_path / "s" / "leaderboard.json").read_text())
    assert all(row["latest"] for row in rows)
    assert {row["verified"] for row in rows if row["run"] == "d"} == {"unverified"}  # its verdict is of other files
    assert (tmp_path / "s" / "index.html").read_text().count('<table class="board">') == 4


def main_catalog():
    from bench.planning.catalog import Catalog

    return Catalog.of()


def test_times_of_the_accuracy_phase_are_marked_and_hide_no_time_taken_alone(tmp_path):
    first = write_run(tmp_path / "first", 0, methods=("icp", "fgr"))
    later = write_run(tmp_path / "later", 5, methods=("icp", HOSTILE), timed=False)  # on the same machine
    other = write_run(tmp_path / "other", 1, seed=1, methods=("icp",), timed=False)  # on another one

    def with_commit(folder, commit):
        facts = json.loads((folder / "run.json").read_text())
        facts["environment"]["commit"] = commit
        (folder / "run.json").write_text(json.dumps(facts))

    def rows():
        site.publish([first, later, other], tmp_path / "site", main_catalog())
        table = json.loads((tmp_path / "site" / "leaderboard.json").read_text())
        return {(row["run"], row["method"]): row for row in table if "/clean/" in row["group"]}

    own = rows()
    assert own["first", "icp"]["timed_in"] == "first" and own["later", "icp"]["timed_in"] == ""
    with_commit(later, "c0")
    lent = rows()
    assert lent["later", "icp"]["latest"] and not lent["first", "icp"]["latest"]
    assert lent["later", "icp"]["timed_in"] == "first"
    assert lent["later", "icp"]["time_ms"] == lent["first", "icp"]["time_ms"] != own["later", "icp"]["time_ms"]
    assert lent["later", HOSTILE]["timed_in"] == lent["other", "icp"]["timed_in"] == ""
    lines = (tmp_path / "site" / "index.html").read_text().split("<tr ")
    of = {name: [line for line in lines if f"in {name}: " in line] for name in ("first", "later", "other")}
    mark = '<abbr title="not timed alone'
    assert all("data-ms" in line and mark not in line for line in of["first"])
    assert all("data-ms" not in line and line.count(mark) == 1 for line in of["other"])
    assert sum("data-ms" in line and "timed alone in first" in line for line in of["later"]) == 2
    assert sum("data-ms" not in line and mark in line for line in of["later"]) == 2
    with_commit(later, "unknown")
    with_commit(first, "unknown")
    assert rows()["later", "icp"]["timed_in"] == ""


def test_each_row_leads_to_its_run_its_problems_and_their_poses(runs, published):
    page = (published / "index.html").read_text()
    assert 'href="runs/a/index.html#modelnet40/clean/1024%09icp"' in page
    text = (published / "runs" / "a" / "index.html").read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    trials, poses = (read_csv(runs[0] / f"{name}.csv") for name in ("trials", "poses"))
    shown = json.loads((published / "runs" / "a" / "poses.js").read_text().split("=", 1)[1].rstrip(";\n"))
    first = trials[(trials["method"] == "icp") & (trials["status"] == "ok")].iloc[0]
    own = data["trials"][f"{first['dataset']}/{first['condition']}/{first['points']}"]
    answer = own["methods"]["icp\t0"][own["problems"].index(first["problem"])]
    assert answer == pytest.approx(first["rmse"], rel=1e-2)
    chosen = poses.query("phase == 'accuracy' and method == 'icp'").set_index("problem").loc[first["problem"]]
    assert shown[f"icp\t{first['problem']}\t0"][3] == chosen["t03"]
    assert HOSTILE not in page and "<script>alert" not in text


def test_a_site_of_twenty_runs_of_five_machines_is_small(tmp_path):
    methods = [name for name in METHODS if name != "oracle"]
    write_run(tmp_path / "run0", methods=methods, n=100)
    folders = [tmp_path / f"run{number}" for number in range(20)]
    for number, folder in enumerate(folders[1:], 1):
        shutil.copytree(folders[0], folder)
        facts = json.loads((folder / "run.json").read_text())
        facts |= {"finished": f"2026-01-{number + 1:02d}", "machines": {"0a": {"cpu": f"processor {number % 5}"}}}
        (folder / "run.json").write_text(json.dumps(facts))
    files = site.publish(folders, tmp_path / "site", main_catalog(), poses=False)
    rows = json.loads((tmp_path / "site" / "leaderboard.json").read_text())
    assert len(rows) == 20 * 2 * len(methods) and len({row["processor"] for row in rows}) == 5
    assert sum(file.stat().st_size for file in files) <= 3e6
    assert not list((tmp_path / "site").rglob("poses.js"))


def test_nothing_is_loaded_from_elsewhere(published):
    for file in published.rglob("*.html"):
        text = file.read_text()
        assert "http:" not in text and "https:" not in text and "src=" not in text.split("<script>")[0]


def test_a_folder_with_other_files_and_bad_runs_are_one_line(runs, published, tmp_path, capsys):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "index.html").write_text("<title>mine</title>")
    before = tree(tmp_path)
    assert "thesis: holds index.html" in refused(capsys, "publish", runs[0], "--site", tmp_path / "thesis")
    assert "two runs are named a" in refused(capsys, "publish", runs[0], runs[0], "--site", tmp_path / "s")
    assert "run.json: is missing" in refused(capsys, "publish", tmp_path, "--site", tmp_path / "s")
    assert tree(tmp_path) == before
    shutil.copytree(runs[0], tmp_path / "bad")
    (tmp_path / "bad" / "verify.json").write_text("{")
    assert "verify.json" in refused(capsys, "publish", tmp_path / "bad", "--site", tmp_path / "s")
    assert main.main(["publish", str(runs[0]), "--site", str(published), "--no-poses"]) == 0  # a site is replaced


def timed(*rows):
    names = ["method", "points", "time_ms_median", "device", "machine", "phase", "angle_low", "angle_high"]
    return pd.DataFrame(rows, columns=names)


def test_a_time_is_the_fastest_that_a_machine_took_alone_over_all_angles():
    whole = ("timing", 0, 180)
    rows = [
        ("m", 64, 9.0, "cpu", "a", *whole),
        ("m", 64, 5.0, "cuda:0", "b", *whole),
        ("m", 64, 7.0, "cpu", "c", *whole),
    ]
    rows += [
        ("m", 64, 1.0, "cpu", "a", *other) for other in (("accuracy", 0, 180), ("timing", 0, 90), ("timing", 90, 180))
    ]
    rows += [("m", 128, np.nan, "cpu", "a", *whole), ("n", 64, 2.0, "cpu", "a", *whole)]
    assert site._times(timed(*rows)) == {("m", 64): (5.0, "cuda:0", "b"), ("n", 64): (2.0, "cpu", "a")}
    assert site._times(timed(*rows).drop(columns="machine"))["m", 64] == (5.0, "cuda:0", None)


def test_rows_are_sorted_by_task_group_and_recall_then_error():
    first = entry("a", 40, 0.5)
    order = [
        replace(first, task="objects, clean", recall=0.1),
        replace(first, task="objects, noisy", group="g1", recall=0.1),
        replace(first, task="objects, noisy", group="g2", problem_set="s1", recall=0.1),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", recall=0.9),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", error=0.2),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", error=0.3),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", error=0.3, method="b"),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", error=None),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", recall=None),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", recall=1.0, kind="control"),
        replace(first, task="objects, noisy", group="g2", problem_set="s2", recall=1.0, problems=19),
        replace(first, task="a data set of pairs"),
    ]
    for seed in range(5):
        mixed = random.Random(seed).sample(order, len(order))
        assert [replace(row, latest=True) for row in with_latest(mixed)] == order


def test_the_latest_run_is_the_last_that_was_not_refused_of_each_device():
    runs = [("a", "2026-01-03", "verified"), ("b", "2026-01-04", "refused"), ("c", "2026-01-02", "unverified")]
    rows = [replace(entry("m", 40, 0.5), run=r, finished=f, verified=v) for r, f, v in runs]
    rows += [replace(rows[2], device="cuda:0"), replace(rows[2], problem_set="other"), replace(rows[2], method="n")]
    rows += [replace(rows[0], run="d")]  # finished at the same time
    latest = {(r.run, r.device, r.problem_set, r.method) for r in with_latest(rows) if r.latest}
    assert latest == {
        ("d", "cpu", "set", "m"),
        ("c", "cuda:0", "set", "m"),
        ("c", "cpu", "other", "m"),
        ("c", "cpu", "set", "n"),
    }
    assert entry("m", 40, 0.5).latest and not entry("m", 40, 0.5).timed_in


def test_a_time_taken_alone_is_lent_by_the_newest_run_with_the_same_work():
    asks = replace(entry("m", 40, 0.5), run="asks", group="d/noisy/64", time_ms=9.0)
    old, new = (
        replace(asks, run=r, group="d/clean/64", time_ms=t, timed_in=r, finished=f)
        for r, t, f in (("old", 1.0, "1"), ("new", 2.0, "2"))
    )
    settings = dict.fromkeys(("asks", "old", "new"), (4, None))

    def lent(*others, **other_settings):
        rows = site.with_times_alone([asks, *others], settings | other_settings)
        assert rows[1:] == list(others)
        return rows[0].time_ms, rows[0].timed_in

    assert lent(old, new) == lent(new, old) == (2.0, "new") and lent() == (9.0, "")
    assert lent(old, replace(new, verified="refused")) == (1.0, "old")
    for name in ("method", "device", "processor", "commit"):
        assert lent(replace(old, **{name: "other"})) == (9.0, "")
    assert lent(replace(old, group="d/clean/128")) == lent(replace(old, group="e/clean/64")) == (9.0, "")
    assert lent(old, old=(1, None)) == (9.0, "")
    unknown = [replace(row, commit=site.UNKNOWN) for row in (asks, old)]
    assert site.with_times_alone(unknown, settings) == unknown
    assert site.with_times_alone([replace(asks, timed_in="asks"), new], settings)[0].time_ms == 9.0


def test_a_verdict_in_a_word():
    def said(verdict, *checks):
        findings = [{"check": check, **({"method": m} if m else {})} for check, m in checks]
        return site.Published(Path("r"), {}, {}, {"verdict": verdict, "findings": findings})

    assert (
        site.Published(Path("r"), {}, {}, None).status
        == site.Published(Path("r"), {}, {}, None).status_of("a")
        == "unverified"
    )
    for verdict, word in (("verified", "verified"), ("files verified", "unverified"), ("refused", "refused")):
        assert said(verdict).status == word
    one = said("verified", ("tables", "b"), (site.NOT_SOLVED, "a"))
    assert (one.status_of("a"), one.status_of("b")) == ("unverified", "verified")
    assert said("verified", (site.NOT_SOLVED, "")).status_of("b") == "unverified"
    assert said("refused", (site.NOT_SOLVED, "a")).status_of("a") == "refused"


def test_the_answers_of_a_run_are_listed_by_group_method_and_repeat():
    rows = [
        ("d", "noisy", 64, "p2", "m", 0, "ok", 0.123456), ("d", "noisy", 64, "p1", "m", 0, "timeout", np.inf),
        ("d", "noisy", 64, "p1", "m", 1, "ok", 0.5), ("d", "noisy", 64, "p3", "n", 0, "skipped", np.nan),
        ("d", "noisy", 64, "p2", "n", 0, "ok", 2.0), ("d", "clean", 64, "q", "n", 0, "skipped", np.nan),
    ]  # fmt: skip
    names = ["dataset", "condition", "points", "problem", "method", "repeat", "status", "rmse"]
    trials = pd.DataFrame(rows, columns=names)
    poses = trials.assign(phase=["accuracy"] * 5 + ["timing"])
    for i in range(16):
        poses[f"t{i // 4}{i % 4}"] = np.arange(len(poses)) + i / 100
    run = site.Published(Path("r"), {}, {"trials": trials, "poses": poses}, None)
    assert site.trials_of(run) == {
        "d/noisy/64": {
            "problems": ["p1", "p2"],
            "methods": {"m\t0": ["timeout", 0.123], "m\t1": [0.5, None], "n\t0": [None, 2.0]},
        }
    }
    shown = site.poses_of(run)
    assert list(shown) == ["m\tp2\t0", "m\tp1\t1", "n\tp2\t0"]
    assert shown["m\tp1\t1"] == [2 + i / 100 for i in range(16)]


def test_what_a_row_says_of_its_data_and_its_numbers():
    catalog = main_catalog()
    assert site._task("d", "noisy[sigma=0.1]") == "objects, noisy" and site._task("d", "real") == "d"
    assert site._licence("nowhere[path=x]", catalog) == site.UNKNOWN
    assert site._licence("shapes40[a=b]", catalog) == catalog.data.entries["shapes40"].facts.licence
    values = {0: 0.0, 1.5: 1.5, np.inf: None, "x": None, None: None}
    assert {value: site._finite(value) for value in values} == values and site._finite(np.nan) is None


@pytest.mark.parametrize(
    ("change", "known"),
    [({}, True), ({"verdict": "perfect"}, False), ({"files": {}}, False), ({"findings": None}, True)],
)
def test_a_verdict_counts_if_it_is_complete_known_and_of_these_files(tmp_path, change, known):
    (tmp_path / "summary.csv").write_text("a\n1\n")
    content = {"verdict": "verified", "findings": [], "files": digests(tmp_path)} | change
    assert site._verdict(tmp_path) is None
    (tmp_path / "verify.json").write_text(json.dumps(content))
    assert (site._verdict(tmp_path) == content) == known and (site._verdict(tmp_path) is None) != known
    for name in ("verdict", "findings", "files"):
        (tmp_path / "verify.json").write_text(json.dumps({key: value for key, value in content.items() if key != name}))
        assert site._verdict(tmp_path) is None


@pytest.mark.parametrize(
    ("names", "page", "refused_for"),
    [
        ((), None, ""),
        (("a",), None, "holds a, and no site"),
        (("a", "index.html"), "<title>other</title>", "holds a, index.html"),
        (("index.html", "runs"), f"<title>{site.TITLE}</title>", ""),
    ],
)
def test_only_a_new_or_empty_folder_or_a_site_is_written_to(tmp_path, names, page, refused_for):
    for name in names:
        (tmp_path / name).write_text(page or "")
    with pytest.raises(InputError, match=refused_for) if refused_for else nullcontext():
        site._check_site(tmp_path)
    site._check_site(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        site._check_site(tmp_path / "file")
