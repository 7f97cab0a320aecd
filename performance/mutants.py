"""Put single faults into a copy of the code and print the share that the tests catch: `python -m performance.mutants`."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PER_FILE, TIMEOUT_S, LEAST = 12, 300, 0.9
EVALUATION = "tests/bench/evaluation"
TESTS = {
    "bench/evaluation/metrics.py": [f"{EVALUATION}/test_metrics.py", f"{EVALUATION}/test_recomputed.py"],
    "bench/evaluation/statistics.py": [f"{EVALUATION}/test_statistics.py"],
    "bench/evaluation/aggregate.py": [f"{EVALUATION}/test_recomputed.py", f"{EVALUATION}/test_aggregate.py"],
    "bench/evaluation/compare.py": [f"{EVALUATION}/test_shown_statistics.py", f"{EVALUATION}/test_compare.py"],
    "datasets/conditions.py": ["tests/datasets/test_laws.py", "tests/datasets/test_problems.py"],
    "datasets/problems.py": ["tests/datasets/test_laws.py", "tests/datasets/test_problems.py"],
    "datasets/poses.py": ["tests/datasets/test_laws.py", "tests/datasets/test_problems.py"],
    "bench/storage/database.py": ["tests/bench/storage/test_database.py"],
    "bench/execution/pool_worker.py": [
        "tests/bench/execution/test_time_of_calls.py",
        "tests/bench/execution/test_pool_worker.py",
        "tests/bench/execution/test_batch.py",
    ],
    "bench/isolation/process.py": ["tests/bench/execution/test_time_of_calls.py", "tests/bench/isolation"],
    "bench/report/ranking.py": [f"{EVALUATION}/test_shown_statistics.py", "tests/bench/report/test_ranking.py"],
    "methods/icp.py": ["tests/methods/test_parameters.py", "tests/methods/test_icp.py"],
    "methods/geometry/ransac.py": ["tests/methods/test_parameters.py", "tests/methods/geometry/test_ransac.py"],
}
"""Test files by the file whose faults they should catch."""
SWAPS: dict[type, tuple[type, str]] = {
    ast.Lt: (ast.Gt, "comparison"),
    ast.LtE: (ast.GtE, "comparison"),
    ast.Eq: (ast.NotEq, "comparison"),
    ast.Add: (ast.Sub, "arithmetic"),
    ast.Sub: (ast.Add, "arithmetic"),
    ast.Mult: (ast.Div, "arithmetic"),
    ast.Div: (ast.Mult, "arithmetic"),
}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "mean": "median", "median": "mean"}


class Fault(NamedTuple):
    """A fault: the file, its kind, its line, and the file's whole changed code."""

    file: str
    kind: str
    line: int
    code: str


def faults_of(file: str) -> list[Fault]:
    """Return up to `PER_FILE` faults of a file, chosen by digests, so that other edits of the file keep the choice."""
    source = (ROOT / file).read_text(encoding="utf-8")
    count = sum(1 for _ in ast.walk(ast.parse(source)))
    faults = {}
    for number in range(count):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[number]
        before = ast.unparse(node) if isinstance(node, ast.expr) else ""
        if before and (kind := _change(node)):
            key = f"{file} {kind} {before} {ast.unparse(node)}"
            faults[hashlib.sha256(key.encode()).hexdigest()] = Fault(file, kind, node.lineno, ast.unparse(tree))
    return [faults[key] for key in sorted(faults)[:PER_FILE]]


def _change(node: ast.AST) -> str | None:
    """Change an expression in place and return the kind of the fault; None if it has none."""
    if isinstance(node, ast.Compare) and (swap := SWAPS.get(type(node.ops[0]))):
        node.ops[0] = swap[0]()
        return swap[1]
    if isinstance(node, ast.BinOp) and (swap := SWAPS.get(type(node.op))):
        node.op = swap[0]()
        return swap[1]
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        node.attr = NAMES[node.attr]
        return "minimum, maximum, mean, median"
    if isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg in ("axis", "ddof", "skipna", "repeat"):
        node.keywords.pop()
        return "keyword"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1
        return "constant"
    return None


def is_caught(copy: Path, fault: Fault) -> bool:
    """Run the tests of a fault in the copy of the code; a hang counts as caught."""
    target = copy / fault.file
    usual = target.read_text(encoding="utf-8")
    target.write_text(fault.code, encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS[fault.file]]
    settings = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command, cwd=copy, env=settings, capture_output=True, timeout=TIMEOUT_S).returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_text(usual, encoding="utf-8")


if __name__ == "__main__":
    caught, total = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "code"
        unneeded = shutil.ignore_patterns(".git", ".venv", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=unneeded)
        for file in TESTS:
            usual = (ROOT / file).read_text(encoding="utf-8")
            if is_caught(copy, Fault(file, "none", 0, usual)):
                sys.exit(f"the tests of {file} fail without a fault; repair them first")
        for fault in (fault for file in TESTS for fault in faults_of(file)):
            total[fault.kind] += 1
            if is_caught(copy, fault):
                caught[fault.kind] += 1
            else:
                print(f"not caught: {fault.file}:{fault.line} {fault.kind}", flush=True)
    for kind in sorted(total):
        print(f"{kind:32}{caught[kind]:4} of {total[kind]}")
    share = caught.total() / total.total()
    print(f"{'all':32}{caught.total():4} of {total.total()}: {share:.0%}")
    sys.exit(share < LEAST)
