"""`bench.py new`: the written method conforms."""

import os
import subprocess
import sys

import pytest
import yaml

from bench.cli import main, scaffold
from bench.isolation.guard import ROOT
from common.errors import InputError


def test_written_method_conforms(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["new", "my_idea", "--plugins", "mine"]) == 0
    assert "bench.py check my_idea --plugins mine" in capsys.readouterr().out
    assert main.main(["check", "my_idea", "--plugins", "mine"]) == 0
    assert "13 checks passed" in capsys.readouterr().out
    plain = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # pytest as `pip install pytest` gives it
    command = [sys.executable, "-m", "pytest", "-q", str(tmp_path / "mine")]
    ran = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True)
    assert ran.returncode == 0, ran.stdout
    assert main.main(["new", "my_idea", "--plugins", "mine"]) == 2
    assert "a method of that name exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new", "My-Method"], "lower-case letters"),
        (["new", "class"], "lower-case letters"),
        (["new", "all"], "new all: the name is reserved, as all, oracle are; choose another"),
        (["new", "oracle"], "new oracle: the name is reserved"),
        (["new", "icp"], "a method of that name exists"),
        (["check", "icpp"], "did you mean icp"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, says):
    assert main.main(arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_the_workflow_compares_the_method_before_and_after_a_change(tmp_path, monkeypatch, capsys):
    plugins = tmp_path / "after" / "mine"
    assert main.main(["new", "my_detector", "--plugins", str(plugins), "--workflow"]) == 0
    text = (tmp_path / "after" / ".github" / "workflows" / "registration.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["compare"]["steps"]
    assert steps[1]["with"]["ref"] == "${{ github.base_ref }}" and len(text.splitlines()) <= 18
    run, compared = (step["run"] for step in steps[-2:])
    (tmp_path / "bench").mkdir()
    monkeypatch.chdir(tmp_path / "bench")
    words = run.split("bench.py ", 1)[1].split(" || ")[0].replace("$side", "after").split()
    assert main.main([*words, "--dry-run"]) == 0 and "my_detector" in capsys.readouterr().out
    flags = main._parser(train=False)[0].parse_args(compared.split("bench.py ", 1)[1].split())
    assert flags.fail_on_regression and [str(name) for name in flags.run] == ["before", "after"]
    assert main.main(["new", "other", "--workflow"]) == 2
    assert "--workflow: is for the repository of a plug-in" in capsys.readouterr().err


def test_a_method_and_its_test_are_written_into_a_folder_or_into_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(scaffold, "ROOT", tmp_path / "repository")
    mine = tmp_path / "mine"
    places = {
        mine: (mine, mine),
        None: (tmp_path / "repository" / "methods", tmp_path / "repository" / "tests" / "methods"),
    }
    for plugins, (methods, tests) in places.items():
        method, test = scaffold.write_templates("new_idea", plugins)
        assert (method, test) == (methods / "new_idea.py", tests / "test_new_idea.py")
        assert "class NewIdea(" in method.read_text() and "def test_" in test.read_text()
        assert ("from pathlib import Path" in test.read_text()) == (plugins is not None)
        with pytest.raises(InputError, match=r"new_idea\.py: exists already; remove it or choose another name"):
            scaffold._write(method, "")
    assert scaffold.write_workflow("new_idea", mine) == tmp_path / ".github" / "workflows" / "registration.yml"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"a\.py: cannot be written"):
        scaffold._write(tmp_path / "file" / "a.py", "")
