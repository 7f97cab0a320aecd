"""A stranger's plug-in: from a folder or an installed package; each fault is one clear line and stops nothing else."""

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from bench.cli import main
from common import plugins
from common.errors import InputError
from common.plugins import Discovery, Source, discover, reason
from methods.base import Method
from methods.core.registry import GROUP, MethodRegistry
from tests.bench.command_line import refused
from tests.catalog import build, open_data

GOOD = '''
from methods.base import Method
class Mine(Method):
    """Mine."""
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(GOOD)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import nowhere_to_be_found.sub", "needs the package nowhere_to_be_found, which is missing: pip install"),
        ("x = 1\n1 / 0", "does not import (ZeroDivisionError in line 2: division by zero); fix or remove it"),
        ("def f(:", "does not import (SyntaxError in line 1"),
        ("import sys\nsys.exit(3)", "does not import (SystemExit in line 2: 3)"),
    ],
)
def test_a_module_that_does_not_import_is_one_line_and_spares_the_others(folder, capsys, text, says):
    (folder / "broken.py").write_text(text)
    assert "mine" in MethodRegistry(folder).entries and "broken" not in MethodRegistry(folder).entries
    for ask in (build, lambda name, f: open_data(name, None, f)):
        with pytest.raises(InputError) as error:
            ask("broken", folder)
        assert (
            says in str(error.value) and "\n" not in str(error.value) and str(folder / "broken.py") in str(error.value)
        )
    assert main.main(["list", "--plugins", str(folder)]) == 0
    out = capsys.readouterr().out
    assert says in out and "  mine " in out


DATA_SET = "from datasets.folder import Folder\nclass F(Folder):\n    '''F.'''\n"


def test_a_name_that_is_taken_is_one_line_and_spares_the_others(folder, capsys):
    (folder / "icp.py").write_text(GOOD)
    (folder / "folder.py").write_text(DATA_SET)
    assert main.main(["list", "--plugins", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"{folder}/icp.py: a method named 'icp' exists already (" in out and "  mine " in out
    assert f"{folder}/folder.py: a data set named 'folder' exists already (" in out
    assert build("mine", folder) and open_data("shapes40", None, folder)
    for resolve, name in ((build, "icp"), (lambda n, f: open_data(n, None, f), "folder")):
        with pytest.raises(InputError, match=rf"{name}\.py: a .* exists already \(.*{name}\.py\); rename this one"):
            resolve(name, folder)


def test_a_missing_docstring_is_told_in_the_list(tmp_path, capsys):
    (tmp_path / "silent.py").write_text("from methods.base import Method\nclass Silent(Method):\n    x: int = 1\n")
    assert main.main(["list", "--plugins", str(tmp_path)]) == 0
    assert "has no docstring: write one sentence below 'class Silent'" in capsys.readouterr().out


def test_tests_and_private_files_in_a_folder_are_no_plugins(folder):
    for name in ("test_mine.py", "_helper.py"):
        (folder / name).write_text("raise RuntimeError")
    assert not MethodRegistry(folder).faults


def test_entry_points_of_installed_packages_are_plugins(tmp_path, monkeypatch):
    (tmp_path / "stranger_pkg.py").write_text(
        GOOD + "class Other(Method):\n    '''Other.'''\n    variants = {'other': {}}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    points = [
        metadata.EntryPoint("mine", "stranger_pkg:Mine", GROUP),
        metadata.EntryPoint("both", "stranger_pkg", GROUP),
        metadata.EntryPoint("lost", "not_installed_pkg", GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == GROUP else [])
    plugins = discover("methods", GROUP)
    offered = {s.name: [d["class_name"] for d in plugins.described[s]] for s in plugins.sources[-2:]}
    assert offered == {"mine": ["Mine"], "both": ["Mine", "Other"]}
    sources = [(s.name, s.origin, s.module, s.only, s.external, s.file) for s in plugins.sources[-2:]]
    assert sources == [
        ("mine", "entry point mine = stranger_pkg:Mine", "stranger_pkg", "Mine", True, ""),
        ("both", "entry point both = stranger_pkg", "stranger_pkg", "", True, ""),
    ]
    assert "pip install not_installed_pkg" in plugins.faults["lost"]
    assert "stranger_pkg" not in sys.modules


def test_classes_are_the_concrete_ones_of_the_module_or_the_one_that_is_named(tmp_path):
    text = (
        "from abc import ABC, abstractmethod\nfrom methods.base import Method\nfrom methods.icp import Icp\nvalue = 1\n"
    )
    text += "class B(Method):\n    '''B.'''\nclass A(B):\n    '''A.'''\nclass Other:\n    '''No method.'''\n"
    text += "class Abstract(Method, ABC):\n    '''Abstract.'''\n    @abstractmethod\n    def part(self): ...\n"
    (tmp_path / "several.py").write_text(text)

    def names(only=""):
        return [
            cls.__name__ for cls in Source("several", "", file=str(tmp_path / "several.py"), only=only).classes(Method)
        ]

    assert names() == ["A", "B"]
    assert {only: names(only) for only in ("A", "Other", "value")} == {"A": ["A"], "Other": [], "value": []}


def test_a_file_is_imported_again_after_it_has_changed(tmp_path):
    file = tmp_path / "twice.py"
    modules = []
    for text, time in (("x = 1", 10**18), ("x = 1", 10**18), ("x = 23", 2 * 10**18)):
        file.write_text(text)
        os.utime(file, ns=(time, time))
        modules.append(Source("twice", "", file=str(file)).load())
    assert modules[0] is modules[1] and modules[0] is not modules[2] and modules[2].x == 23
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "twice.py").write_text("x = 456")
    assert Source("twice", "", file=str(tmp_path / "other" / "twice.py")).load().x == 456


def test_the_first_of_a_name_is_used_and_reserved_names_are_faults():
    first, second = Source("a", "first file"), Source("a", "second file")
    given = [
        ("a", first, 1),
        ("a", second, 2),
        ("all", first, 3),
        ("b", second, 4),
        ("oracle", second, 5),
        ("a b", first, 6),
    ]
    used, faults = Discovery(faults={"c": "broken"}).index(given, "method")
    assert used == {"a": 1, "b": 4} and set(faults) == {"a", "all", "oracle", "a b", "c"}
    assert faults["a"] == "second file: a method named 'a' exists already (first file); rename this one"
    assert faults["all"] == "first file: method: the name 'all' is reserved; rename it" and faults["c"] == "broken"


def test_a_folder_must_exist():
    with pytest.raises(InputError, match="no such folder; give a folder"):
        discover("methods", GROUP, Path("nowhere"))


@pytest.mark.parametrize(
    ("flag", "base"), [("--methods", "Method (methods.base)"), ("--datasets", "DataSet or PairSet")]
)
def test_a_file_without_a_plugin_is_named_when_it_is_used_as_one(tmp_path, monkeypatch, capsys, flag, base):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "helper.py").write_text("class Helper:\n    pass\n")
    error = refused(capsys, flag, "helper", "--plugins", "mine", "--problems", "1")
    assert f"mine/helper.py: defines no complete class derived from {base}" in error
    assert "unknown" in refused(capsys, flag, "helpe", "--plugins", "mine", "--problems", "1")
    assert main.main(["list", "--plugins", "mine"]) == 0
    assert "helper.py" not in capsys.readouterr().out, "others may import it"


def test_modules_of_a_package_that_do_not_import_are_faults(tmp_path, monkeypatch):
    """In the order of their names; private ones are no plug-ins."""
    package = tmp_path / "package_of_a_test"
    package.mkdir()
    for name, text in {
        "__init__": "",
        "b": "x = 1",
        "a": "",
        "bad": "1 / 0",
        "ends": "raise SystemExit",
        "_c": "1 / 0",
    }.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [])
    found = discover(package.name, GROUP)
    assert [(s.name, s.origin, s.module, s.external) for s in found.sources] == [
        (name, str(package / f"{name}.py"), f"{package.name}.{name}", False) for name in "ab"
    ]
    assert found.faults.keys() == {"bad", "ends"} and found.remarks == found.described == {}
    assert found.faults["bad"].startswith(f"{package / 'bad.py'}: does not import (ZeroDivisionError in line 1: ")
    assert [m.__name__ for m in plugins.package_modules("common")][:2] == ["common.devices", "common.errors"]
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        del sys.modules[name]


def test_the_reason_of_a_failed_import_is_one_short_line():
    assert (
        reason(ModuleNotFoundError("No module", name="a.b")) == "needs the package a, which is missing: pip install a"
    )
    with pytest.raises(ValueError, match="x") as raised:
        int("x\n" * 300)
    line = raised.tb.tb_lineno
    message = " ".join(str(raised.value).split())
    assert len(message) > 200 and reason(raised.value).endswith(f"in line {line}: {message[:200]}); fix or remove it")


def test_a_plugin_may_import_another_one_of_its_folder(tmp_path):
    (tmp_path / "first.py").write_text("from plugin_second import value\n")
    (tmp_path / "second.py").write_text("value = 5\n")
    assert Source("first", "", file=str(tmp_path / "first.py")).load().value == 5
    finder = plugins._FolderFinder(tmp_path)
    assert finder.find_spec("plugin_second").origin == str(tmp_path / "second.py")
    assert finder.find_spec("plugin_third") is None and finder.find_spec("second") is None
    for name in ("plugin_first", "plugin_second"):
        sys.modules.pop(name, None)
