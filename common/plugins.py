"""Find plug-ins: the modules of a package, the files of a user's folder, and the entry points of installed packages.

One that does not import, or takes a name that is taken, stops nothing: it is a fault, told in one line wherever plug-ins are
listed or asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from common.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class PluginSource:
    """A module that may hold plug-ins.

    Attributes:
        name: of the plug-in: the file's stem, or the entry point's name.
        where: the file or entry point, for messages.
        only: the one class an entry point names; None for all of the module.
    """

    name: str
    module: ModuleType
    where: str
    only: type | None = None

    def classes(self, base: type[T]) -> list[type[T]]:
        """The concrete subclasses of `base` that it offers."""
        if self.only is not None:
            return [self.only] if issubclass(self.only, base) else []
        return classes_of(self.module, base)


@dataclass(frozen=True)
class Discovery:
    """Sources in order, and for each name that does not import the reason and what mends it."""

    sources: list[PluginSource] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def named(self, offers: Iterable[tuple[str, PluginSource, T]], what: str) -> tuple[dict[str, T], dict[str, str]]:
        """The first thing that each name offers, and the faults: those of imports, and names that are offered again.

        Args:
            offers: names with their source and what they stand for, in order.
            what: such things are, in a word.
        """
        first: dict[str, tuple[str, T]] = {}
        faults = dict(self.faults)
        for name, source, thing in offers:
            if name in first:
                told = f"a {what} named '{name}' exists already ({first[name][0]}); rename this one"
                faults[name] = f"{source.where}: {told}"
            else:
                first[name] = source.where, thing
        return {name: thing for name, (_, thing) in first.items()}, faults


def discover(package: str, group: str, folder: Path | None = None) -> Discovery:
    """All there is: a package's public modules, the entry points of a group, the public `*.py` of a user's folder.

    Names that begin with an underscore, and tests (`test_*.py`), are left out.

    Raises:
        InputError: there is no such folder.
    """
    found = Discovery()
    parts = list(importlib.import_module(package).__path__)
    for info in sorted(pkgutil.iter_modules(parts), key=lambda i: i.name):
        if not info.name.startswith("_"):
            module = f"{package}.{info.name}"
            with _Guard(found, info.name, _where(module)):
                found.sources.append(PluginSource(info.name, importlib.import_module(module), _where(module)))
    for point in metadata.entry_points(group=group):
        where = f"entry point {point.name} = {point.value}"
        with _Guard(found, point.name, where):
            loaded = point.load()
            module_of = importlib.import_module(point.module)
            found.sources.append(
                PluginSource(point.name, module_of, where, loaded if inspect.isclass(loaded) else None)
            )
    for file in _files(folder) if folder else ():
        with _Guard(found, file.stem, str(file)):
            found.sources.append(PluginSource(file.stem, _load(file), str(file)))
    return found


class _Guard:
    """Turns whatever an import throws into a fault."""

    def __init__(self, found: Discovery, name: str, where: str) -> None:
        self.found, self.name, self.where = found, name, where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or not isinstance(error, Exception | SystemExit):
            return False
        self.found.faults[self.name] = f"{self.where}: {_reason(error)}"
        return True


def _reason(error: BaseException) -> str:
    """Why a module does not import, and what to do, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        return f"needs the package {package}, which is missing: pip install {package}"
    said = " ".join(str(error).split())[:200]
    line = traceback.extract_tb(error.__traceback__)[-1].lineno if not isinstance(error, SyntaxError) else error.lineno
    return f"does not import ({type(error).__name__} in line {line}: {said}); mend or remove it"


def _where(module: str) -> str:
    spec = importlib.util.find_spec(module)
    return str(spec.origin) if spec else module


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"--plugins {folder}: no such folder; give a folder of .py files")
    return [file for file in sorted(folder.glob("[!_]*.py")) if not file.name.startswith("test_")]


def _load(file: Path) -> ModuleType:
    name = f"plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def package_modules(package: str) -> Iterator[ModuleType]:
    """Import every module of a package whose name has no leading underscore."""
    paths = importlib.import_module(package).__path__
    for info in sorted(pkgutil.iter_modules(paths), key=lambda i: i.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{info.name}")


def classes_of(module: ModuleType, base: type[T]) -> list[type[T]]:
    """The concrete subclasses of `base` that a module itself defines, in the order of their names."""
    found = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, base) and c is not base]
    return [c for c in found if c.__module__ == module.__name__ and not inspect.isabstract(c)]
