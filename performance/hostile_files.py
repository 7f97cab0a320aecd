"""Read hostile files of every format through `bench.py pair` and print what became of each kind.

    python -m performance.hostile_files [COUNT]

400 files by default: cut, with flipped bits, headers that lie, bombs, wrong encodings and suffixes, links out of the file,
pipes and sparse files. Each file must be read as finite points, or be refused by one line with its name; within 20 s and 2 GB.
Of each kind of outcome one file goes through the command line, whose exit code must be 2. The script ends with code 1 if a
file breaks a rule.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from common.errors import InputError
from datasets import formats
from datasets.formats.limited import MIN_MEMORY, MIN_SECONDS
from tests.datasets.formats.files import npy
from tests.datasets.formats.hostile import corpus

ROOT = Path(__file__).resolve().parent.parent
COMMANDS_PER_KIND = 2
"""Files of each kind that go through the command line."""


def outcome(file: Path) -> tuple[str, str]:
    """Return what became of a file (`read`, `refused` or `broken`) and the message."""
    try:
        is_hdf5 = file.suffix == ".h5"
        points = formats.read_fields(file, ["data"])["data"] if is_hdf5 else formats.read(file).points
    except InputError as error:
        message = str(error)
        is_line = message.isprintable() and file.name in message
        return ("refused" if is_line else "broken"), message
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"
    is_sound = points.dtype.kind == "S" or bool(np.isfinite(points).all())
    return ("read" if is_sound else "broken"), f"{points.shape}"


def kind_of(file: Path) -> str:
    """Return the kind of damage by the name of a file of the corpus."""
    parts = file.stem.split("_")
    if not parts[0].isdigit():
        return "HDF5" if file.suffix == ".h5" else "bombs and special files"
    return " ".join(parts[1:3]) if parts[1] in ("header", "lying", "other", "wrong") else parts[1]


def exit_code(file: Path, good: Path) -> tuple[int, int]:
    """Return the exit code and the number of lines of errors of `bench.py pair` on a file."""
    command = [sys.executable, str(ROOT / "bench.py"), "pair", str(file), str(good), "--methods", "identity"]
    done = subprocess.run(command, capture_output=True, check=False, cwd=good.parent)
    return done.returncode, done.stderr.count(b"\n")


def main(count: int = 400) -> int:
    """Print a row for each kind of damage; return the number of broken rules."""
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    slowest, broken, refused = 0.0, [], defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "hostile"
        folder.mkdir()
        good = Path(name) / "good.npy"
        good.write_bytes(npy())
        for file in corpus(folder, count):
            start = time.perf_counter()
            what, message = outcome(file)
            slowest = max(slowest, time.perf_counter() - start)
            outcomes[kind_of(file)][what] += 1
            if what == "broken":
                broken.append(f"{file.name}: {message}")
            elif what == "refused" and file.suffix != ".h5":
                refused[kind_of(file)].append(file)
        commands = [file for files in refused.values() for file in files[:COMMANDS_PER_KIND]]
        codes = Counter(exit_code(file, good) for file in commands)
    print(f"{'damage':26}{'files':>6}{'refused':>9}{'read':>6}{'broken':>8}")
    for kind, counts in sorted(outcomes.items()):
        print(f"{kind:26}{counts.total():6}{counts['refused']:9}{counts['read']:6}{counts['broken']:8}")
    total = sum(outcomes.values(), Counter())
    print(f"{'all':26}{total.total():6}{total['refused']:9}{total['read']:6}{total['broken']:8}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"slowest file {slowest:.1f} s (limit {MIN_SECONDS:g} s), "
        f"largest child {peak / 1e9:.2f} GB (limit {MIN_MEMORY / 1e9:g} GB)"
    )
    print(f"{len(commands)} of the refused files by bench.py pair: (exit code, lines) {dict(codes)}")
    print("\n".join(broken))
    return len(broken) + (slowest > MIN_SECONDS + 1) + (peak > MIN_MEMORY) + (set(codes) != {(2, 1)})


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:2])), 1))
