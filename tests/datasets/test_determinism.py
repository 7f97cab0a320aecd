"""Problems have the same bits whatever the BLAS kernel, the vector units, the C library's variants and the threads."""

import ast
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__ as UNITS

from tests.datasets import problem_digests

ROOT = Path(__file__).parents[2]
PINNED = {
    "clean": "13ab39a7e8d9b390 cc38cbba3bce0252 77605658a7532570",
    "noisy": "60f0470c6cb742d7 88ad39170ceb30f4 161c94b6889dd5b6",
    "unseen": "93ceab1ca6b9edd8 30dfec9becc2ce9f cf9f09d10d2d4fde",
    "resampled": "f2459547e9cfc09a d389f06c3d622035 485fa0a7ae4b3929",
    "partial": "13924ecafc22ebca 31dd5155341c55ea 9b88e9b7b2dd75f2",
    "outliers": "35625243dd92f697 8c459d7699671925 10d7202014e92f48",
    "density": "76cb2ab782cf4da1 889a364e55d798f6 517a95fb9a2d0be2",
    "crop": "8d452cafac655ec1 f4641fa7fa7eb3a7 2c5e8c12b10d3813",
    "nearest": "c094d1e06f6dde1d 271de8475bf17a6b b99a1a63c11f01f7",
}
"""The first digits of the digests of three problems of each condition; of these, problems of 0.1 have others."""
PINNED_SETS = {
    "shapes40": "9830037259535d25",
    "modelnet40[layout=points]": "c0bd6acb2e0d6e6a",
    "modelnet40[layout=meshes]": "5ab0fef660666ca3",
    "folder[path=clouds]": "151ec72d49b92396",
    "icl_nuim": "2c66e694a2975af2",
    "icl_nuim_pairs[min_overlap=0.0,near=0.5]": "4fafb3a7d44f606d",
    "stanford[min_overlap=0.0,near=0.3]": "b8749ddc8d50c462",
    "fragments[path=rooms,adjacent=true]": "cbe8d9a62a1fbf6e",
    "pairs[path=pairs.h5]": "5a6b49ae77f07970",
}
"""The first digits of one digest of all other problems of each data set: every category, sampler and layout."""
PINNED_ROOM = "4ac12c844d8d4692"
"""The first digits of the digest of a room."""
C_LIBRARY = "AVX2 AVX2_Usable FMA FMA_Usable FMA4 FMA4_Usable AVX512F AVX512F_Usable"
PROCESSORS = {
    **{core: {"OPENBLAS_CORETYPE": core} for core in ("Prescott", "Haswell", "Zen", "SkylakeX")},
    "no AVX-512": {"NPY_DISABLE_CPU_FEATURES": " ".join(u for u in UNITS if "AVX512" in u or u == "X86_V4")},
    "no vector units": {"NPY_DISABLE_CPU_FEATURES": " ".join(UNITS)},
    "other C library": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-{name}" for name in C_LIBRARY.split())},
}


def digests(root, cache, order, environment):
    """Digests of all problems, drawn in another process with an empty cache."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    settings = os.environ | dict.fromkeys(names, "1") | {"BENCH_CACHE": str(cache)} | environment
    command = [sys.executable, "-W", "ignore", "-m", "tests.datasets.problem_digests", str(root), order]
    process = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)
    if process.returncode == -signal.SIGILL:
        pytest.skip("a library calls BLAS, and this processor lacks the instructions of that kernel")
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    problem_digests.write(folder)
    return folder


@pytest.fixture(scope="module")
def here(root, tmp_path_factory):
    """Digests on this processor as it is."""
    return digests(root, tmp_path_factory.mktemp("kept"), "forward", {})


def test_digests_are_pinned(here):
    """Committed weights and reference runs were made with these problems: a change of any is a change of the data set."""
    digests = {
        name: " ".join(digest[:16] for digest in here[3 * k : 3 * k + 3])
        for k, name in enumerate(problem_digests.CONDITIONS)
    }
    assert digests == PINNED
    assert here[-1][:16] == PINNED_ROOM
    sets, first = defaultdict(hashlib.sha256), 3 * len(problem_digests.CONDITIONS)
    for key, digest in zip(problem_digests.keys()[first:], here[first:-1], strict=True):
        sets[key.dataset].update(digest.encode())
    assert {name: digest.hexdigest()[:16] for name, digest in sets.items()} == PINNED_SETS


def test_every_problem_is_another(here):
    assert len(set(here)) == len(here) == len(problem_digests.keys()) + 1


@pytest.mark.parametrize("name", PROCESSORS)
def test_every_processor_draws_the_same(name, root, tmp_path, here):
    assert digests(root, tmp_path, "forward", PROCESSORS[name]) == here


def test_order_and_threads_change_nothing(root, tmp_path, here):
    threads = {f"{name}_NUM_THREADS": "4" for name in ("OMP", "OPENBLAS", "MKL")}
    assert digests(root, tmp_path, "backward", threads) == here


# What may be called on the path from key to problem

NOT_ON_THE_PATH = {"description.py", "download.py", "registry.py", "symmetry.py", "symmetry_estimate.py"}
PATH = [
    *(ROOT / "common" / name for name in ("keys.py", "portable.py")),
    *sorted((ROOT / "datasets" / "shapes").glob("*.py")),
    *sorted((ROOT / "datasets" / "indoor").glob("*.py")),
    *(file for file in sorted((ROOT / "datasets").glob("*.py")) if file.name not in NOT_ON_THE_PATH),
]
NUMPY = set(
    "abs any arange argmax argmin argsort array array_equal asarray ascontiguousarray atleast_2d broadcast_arrays "
    "bincount broadcast_shapes broadcast_to ceil clip column_stack concatenate count_nonzero cross cumsum diff empty errstate "
    "eye inf insert meshgrid nan ones_like zeros_like "
    "flatnonzero floor frexp frombuffer full gradient isfinite isin isnan issubdtype ldexp linspace load loadtxt maximum minimum "
    "nonzero ones pi prod ptp repeat rint roll round save searchsorted shape sign sort sqrt square stack swapaxes tile "
    "unique vstack where zeros "
    "bool_ dtype float32 float64 floating generic int64 int32 integer intp ndarray number str_ random uint8".split()
)
"""NumPy's elementwise arithmetic, exact operations and types; its sums in a fixed order."""
REFUSED = set(
    "sum mean dot var std prod trace exponential gamma beta lognormal standard_t chisquare multivariate_normal shuffle".split()
)
MATH = {"sqrt", "factorial", "frexp", "pi"}


def faults(tree):
    """What is not allowed in a module, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "@"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not is_whole_power(node):
            yield node.lineno, "**"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum":
            yield node.lineno, "sum"  # Python 3.12 adds floats in another way than 3.11
        if isinstance(node, ast.Attribute):
            module = node.value.id if isinstance(node.value, ast.Name) else ""
            allowed = {"np": NUMPY, "math": MATH}.get(module)
            if node.attr not in allowed if allowed else node.attr in REFUSED and module != "portable":
                yield node.lineno, f"{module}.{node.attr}"


def is_whole_power(node):
    return isinstance(node.right, ast.Constant | ast.Name) and isinstance(node.left, ast.Constant | ast.UnaryOp)


@pytest.mark.parametrize("file", PATH, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_only_portable_operations_are_on_the_path(file):
    assert list(faults(ast.parse(file.read_text()))) == []


@pytest.mark.parametrize(
    "code",
    ["a @ b", "a @= b", "np.sin(x)", "np.linalg.svd(x)", "x.mean(axis=0)", "x**2", "sum(x)", "math.sin(x)", "np.dot"],
)
def test_other_operations_are_found(code):
    assert list(faults(ast.parse(code)))
