"""Inspect plug-ins in a separate process, since importing one runs its code: it may hang, exit, or change what others use.

One process is started for all plug-ins. It makes a copy of itself (fork) for each of them, which imports it, describes it as JSON
and ends. So neither the command nor another plug-in is affected.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.processes import adopt_orphans, die_with_parent, end_descendants
from common.text import clean_json

if TYPE_CHECKING:
    from common.plugins import Source

DEADLINE_S = 20.0
"""Maximum seconds to import and describe a plug-in."""
START_S = 60.0
"""Maximum seconds for the process of the inspection to start."""
MAX_BYTES = 1 << 22
"""Maximum size of a description in bytes."""
ROOT = Path(__file__).resolve().parents[1]
_WATCHED = ("builtins", "math", "os", "time", "random", "numpy", "numpy.linalg", "numpy.random")
"""Modules whose functions a plug-in should not replace; those of this project are added."""

Answer = dict[str, Any]
"""Either `fault`, or `result` by the key of the describer, and `effects`, what the import changed in its process."""


@dataclass(frozen=True)
class Task:
    """Description to make of a plug-in.

    Attributes:
        describers: key to function, as `module:name`, that gets the source and the arguments and returns JSON values. An
            `InputError` that it raises becomes the fault.
        source: where the plug-in is defined.
        arguments: for the describers.
    """

    describers: dict[str, str]
    source: Source
    arguments: dict[str, Any] = field(default_factory=dict)


def run(tasks: Sequence[Task]) -> list[Answer]:
    """Return the answer to each task."""
    if not tasks:
        return []
    rounds = -(-len(tasks) // _width())
    process = subprocess.Popen(
        [sys.executable, "-m", "common.inspection", str(os.getpid()), str(DEADLINE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(pickle.dumps(tasks), timeout=START_S + rounds * DEADLINE_S)
        answers: list[Answer] = clean_json(json.loads(out), MAX_BYTES)
    except (subprocess.TimeoutExpired, ValueError):
        answers = []
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    lost: Answer = {"fault": "could not be inspected; try again on a less busy machine, or remove it"}
    return answers if len(answers) == len(tasks) else [lost] * len(tasks)


def _width() -> int:
    """Return how many plug-ins are inspected at a time."""
    return max(2, os.cpu_count() or 1)


def main() -> None:
    """Answer the tasks on standard input."""
    die_with_parent(int(sys.argv[1]))
    deadline_s = float(sys.argv[2])
    adopt_orphans()
    tasks = pickle.load(sys.stdin.buffer)
    for name in {function.split(":")[0] for task in tasks for function in task.describers.values()}:
        importlib.import_module(name)
    for name in _WATCHED:
        importlib.import_module(name)
    answers: list[Answer] = [{}] * len(tasks)
    waiting, open_copies = list(enumerate(tasks)), dict[int, _Copy]()
    while waiting or open_copies:
        while waiting and len(open_copies) < _width():
            number, task = waiting.pop(0)
            open_copies[number] = _Copy(task, deadline_s)
        select.select([copy.pipe for copy in open_copies.values()], [], [], 0.1)
        for number, copy in list(open_copies.items()):
            if (answer := copy.answer()) is not None:
                answers[number] = answer
                del open_copies[number]
    end_descendants()
    json.dump(answers, sys.stdout)


class _Copy:
    """Copy of this process that inspects one plug-in."""

    def __init__(self, task: Task, deadline_s: float) -> None:
        self.pipe, write_end = os.pipe()
        self.deadline_s, self.deadline, self.data = deadline_s, time.monotonic() + deadline_s, b""
        self.process_id = os.fork()
        if self.process_id == 0:
            _inspect(task, write_end)
        os.close(write_end)
        os.set_blocking(self.pipe, False)

    def answer(self) -> Answer | None:
        """Return the answer once the copy has ended or exceeded its limits."""
        # Looked at before the pipe is read: what it wrote before it ended is then there. A process it started may hold the pipe.
        ended = os.waitid(os.P_PID, self.process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.pipe, 1 << 16):
                self.data += chunk
                if len(self.data) > MAX_BYTES:
                    return self._end({"fault": "its description is too large; shorten its texts"})
        if ended:
            _, status = os.waitpid(self.process_id, 0)
            return self._end(self._received(status), ended=True)
        if time.monotonic() > self.deadline:
            return self._end({"fault": f"takes over {self.deadline_s:g} s to import; move that work into setup"})
        return None

    def _received(self, status: int) -> Answer:
        with contextlib.suppress(ValueError):
            answer = json.loads(self.data)
            if isinstance(answer, dict):
                return answer
        code = os.waitstatus_to_exitcode(status)
        ending = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return {"fault": f"importing it ends the process ({ending}); remove what does, or the file"}

    def _end(self, answer: Answer, ended: bool = False) -> Answer:
        if not ended:
            os.kill(self.process_id, signal.SIGKILL)
            os.waitpid(self.process_id, 0)
        os.close(self.pipe)
        return answer


def _inspect(task: Task, write_end: int) -> None:
    """Describe a plug-in, write the answer, and end this process."""
    process_id, write, leave, here = os.getpid(), os.write, os._exit, Path.cwd()
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silent, descriptor)
    before = _functions()
    dumps = json.dumps
    try:
        answer = _describe(task)
        answer["effects"] = _effects(before, here)
    except BaseException as error:
        answer = {"fault": f"cannot be described ({type(error).__name__}); fix or remove it"}
    if os.getpid() == process_id:  # not a copy that the plug-in made
        data = dumps(answer).encode()
        while data:
            data = data[write(write_end, data) :]
    leave(0)


def _describe(task: Task) -> Answer:
    from common.errors import InputError
    from common.plugins import reason

    try:
        task.source.load()
    except BaseException as error:
        return {"fault": reason(error)}
    result = {}
    for key, name in task.describers.items():
        module, _, function = name.partition(":")
        try:
            result[key] = getattr(importlib.import_module(module), function)(task.source, **task.arguments)
        except InputError as error:
            return {"fault": str(error)}
        except Exception as error:
            return {"fault": f"cannot be described ({type(error).__name__}: {error}); fix or remove it"}
    return {"result": clean_json(result, MAX_BYTES)}


def _functions() -> dict[tuple[str, str], int]:
    """Return the identities of all functions and classes of the watched modules."""
    own = [name for name in sys.modules if name.split(".")[0] in ("common", "datasets", "methods")]
    return {
        (module, name): id(value)
        for module in (*_WATCHED, *own)
        for name, value in list(vars(sys.modules[module]).items())
        if callable(value)
    }


def _effects(before: dict[tuple[str, str], int], here: Path) -> list[str]:
    """Return what an import has changed in its process beyond adding a module."""
    now = _functions()
    replaced = [f"{module}.{name}" for (module, name), value in before.items() if now.get((module, name)) != value]
    effects = (
        [f"replaces {replaced[0]}" + (f" and {len(replaced) - 1} more" if replaced[1:] else "")] if replaced else []
    )
    if Path.cwd() != here:
        effects.append("changes the current folder")
    if len(threading.enumerate()) > 1:
        effects.append("leaves a thread running")
    return effects


if __name__ == "__main__":
    main()
