"""Which files a Python file is made of: what it imports, by its text. Nothing is run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


def made_of(file: Path, packages: Mapping[Path, Path]) -> set[Path]:
    """The file, and the files of some packages that it imports, directly or by one of them, anywhere in their text.

    Sources in other languages count, too, where a file names one that lies in the folder `native` beside it. A file that
    does not parse imports nothing: Python could not run it either.

    Args:
        file: a Python file.
        packages: folders whose files count, each with the folder from which their modules are named.
    """
    found: set[Path] = set()
    left = [file]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        if one.suffix == ".py":
            names, words = _read(one.read_bytes())
            modules = (f for level, name in names for f in _modules(one, level, name, packages.values()))
            left += [f for f in modules if any(folder in f.parents for folder in packages)]
            left += [f for f in one.parent.glob("native/*") if f.name in words and f.is_file()]
    return found


Names = frozenset[tuple[int, str]]


@functools.cache
def _read(text: bytes) -> tuple[Names, frozenset[str]]:
    """Modules that a text may import, as levels up and names below, and its strings."""
    names: set[tuple[int, str]] = set()
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset(), frozenset()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.level, ".".join(filter(None, (node.module, alias.name)))) for alias in node.names}
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(names), frozenset(words)


def _modules(importer: Path, level: int, name: str, roots: Iterable[Path]) -> Iterator[Path]:
    """Files that an import runs: of the module and of the packages above it, those that there are."""
    parts = name.split(".")
    for root in roots if level == 0 else [importer.parents[level - 1]]:
        found = [] if level == 0 else [root / "__init__.py"]
        for count in range(1, len(parts) + 1):
            path = root.joinpath(*parts[:count])
            found += [path / "__init__.py", path.with_suffix(".py")]
        yield from (file for file in found if file.is_file())
