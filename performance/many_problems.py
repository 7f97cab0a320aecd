"""Measure a run of a method that costs nothing on many problems, and its report.

    python -m performance.many_problems [PROBLEMS]

The method is `identity`, the data set `shapes40` with 64 points. Print seconds and processor time of run and report, the
size of the record and the peak memory of the largest process, each beside its limit. Limits of time are those for 100 000
problems, scaled to the number of problems.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = 2
FULL = 100_000
LIMIT_S, LIMIT_RECORD_MB, LIMIT_MEMORY_MB = 120.0, 300.0, 600.0
"""Limits of run and report together, of the record, both at `FULL` problems, and of the memory of any process."""
RUN = "--methods identity --datasets shapes40 --conditions clean --points 64 --timing-rounds 0"
WITHOUT_REPORT = (
    "import sys, bench.cli.main as main; main.write_report = lambda *_, **__: None; sys.exit(main.main(sys.argv[1:]))"
)


def spent(arguments: list[str], folder: Path) -> tuple[float, float]:
    """Run a command; return its wall time and the processor time of all its processes, in seconds."""
    before, start = os.times(), time.monotonic()
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, *arguments], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return time.monotonic() - start, sum(after[2:4]) - sum(before[2:4])


def main(problems: int) -> None:
    """Print what run and report take."""
    share = problems / FULL
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        arguments = [*RUN.split(), "--problems", str(problems), "--jobs", str(JOBS), "--out", "many"]
        total = 0.0
        commands = {"run": ["-c", WITHOUT_REPORT, *arguments], "report": [str(ROOT / "bench.py"), "report", "many"]}
        for name, command in commands.items():
            wall, busy = spent(command, folder)
            total += wall
            print(
                f"{name}: {wall:.1f} s, {busy:.1f} s of processor time, {1e3 * busy / problems:.2f} ms a problem",
                flush=True,
            )
        size = (folder / "results" / "many" / "record.sqlite").stat().st_size / 1e6
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    print(f"run and report: {total:.0f} s of {LIMIT_S * share:.0f} s for {problems} problems")
    print(f"record: {size:.0f} MB of {LIMIT_RECORD_MB * share:.0f} MB; {1e3 * size / problems:.2f} kB a problem")
    print(f"largest process: {memory:.0f} MB of {LIMIT_MEMORY_MB:.0f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FULL)
