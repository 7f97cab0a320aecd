"""`bench.py new`: the written method conforms."""

import subprocess
import sys

import pytest

from bench.cli import main
from bench.isolation.process import ROOT


def test_written_method_conforms(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["new", "my_idea", "--plugins", "mine"]) == 0
    assert "bench.py check my_idea --plugins mine" in capsys.readouterr().out
    assert main.main(["check", "my_idea", "--plugins", "mine"]) == 0
    assert "13 checks passed" in capsys.readouterr().out
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", str(tmp_path / "mine")], cwd=ROOT, capture_output=True)
    assert ran.returncode == 0, ran.stdout
    assert main.main(["new", "my_idea", "--plugins", "mine"]) == 2
    assert "a method of that name exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new", "My-Method"], "lower-case letters"),
        (["new", "class"], "lower-case letters"),
        (["new", "icp"], "a method of that name exists"),
        (["check", "icpp"], "did you mean icp"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, says):
    assert main.main(arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
