"""Plug-ins whose import is hostile: one line each, and nothing of it reaches this process or another plug-in."""

import json
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

from bench.cli import main
from bench.planning.catalog import Catalog
from common import inspection
from common.errors import InputError
from common.plugins import Source
from methods.core.registry import MethodRegistry
from tests.bench.command_line import QUICK, read_csv
from tests.bench.waiting import FAULT_S

METHOD = '''
import numpy as np
from methods.base import Method
class M(Method):
    """A method."""
    def register(self, source, target):
        return np.eye(4)
'''
HOSTILE = {
    "leaves": ("import os; os._exit(0)", "importing it ends the process (exit code 0)"),
    "exits": ("import sys; sys.exit(0)", "does not import (SystemExit in line 1"),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "importing it ends the process (SIGKILL)"),
    "forks": ("import os\nif os.fork(): os._exit(0)", "importing it ends the process (exit code 0)"),
    "interrupts": ("raise KeyboardInterrupt", "does not import (KeyboardInterrupt in line 1"),
    "moves": ("import os; os.chdir('/')" + METHOD, "importing it changes the current folder"),
    "threads": (
        "import threading, time; threading.Thread(target=time.sleep, args=(9999,)).start()" + METHOD,
        "importing it leaves a thread running",
    ),
    "patches": ("import numpy; numpy.sqrt = lambda x: 0.5 * x" + METHOD, "importing it replaces numpy.sqrt"),
    "prints": ("print('noise' * 1000)" + METHOD, None),
    "daemons": (
        f"import subprocess; from pathlib import Path{METHOD}child = subprocess.Popen(['sleep', '99'], start_new_session=True)\n"
        "Path(__file__).with_suffix('.pid').write_text(str(child.pid))",
        None,
    ),
    "needs": (
        METHOD.replace('"""A method."""', 'requires = ("nopkg.sub",)'),
        "package nopkg.sub is missing: pip install nopkg",
    ),
    "text": (METHOD.replace('"""A method."""', 'requires = "numpy"'), "write a tuple of names, such as ('package',)"),
    "checks": (
        METHOD + "    @classmethod\n    def check_available(cls):\n        raise KeyError('x')",
        "M.check_available raises KeyError: 'x'; raise Unavailable with the reason",
    ),
    "named": (
        METHOD + "    variants = {'my m': {}, 'm[a]': {}, 'm=1': {}, 'all': {}, 'fine_name': {}}",
        "'my m' cannot be a name",
    ),
    "listed": (METHOD + "    variants = ['a']", "M.variants is no mapping of names to parameters"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, (text, _) in HOSTILE.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "good.py").write_text(METHOD)
    (folder / "two words.py").write_text(METHOD)
    return folder


@pytest.fixture(scope="module")
def catalog(folder):
    return Catalog.of(None, folder)


def test_each_hostile_plugin_is_one_line_and_the_others_are_usable(folder, catalog, capsys):
    here, sqrt, threads = Path.cwd(), np.sqrt, threading.active_count()
    assert main.main(["list", "--plugins", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, (_, says) in HOSTILE.items():
        assert says is None or any(says in line and name in line for line in lines), name
    assert any("two words.py: method: 'two words' cannot be a name" in line for line in lines)
    usable = {"good", "moves", "threads", "patches", "prints", "daemons", "needs", "text", "checks", "fine_name"}
    assert usable <= catalog.methods.entries.keys()
    assert (here, sqrt, threads) == (Path.cwd(), np.sqrt, threading.active_count())
    assert not [name for name in sys.modules if name.startswith("plugin_") and name.removeprefix("plugin_") in HOSTILE]


def test_no_process_that_an_import_starts_is_left(folder, catalog):
    assert "daemons" in catalog.methods.entries
    child = int((folder / "daemons.pid").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_doctor_names_them_too(folder, capsys):
    assert main.main(["doctor", "--plugins", str(folder)]) == 0
    out = capsys.readouterr().out
    assert (
        "method needs: package nopkg.sub is missing: pip install nopkg" in out and "leaves.py: importing it ends" in out
    )


def test_a_plugin_that_cannot_be_used_is_refused_by_name(catalog):
    with pytest.raises(InputError, match=r"leaves\.py: importing it ends the process"):
        catalog.methods.spec("leaves")
    assert "'my m' cannot be a name" in catalog.methods.faults["my m"]


def test_an_import_that_never_ends_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "DEADLINE_S", 0.5)
    (tmp_path / "endless.py").write_text("while True:\n    pass")
    assert "takes over 0.5 s to import" in MethodRegistry(tmp_path).faults["endless"]


def test_another_plugin_that_patches_numpy_changes_no_score(tmp_path, folder, monkeypatch):
    """The methods' own processes import the plug-in they run only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    run = [*QUICK, "--methods", "identity", "good", "--conditions", "noisy", "--problems", "3"]
    run = [word if word != QUICK[QUICK.index("--plugins") + 1] else str(folder) for word in run]
    run[run.index("--datasets") + 1] = "shapes40"
    assert main.main([*run, "--out", "hostile"]) == 0
    for name in HOSTILE:
        (folder / f"{name}.py").rename(folder / f"_{name}.py")
    assert main.main([*run, "--out", "plain"]) == 0
    hostile, plain = (
        read_csv(tmp_path / "results" / name, "trials").drop(columns=["time_ms", "peak_mb"])
        for name in ("hostile", "plain")
    )
    assert hostile.equals(plain) and (plain["status"] == "ok").all()


def test_parameters_of_a_plugin_are_checked_in_the_inspection(tmp_path):
    checked = """
    trim: float = 0.5
    def __post_init__(self):
        if self.trim < 0:
            raise ValueError("trim is negative")
"""
    text = METHOD + checked
    (tmp_path / "m.py").write_text(text)
    registry = MethodRegistry(tmp_path)
    assert registry.spec("m[trim=0.25]").parameters == {"trim": 0.25}
    for wrong, says in {
        "trim=-1": "trim is negative",
        "trim=x": r"'x' is not a number; write such as m\[trim=0.5\]",
        "trim=nan": "'nan' is not a finite number",
        "tri=1": "did you mean trim",
    }.items():
        with pytest.raises(InputError, match=says):
            registry.spec(f"m[{wrong}]")


def test_a_command_without_plugins_starts_no_inspection():
    text = "import common.inspection as i\ni.subprocess = None\nfrom bench.cli.main import main\nmain(['list'])"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=inspection.ROOT, capture_output=True, text=True, timeout=FAULT_S
    )
    assert done.returncode == 0 and "methods" in done.stdout, done.stderr


class Stand:
    """A process that answers with a text, or not in time."""

    def __init__(self, answer):
        self.answer, self.pid, self.calls = answer, 99, []

    def communicate(self, data=None, timeout=None):
        self.calls.append((data, timeout))
        if data is not None and self.answer is None:
            raise subprocess.TimeoutExpired("inspection", timeout)
        return self.answer, None


TASKS = [inspection.Task({}, Source(name, name)) for name in "abc"]


@pytest.mark.parametrize(
    ("answer", "usable"),
    [(b'[{"result": 1}, {"fault": "x"}, {}]', True), (b"[{}, {}]", False), (b"no JSON", False), (None, False)],
)
def test_answers_of_the_inspection_are_complete_or_all_are_lost(monkeypatch, answer, usable):
    """The process has time to start, and for each round of plug-ins; whatever is left of its group is killed."""
    killed, stand = [], Stand(answer)
    monkeypatch.setattr(inspection.subprocess, "Popen", lambda command, **options: stand)
    monkeypatch.setattr(inspection.os, "killpg", lambda *group: killed.append(group))
    for cores, rounds in ((1, 2), (2, 2), (3, 1), (None, 2)):
        monkeypatch.setattr(inspection.os, "cpu_count", lambda cores=cores: cores)
        stand.calls.clear()
        answers = inspection.run(TASKS)
        assert stand.calls[0][1] == 60 + 20 * rounds and pickle.loads(stand.calls[0][0]) == TASKS
        assert answers == (json.loads(answer) if usable else [{"fault": answers[0]["fault"]}] * 3)
        assert usable or answers[0]["fault"].startswith("could not be inspected")
    assert killed == [(99, signal.SIGKILL)] * 4 and inspection.run([]) == []


@pytest.mark.parametrize(
    ("data", "status", "answer"),
    [
        (b'{"result": 3}', 0, {"result": 3}),
        (b"[3]", 0, "exit code 0"),
        (b"", 3 << 8, "exit code 3"),
        (b"", signal.SIGSEGV, "SIGSEGV"),
    ],
)
def test_what_a_copy_leaves_is_its_answer_or_how_it_ended(data, status, answer):
    copy = inspection._Copy.__new__(inspection._Copy)
    copy.data = data
    fault = {"fault": f"importing it ends the process ({answer}); remove what does, or the file"}
    assert copy._received(status) == (answer if isinstance(answer, dict) else fault)


def test_effects_of_an_import_are_what_it_replaces_moves_and_leaves_running(monkeypatch, tmp_path):
    before, here, running = inspection._functions(), Path.cwd(), ["main"]
    monkeypatch.setattr(inspection.threading, "enumerate", lambda: running)
    assert inspection._effects(before, here) == [] and ("common.text", "clean") in before
    monkeypatch.setattr("math.added", len, raising=False)
    assert inspection._effects(before, here) == [], "a function that is added replaces none"
    monkeypatch.setattr("math.sin", len)
    assert inspection._effects(before, here) == ["replaces math.sin"]
    monkeypatch.setattr("numpy.sqrt", len)
    monkeypatch.delattr("os.times")
    running.append("another")
    (replaced, *others) = inspection._effects(before, tmp_path)
    assert replaced.startswith("replaces ") and replaced.endswith(" and 2 more")
    assert others == ["changes the current folder", "leaves a thread running"]


def described(source, **arguments):
    return {"name": source.name, "size": 10**30, **arguments}


def refuses(source):
    raise InputError("a fix")


def breaks(source):
    raise KeyError("x")


@pytest.mark.parametrize(
    ("function", "fault"),
    [("refuses", "a fix"), ("breaks", "cannot be described (KeyError: 'x'); fix or remove it")],
)
def test_a_plugin_is_described_as_json_or_has_a_fault(function, fault):
    source = Source("json", "json", module="json")
    describers = dict.fromkeys("ab", f"{__name__}:described")
    result = {key: {"name": "json", "size": 1e30, "x": 1} for key in "ab"}
    assert inspection._describe(inspection.Task(describers, source, {"x": 1})) == {"result": result}
    describers["b"] = f"{__name__}:{function}"
    assert inspection._describe(inspection.Task(describers, source)) == {"fault": fault}
    missing = inspection._describe(inspection.Task({}, Source("no", "no", module="no_such_package.sub")))
    assert missing == {"fault": "needs the package no_such_package, which is missing: pip install no_such_package"}
