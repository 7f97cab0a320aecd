"""The packages import each other downwards only, along the arrows listed here; see docs/architecture.md."""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from docs.scripts.make_architecture import FIGURE, PAGE, draw, levels, read_imports
from methods.base import Method
from methods.core.registry import MethodRegistry

ROOT = Path(__file__).resolve().parents[1]
ARROWS = {
    "cli": ("conformance", "evaluation", "execution", "pair", "planning", "report", "storage", "tuning"),
    "tuning": ("evaluation", "execution", "isolation", "planning", "storage"),
    "pair": ("evaluation", "execution", "isolation", "report", "storage"),
    "report": ("evaluation", "isolation", "planning", "storage"),
    "execution": ("isolation", "planning", "storage"),
    "conformance": ("evaluation", "isolation", "storage"),
    "planning": ("isolation",),
    "evaluation": ("storage",),
    "isolation": ("storage",),
    "storage": (),
    "templates": (),
}
"""The packages of bench/, each with those it may import."""
MAX_ARROWS = 31
MAX_LEVELS = 7
FORBIDDEN = [
    ("methods", "bench"),
    ("datasets", "bench"),
    ("datasets", "methods"),
    ("common", "bench"),
    ("common", "datasets"),
    ("common", "methods"),
]


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


@cache
def nodes(file):
    """The nodes of a file's syntax tree, which stays the same while tests run."""
    return [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]


@cache
def imports(file, root=ROOT):
    """The (line, dotted name) of the modules and names that a file imports, relative imports resolved."""
    package, names = file.relative_to(root).parent.parts, []
    for node in nodes(file):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return names


def room(parts):
    """Return the package of bench/ that a module belongs to; a module directly in bench/ is a package by itself."""
    return parts[1].removesuffix(".py") if len(parts) > 1 else ""


def arrows(root=ROOT):
    """Return the imports between the packages of bench/: (importing, imported) -> file:line of each import."""
    places = {}
    for file in sorted((root / "bench").rglob("*.py")):
        own = room(file.relative_to(root).parts)
        for line, name in imports(file, root):
            parts = name.split(".")
            if parts[0] == "bench" and (other := room(parts)) not in ("", own):
                places.setdefault((own, other), []).append(f"{file.relative_to(root)}:{line}")
    return places


def test_packages_of_bench_import_along_the_listed_arrows_only():
    allowed = {(name, below) for name, targets in ARROWS.items() for below in targets}
    assert {arrow: places for arrow, places in arrows().items() if arrow not in allowed} == {}


def test_every_listed_arrow_is_used():
    used = arrows()
    assert [(name, below) for name, targets in ARROWS.items() for below in targets if (name, below) not in used] == []


def test_the_packages_are_those_listed():
    folders = {path.parent.name for path in (ROOT / "bench").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "bench").glob("*.py")} - {"__init__"}
    assert folders | modules == set(ARROWS)


def test_the_listed_arrows_are_few_and_without_a_cycle():
    assert sum(map(len, ARROWS.values())) <= MAX_ARROWS
    assert len(levels(ARROWS)) <= MAX_LEVELS


def test_a_cycle_is_found():
    assert levels({"a": ("b",), "b": (), "c": ("a",)}) == [["b"], ["a"], ["c"]]
    with pytest.raises(ValueError, match="a cycle among a, b"):
        levels({"a": ("b",), "b": ("a",), "c": ()})


def test_imports_inside_functions_and_relative_ones_count(tmp_path):
    (tmp_path / "bench" / "low").mkdir(parents=True)
    text = "from bench import high\n\n\ndef f():\n    import bench.other.part\n    from ..third import x\n    from . import own\n"
    (tmp_path / "bench" / "low" / "a.py").write_text(text)
    (tmp_path / "bench" / "single.py").write_text("from bench.low.a import f\n")
    assert arrows(tmp_path) == {
        ("low", "high"): ["bench/low/a.py:1"],
        ("low", "other"): ["bench/low/a.py:5"],
        ("low", "third"): ["bench/low/a.py:6"],
        ("single", "low"): ["bench/single.py:1"],
    }


@pytest.mark.parametrize(("package", "forbidden"), FORBIDDEN)
def test_lower_packages_do_not_import_higher_ones(package, forbidden):
    places = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sources(package)
        for line, name in imports(file)
        if name.split(".")[0] == forbidden
    ]
    assert places == []


ALSO_A_WORD = {"identity"}
"""Names of methods that messages use in another sense (the pose that moves nothing): refused as a whole string only."""
METHOD_FILES = sorted(p for p in (ROOT / "methods").glob("*.py") if p.stem not in ("__init__", "base"))


@pytest.mark.parametrize("file", METHOD_FILES, ids=lambda file: file.stem)
def test_a_file_directly_in_methods_defines_a_method(file):
    module = importlib.import_module(f"methods.{file.stem}")
    classes = [
        value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    assert any(issubclass(value, Method) and not inspect.isabstract(value) for value in classes)


def test_bench_names_no_method():
    """Neither an import of a method's module nor a name of a method in the code, docstrings aside."""
    names = {re.escape(name) for name in MethodRegistry().entries}
    patterns = [rf"\b{n}\b" if n not in ALSO_A_WORD else rf"^{n}$" for n in names]
    named = re.compile("|".join(patterns))
    modules = {f"methods.{file.stem}" for file in METHOD_FILES}
    places = []
    for file in sources("bench"):
        texts = [node for node in nodes(file) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        prose = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
        places += [(file.name, n.lineno, n.value) for n in texts if id(n) not in prose and named.search(n.value)]
        places += [(file.name, n, m) for n, name in imports(file) for m in modules if f"{name}.".startswith(f"{m}.")]
    assert places == []


def test_the_page_lists_the_same_arrows():
    assert {name: set(below) for name, below in read_imports(PAGE.read_text()).items()} == {
        name: set(below) for name, below in ARROWS.items()
    }


def test_the_picture_is_drawn_from_the_page():
    assert FIGURE.read_text(encoding="utf-8") == draw(read_imports(PAGE.read_text(encoding="utf-8")))


def test_the_page_names_files_and_definitions_that_exist():
    page = PAGE.read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:bench|common|datasets|docs|methods|performance|tests)/[^`\s]*)`", page))
    assert paths and [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    named = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", page)
    assert (
        named
        and [
            f"{path}: {name}"
            for name, path in named
            if not re.search(rf"^ *(?:class|def) {name}\b|^{name}\b", (ROOT / path).read_text(), re.MULTILINE)
        ]
        == []
    )


PROTOCOL_NAMES = {
    *(
        "register",
        "setup",
        "prepare",
        "forward",
        "hypotheses",
        "gaussians",
        "kind",
        "check_available",
    ),  # methods
    *("estimate", "load", "loss", "least_points", "network_type", "poses"),  # learned methods and their networks
    *("check", "groups", "labels", "pair", "remarks", "shape"),  # data sets
    *("distances", "library"),  # compiled kernels and what calls them
    *("draw", "main", "run"),  # scripts and commands
}
"""Names of functions that many files define, because their callers treat these files alike."""
EMPTY_NAMES = {"found", "told", "said", "asked", "made"}
"""Names that say nothing of what a variable holds."""


def definitions(tree):
    return {node.name for node in tree if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")}


def bindings(tree):
    names = {node.id for node in tree if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in tree if isinstance(node, ast.arg)} | definitions(tree)


def source_trees():
    """The nodes of the syntax tree of every file of the packages."""
    packages = ("bench", "common", "datasets", "methods", "performance", "docs")
    return {file.relative_to(ROOT): nodes(file) for package in packages for file in sources(package)}


def test_a_function_name_that_is_no_protocol_occurs_in_three_files_at_most():
    files = {}
    for file, tree in source_trees().items():
        for name in definitions(tree):
            files.setdefault(name, []).append(str(file))
    assert {name: paths for name, paths in files.items() if len(paths) > 3 and name not in PROTOCOL_NAMES} == {}
    assert {name for name in PROTOCOL_NAMES if len(files[name]) <= 3} == set()


def test_no_variable_or_function_has_a_name_that_says_nothing():
    assert {str(file): names for file, tree in source_trees().items() if (names := bindings(tree) & EMPTY_NAMES)} == {}
    example = ast.parse("for found in a:\n    made, (told,) = found\ndef said(asked): pass")
    assert bindings([*ast.walk(example)]) == EMPTY_NAMES
