"""Find plug-ins by their files: every public module of a package (or of a user's folder) is imported and searched."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from common.errors import InputError

T = TypeVar("T")


def package_modules(package: str) -> Iterator[ModuleType]:
    """Import every module of a package whose name has no leading underscore."""
    paths = importlib.import_module(package).__path__
    for info in sorted(pkgutil.iter_modules(paths), key=lambda i: i.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{info.name}")


def folder_modules(folder: Path) -> Iterator[ModuleType]:
    """Import every public `*.py` of a user's folder; a file that does not import is an `InputError`."""
    if not folder.is_dir():
        raise InputError(f"--plugins {folder}: no such folder; give a folder of .py files")
    for file in sorted(folder.glob("[!_]*.py")):
        name = f"plugin_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise InputError(f"{file}: does not import: {type(error).__name__}: {error}; mend or remove it") from error
        yield module


def classes_of(module: ModuleType, base: type[T]) -> list[type[T]]:
    """The concrete subclasses of `base` that a module itself defines, in the order of their names."""
    found = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, base) and c is not base]
    return [c for c in found if c.__module__ == module.__name__ and not inspect.isabstract(c)]
