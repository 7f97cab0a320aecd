"""`bench.py report` on stored runs."""

import dataclasses

from bench.cli import main
from tests.bench.png_figures import save_blank
from tests.bench.stored_runs import write_record


def test_the_report_command(folders, capsys, monkeypatch):
    save_blank(monkeypatch)
    assert main.main(["report", "a", "--convention", "kitti", "--threshold", "10", "0.5", "--against", "paper"]) == 0
    report = folders / "reports" / "a.kitti@10,0.5"
    assert (report / "report.html").is_file() and (report / "csv" / "summary.csv").is_file()
    assert not (folders / "results" / "a" / "summary.csv").exists()
    assert "rte_mean_answered" in (report / "csv" / "summary.csv").read_text().splitlines()[0]
    for wrong, why in (
        (["report", "a", "b"], "both contain fgr on modelnet40/clean/1024"),
        (["report", "a", "--convention", "3dmatch"], "gt.info"),
        (["report", "a", "--convention", "rpmnet"], "modelnet40"),
        (["report", "nowhere"], f"nowhere: no such run; looked in {folders / 'results'}"),
    ):
        capsys.readouterr()
        assert main.main(wrong) == 2
        assert why in capsys.readouterr().err


def test_two_runs_in_one_report(stored_run, folders, monkeypatch):
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    o = stored_run.outcomes
    write_record(dataclasses.replace(stored_run, outcomes=o[o["method"] == "icp"]), folders / "results" / "c")
    write_record(dataclasses.replace(stored_run, outcomes=o[o["method"] != "icp"]), folders / "results" / "d")
    assert main.main(["report", "c", "d", "--out", "both"]) == 0 and main.main(["report", "a", "--out", "one"]) == 0
    for name in ("summary", "trials", "cdf", "per_category"):
        one, two = ((folders / "reports" / r / "csv" / f"{name}.csv").read_bytes() for r in ("one", "both"))
        assert one == two, name
