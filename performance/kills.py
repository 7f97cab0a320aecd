"""Kill runs at random moments and resume them: the trials must equal those of an uninterrupted run.

    python -m performance.kills [TIMES]

Each time the driver, one of its workers, or the method's process is killed with SIGKILL, or the driver with SIGTERM,
after a random delay; then the same command is repeated until it succeeds. Print how many of the final `trials.csv` equal
the uninterrupted one except for time and memory, and how long processes of a run lived after the end of its driver.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ROOT / "tests" / "bench" / "plugins"
WITHOUT_REPORT = (
    "import sys, bench.report; from bench.cli.main import main; "
    "bench.report.begin_report = lambda *_: list; sys.exit(main())"
)
"""The normal command line without figures and HTML page, which take longer than everything else."""
ASKED = "--methods lottery slow[seconds=0.02] --datasets blobs --conditions noisy --points 60 --problems 60"
TIMES = ["time_ms", "peak_mb"]
MARK = "KILLS_OF_A_RUN"
"""Environment variable by which the processes of a run are found after its driver has ended."""
LIVED_LIMIT_S = 5.0
"""How long processes of a run may live after its driver."""
COMMAND = [sys.executable, "-c", WITHOUT_REPORT, *ASKED.split(), "--timing-rounds", "0", "--plugins", str(PLUGINS)]


def start_run(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """Start the run as a user would, on two processes."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = os.environ | {"PYTHONPATH": str(ROOT), MARK: name}
    return subprocess.Popen([*COMMAND, "--jobs", "2", "--out", name], cwd=folder, env=env, **quiet)


def strike(process: subprocess.Popen[bytes], whom: str) -> None:
    """Kill the driver, a worker of the pool or a method's process; "term" ends the driver by SIGTERM."""
    if whom == "term":
        process.send_signal(signal.SIGTERM)
        return
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    chosen = [process.pid] if whom != "worker" else []
    chosen += [random.choice(below).pid] if below and whom != "driver" else []
    for pid in chosen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def alive(name: str) -> list[int]:
    """Return the processes of a run, by the mark in their environment; not those that only wait to be reaped."""
    ids = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == name and process.status() != psutil.STATUS_ZOMBIE:
                ids.append(process.pid)
    return ids


def outlived_s(name: str) -> float:
    """Wait until no process of a run lives; return the seconds that took, at most `LIVED_LIMIT_S` and a little."""
    begun = time.monotonic()
    while alive(name) and time.monotonic() - begun < LIVED_LIMIT_S:
        time.sleep(0.1)
    return time.monotonic() - begun


def trials(folder: Path, name: str) -> str:
    """Return the trials of a run without the columns that may differ."""
    table = pd.read_csv(folder / "results" / name / "trials.csv").drop(columns=TIMES)
    return table.to_csv(index=False)


def main(times: int) -> None:
    """Print the number of equal results, and every difference."""
    random.seed(0)
    equal = struck = 0
    lived: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        begun = time.monotonic()
        start_run(folder, "whole").wait()
        span = time.monotonic() - begun
        expected = trials(folder, "whole")
        for number in range(times):
            process, whom = start_run(folder, f"r{number}"), random.choice(["driver", "worker", "both", "term"])
            time.sleep(random.uniform(0.1, span))
            struck += process.poll() is None
            strike(process, whom)
            process.wait()
            lived.append(outlived_s(f"r{number}"))
            while start_run(folder, f"r{number}").wait():
                lived.append(outlived_s(f"r{number}"))
            lived.append(outlived_s(f"r{number}"))
            same = trials(folder, f"r{number}") == expected
            equal += same
            each = (time.monotonic() - begun) / (number + 2)
            print(
                f"{number + 1:4} {whom:7} {'equal' if same else 'DIFFERENT'}  {each:.1f} s each  "
                f"processes lived up to {max(lived):.1f} s longer",
                flush=True,
            )
    print(f"{equal} of {times} equal; {struck} were killed while running; an uninterrupted run takes {span:.1f} s")
    late = sum(seconds >= LIVED_LIMIT_S for seconds in lived)
    print(
        f"after {len(lived)} ends, processes lived up to {max(lived):.1f} s longer; {late} ends beyond {LIVED_LIMIT_S:g} s"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
