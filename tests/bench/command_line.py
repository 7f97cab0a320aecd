"""Command lines of tests: common flags, and what they print and write."""

import hashlib
from pathlib import Path

from bench.cli import main
from bench.storage import csv_writer

PLUGINS = Path(__file__).parent / "plugins"


QUICK = ["--datasets", "blobs", "--points", "60", "--plugins", str(PLUGINS), "--timing-rounds", "0", "--jobs", "1"]


TIME_COLUMNS = ["time_ms", "peak_mb"]


def read_csv(folder, name):
    """Read a CSV of a run."""
    return csv_writer.read_csv(folder / f"{name}.csv")


SHORT = [*QUICK, "--methods", "identity", "--conditions", "noisy", "--problems", "2"]


def tree(folder):
    """Return every entry below a folder, files with their SHA-256."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else ""
        for p in folder.rglob("*")
    }


def refused(capsys, *arguments):
    """Run a command line that must fail with one line, and return this line."""
    capsys.readouterr()
    assert main.main(list(map(str, arguments))) == 2
    error = capsys.readouterr().err
    assert error.startswith("bench.py: ") and error.count("\n") == 1
    return error


def configuration(*arguments):
    """Return the configuration and the number of jobs that a command line gives."""
    calls = []
    original = main._dry_run
    main._dry_run = lambda config, jobs: calls.append((config, jobs))
    try:
        assert main.main([*arguments, "--dry-run", "--plugins", str(PLUGINS)]) == 0
    finally:
        main._dry_run = original
    return calls[0]
