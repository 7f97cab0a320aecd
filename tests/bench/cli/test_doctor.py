"""`bench.py doctor`: missing packages and data, with the commands that add them."""

import re
import shutil
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

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


@pytest.mark.parametrize("free", [0.0, 1.99, 2.01, 300.0])
def test_a_nearly_full_disk_is_reported_with_its_free_space(monkeypatch, free):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free * 1e9))
    lines = doctor.space()
    assert len(lines) == (free < 2)
    assert all(line.startswith(f"disk: {free:.1f} GB free in ") and "may need 2: free" in line for line in lines)


def test_the_facts_are_those_of_the_environment(tmp_path, monkeypatch):
    facts = {"name": "H200", "driver": "570.1", "cuda": "12.8"}
    monkeypatch.setattr(doctor, "resolve", lambda device: device)
    monkeypatch.setattr(doctor, "identity", lambda device: facts)
    machine = doctor.environment()
    lines = dict(re.fullmatch(r"(\w+) +(.*)", line).groups() for line in doctor.facts(tmp_path))
    assert lines["python"] == f"{sys.version.split()[0]} at {sys.executable}"
    assert re.fullmatch(r".*, (\d+) cores, load \d+\.\d(, \d+\.\d){2}", lines["machine"])[1] == str(machine["cores"])
    assert lines["commit"] == str(machine["commit"]) and lines["gpu"] == "H200, driver 570.1, CUDA 12.8"
    assert lines["data"] == str(tmp_path) and lines["cache"] == str(doctor.cache_folder())
    assert f"numpy {metadata.version('numpy')}" in lines["packages"].split(", ")
    assert doctor.facts(tmp_path / "none")[4] == f"data      {tmp_path / 'none'} (no such folder)"


def test_every_part_of_the_report_is_in_it(monkeypatch, tmp_path):
    catalog = SimpleNamespace(data=SimpleNamespace(root=tmp_path))
    for name in ("packages", "space"):
        monkeypatch.setattr(doctor, name, lambda name=name: [name])
    for name in ("methods", "data"):
        monkeypatch.setattr(doctor, name, lambda given, name=name: [name] * (given is catalog))
    monkeypatch.setattr(doctor, "facts", lambda root: [root])
    assert doctor.report(catalog) == ([tmp_path], ["packages", "methods", "data", "space"])


def test_requirements_are_read_line_by_line(tmp_path):
    file = tmp_path / "r.txt"
    file.write_text(
        "# a\nnumpy>=2  # why\n-r other.txt\n\nfoo==1; sys_platform == 'none'\nbar==1; python_version > '3'\n"
    )
    assert doctor.required(file) == ["numpy", "bar"]
