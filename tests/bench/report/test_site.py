"""`bench.py publish`: a static site of several runs; the same test data in a browser are in tests/browser/test_site.py."""

import dataclasses
import json
import shutil

import pytest

from bench.cli import main
from bench.evaluation import aggregate
from bench.evaluation.conventions import convention
from bench.evaluation.loader import in_order
from bench.report import site
from bench.report.site import Entry, with_latest
from bench.report.verify import digests
from bench.storage.csv_writer import read_csv
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
