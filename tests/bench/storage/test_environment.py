"""Environment: runs that git would commit belong to a commit."""

import platform
import re
import shutil
import subprocess
from types import SimpleNamespace

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


def completed(text="", code=0):
    return subprocess.CompletedProcess([], code, text)


@pytest.fixture
def git(monkeypatch):
    """Answers of git by its subcommand, None where it is not installed; its calls."""
    git = SimpleNamespace(describe=completed("abc123\n"), status=completed(), calls=[])
    git.answers = {"describe": lambda: git.describe, "status": lambda: git.status, "check-ignore": lambda: git.ignored}

    def call(*arguments):
        git.calls.append(arguments)
        return git.answers[arguments[0]]()

    monkeypatch.setattr(environment, "_git", call)
    return git


CHANGED = " M a.py\0?? new file.py\0D  gone.py\0MM b.py\0"
NAMES = ["a.py", "new file.py", "gone.py", "b.py"]


@pytest.mark.parametrize(
    ("description", "status", "commit"),
    [
        (completed("abc123\n"), completed(), "abc123"),
        (completed("v1-2-gabc\n"), completed(CHANGED), "v1-2-gabc-dirty"),
        (completed("", 128), completed(CHANGED), "unknown"),
        (None, None, "unknown"),
        (completed("abc123\n"), None, "abc123"),
    ],
)
def test_the_commit_is_what_git_describes_and_whether_files_are_changed(git, description, status, commit):
    git.describe, git.status = description, status
    assert environment.environment()["commit"] == commit
    assert git.calls[0] == ("describe", "--always", "--abbrev=12")


@pytest.mark.parametrize("ignored", [None, 0, 1, 128])
@pytest.mark.parametrize("changes", ["", CHANGED])
def test_only_a_folder_that_git_would_commit_needs_a_clean_checkout(git, tmp_path, ignored, changes):
    git.ignored = None if ignored is None else completed(code=ignored)
    git.status = completed(changes)
    assert environment.changed_files() == (NAMES if changes else [])
    outputs = (":(exclude)results", ":(exclude)reports")
    assert git.calls.pop() == ("status", "--porcelain=v1", "-z", "--no-renames", "--", ".", *outputs)
    if ignored == 1 and changes:
        with pytest.raises(InputError, match=r"changes in a\.py, new file\.py, gone\.py and 1 more; commit or stash"):
            environment.require_clean_checkout(tmp_path / "x" / "..")
    else:
        environment.require_clean_checkout(tmp_path / "x" / "..")
    assert git.calls[0] == ("check-ignore", "--quiet", "--", str(tmp_path / "run.json"))


def test_git_that_is_not_installed_is_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert environment._git("status") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor: 0\nmodel name\t: A: fast \nmodel name\t: B\n", "A: fast"),
        ("cpu: 0\nno model name : C\n", "arm"),
        (None, "arm"),
    ],
)
@pytest.mark.parametrize("known", ["arm", ""])
def test_the_processor_is_the_first_that_the_system_lists(monkeypatch, text, name, known):
    def read(file):
        assert str(file) == "/proc/cpuinfo"
        if text is None:
            raise OSError
        return text

    monkeypatch.setattr(environment.Path, "read_text", read)
    monkeypatch.setattr(environment.platform, "processor", lambda: known)
    monkeypatch.setattr(environment.platform, "machine", lambda: "aarch64")
    assert environment.processor() == (name if known or name != "arm" else "aarch64")


def test_the_id_of_a_machine_follows_its_name_its_processor_and_its_cores(monkeypatch):
    facts = {"node": "a", "processor": "b", "cores": 3}
    monkeypatch.setattr(environment.platform, "node", lambda: facts["node"])
    monkeypatch.setattr(environment, "processor", lambda: facts["processor"])
    monkeypatch.setattr(environment.os, "cpu_count", lambda: facts["cores"])
    monkeypatch.setattr(environment.platform, "platform", lambda: "system")
    ids = [environment.machine.__wrapped__()]
    for name, value in (("node", "z"), ("processor", "z"), ("cores", 4)):
        with monkeypatch.context() as patch:
            patch.setitem(facts, name, value)
            ids.append(environment.machine.__wrapped__())
    assert len(set(ids)) == 4 and all(re.fullmatch("[0-9a-f]{8}", name) for name in ids)
    assert environment.machine.__wrapped__() == ids[0]
    assert environment.machine_facts() == {"cpu": "b", "cores": 3, "os": "system"}


@pytest.mark.parametrize("load", [True, False])
def test_facts_of_the_environment_are_those_of_the_system(git, monkeypatch, tmp_path, load):
    (tmp_path / "requirements.txt").write_text(
        "# numpy\nnumpy>=1\n\n  scipy\npytest-nowhere\npandas[x]; a\nPyYAML.x-y\n"
    )
    versions = {"numpy": "1", "pandas": "2", "PyYAML.x-y": "3", "scipy": "4"}

    def version(name):
        if name not in versions:
            raise environment.metadata.PackageNotFoundError
        return versions[name]

    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment.metadata, "version", version)
    monkeypatch.setattr(environment, "_packages", environment._packages.__wrapped__)
    monkeypatch.setattr(environment, "processor", lambda: "b")
    monkeypatch.setattr(environment.os, "cpu_count", lambda: 5)
    if load:
        monkeypatch.setattr(environment.os, "getloadavg", lambda: (1.0, 2.0, 3.0), raising=False)
    else:
        monkeypatch.delattr(environment.os, "getloadavg", raising=False)
    assert environment.environment() == {
        "commit": "abc123",
        "python": platform.python_version(),
        "os": platform.platform(),
        "cpu": "b",
        "cores": 5,
        "load_average": [1.0, 2.0, 3.0] if load else [],
        "packages": {"numpy": "1", "pandas": "2", "PyYAML.x-y": "3"},
    }
