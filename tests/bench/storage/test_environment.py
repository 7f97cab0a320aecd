"""Environment: runs that git would commit belong to a commit."""

import shutil
import subprocess

import pytest

from bench.cli import main
from bench.storage import environment
from bench.storage.environment import ROOT
from common.errors import InputError
from tests.bench.command_line import SHORT, refused, tree


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with the .gitignore of this repository and one method, as current folder."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy(ROOT / ".gitignore", folder)
    (folder / "method.py").write_text("1")
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    monkeypatch.setattr(environment, "ROOT", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    monkeypatch.setattr(environment, "_packages", dict)
    return folder


def test_run_in_a_tracked_folder_needs_a_clean_checkout(checkout, capsys):
    assert not environment.changed_files() and not environment.environment()["commit"].endswith("-dirty")
    (checkout / "method.py").write_text("2")
    (checkout / "new.py").write_text("3")
    before = tree(checkout)
    for name in ("reference", "./mine"):
        error = refused(capsys, *SHORT, "--out", name, "--fresh")
        assert "method.py, new.py; commit or stash them" in error
    assert tree(checkout) == before
    assert environment.environment()["commit"].endswith("-dirty")
    assert main.main([*SHORT, "--out", "r"]) == 0  # which git ignores
    (checkout / "method.py").write_text("1")
    (checkout / "new.py").unlink()
    for _ in range(2):  # the second time, the run's own files are there
        assert main.main([*SHORT, "--out", "reference"]) == 0
    assert not environment.environment()["commit"].endswith("-dirty")


def test_folder_outside_of_the_checkout_needs_no_clean_checkout(checkout, tmp_path):
    (checkout / "method.py").write_text("2")
    environment.require_clean_checkout(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"method\.py"):
        environment.require_clean_checkout(checkout / "results" / "reference")
