"""`bench.py doctor`: missing packages and data, with the commands that add them."""

import sys

from bench.cli import doctor, main
from bench.storage.environment import ROOT
from tests.bench.command_line import PLUGINS


def test_doctor_names_the_command_that_adds_what_is_missing(capsys, monkeypatch, empty_folder):
    monkeypatch.setattr(doctor, "installed", lambda package: package not in ("plotly", "distributed"))
    assert main.main(["doctor", "--plugins", str(PLUGINS)]) == 0
    out = capsys.readouterr().out
    assert f"needed by a run: plotly missing: {sys.executable} -m pip install -r requirements.txt" in out
    assert "data set modelnet40: not below data: bench.py data modelnet40" in out and "data set shapes40" not in out
    (empty_folder / "data" / "modelnet40").mkdir(parents=True)
    main.main(["doctor"])
    assert "data set modelnet40" not in capsys.readouterr().out


def test_requirements_of_other_platforms_are_ignored():
    names = doctor.required(ROOT / "requirements.txt")
    assert "numpy" in names and len([n for n in names if n.startswith("open3d")]) == 1
    assert doctor.installed("numpy") and not doctor.installed("no-such-package-empty_folder")
