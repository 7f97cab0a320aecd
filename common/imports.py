"""Which files a Python file is made of: what it imports, by its text. Nothing is run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from pathlib import Path


def made_of(file: Path, roots: Sequence[Path]) -> set[Path]:
    """The file, and the files below some folders that it imports, directly or by one of them, anywhere in their text.

    Sources in other languages count, too, where a file names one that lies in the folder `native` beside it.

    Args:
        file: a Python file that parses.
        roots: folders in which modules are looked for, by their whole names.
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
            left += [f for name in names for root in roots for f in _module(root, name)]
            left += [f for word in words if (f := one.parent / "native" / word).is_file()]
    return found


@functools.cache
def _read(text: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """Whole names of modules that a text may import, and its short strings that may be names of files."""
    names, words = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isprintable():
            words |= {node.value} if "." in node.value and "/" not in node.value and len(node.value) < 100 else set()
    return frozenset(names), frozenset(words)


def _module(root: Path, name: str) -> list[Path]:
    """The file of a module by its whole name, if it lies below a folder."""
    path = root.joinpath(*name.split("."))
    return [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
