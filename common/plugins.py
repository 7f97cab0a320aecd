"""Find plug-ins: the modules of a package, the files of a user's folder, and the entry points of installed packages.

A plug-in that cannot be imported, or whose name is already taken, does not affect the others: it is recorded as a fault, one
line that is shown where plug-ins are listed and when that plug-in is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from common.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class PluginSource:
    """Module that may define plug-ins.

    Attributes:
        name: the file's stem, or the entry point's name.
        module: the imported module.
        origin: the file or entry point, for messages.
        only: the class that an entry point names; None for all classes of the module.
    """

    name: str
    module: ModuleType
    origin: str
    only: type | None = None

    def classes(self, base: type[T]) -> list[type[T]]:
        """Return the concrete subclasses of `base` that it defines."""
        if self.only is not None:
            return [self.only] if issubclass(self.only, base) else []
        return classes_of(self.module, base)


@dataclass(frozen=True)
class Discovery:
    """Sources in order, and reason and fix for the name of each source that cannot be imported."""

    sources: list[PluginSource] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def index(self, plugins: Iterable[tuple[str, PluginSource, T]], kind: str) -> tuple[dict[str, T], dict[str, str]]:
        """Map names to plug-ins; of several with one name, the first is used.

        Args:
            plugins: name, source and plug-in, in order.
            kind: what the plug-ins are, such as "method", for messages.

        Returns:
            Plug-ins by name, and faults by name: failed imports and names that are already taken.
        """
        indexed: dict[str, T] = {}
        origins: dict[str, str] = {}
        faults = dict(self.faults)
        for name, source, plugin in plugins:
            if name in indexed:
                faults[name] = (
                    f"{source.origin}: a {kind} named '{name}' exists already ({origins[name]}); rename this one"
                )
            else:
                indexed[name], origins[name] = plugin, source.origin
        return indexed, faults


def discover(package: str, group: str, folder: Path | None = None) -> Discovery:
    """Import the public modules of a package, the entry points of a group and the public `*.py` files of a user's folder.

    Names that begin with an underscore, and tests (`test_*.py`), are left out.

    Args:
        package: name of the package with the built-in plug-ins.
        group: name of the entry point group.
        folder: folder of the user's plug-ins, if any.

    Raises:
        InputError: the folder does not exist.
    """
    discovery = Discovery()
    for name in _public_modules(package):
        module = f"{package}.{name}"
        origin = _module_file(module)
        with _recorded_fault(discovery, name, origin):
            discovery.sources.append(PluginSource(name, importlib.import_module(module), origin))
    for point in metadata.entry_points(group=group):
        origin = f"entry point {point.name} = {point.value}"
        with _recorded_fault(discovery, point.name, origin):
            loaded = point.load()
            only = loaded if inspect.isclass(loaded) else None
            discovery.sources.append(PluginSource(point.name, importlib.import_module(point.module), origin, only))
    for file in _plugin_files(folder) if folder else ():
        with _recorded_fault(discovery, file.stem, str(file)):
            discovery.sources.append(PluginSource(file.stem, _import_file(file), str(file)))
    return discovery


@contextmanager
def _recorded_fault(discovery: Discovery, name: str, origin: str) -> Iterator[None]:
    """Record any error of the block as the fault of a name."""
    try:
        yield
    except (Exception, SystemExit) as error:
        discovery.faults[name] = f"{origin}: {_reason(error)}"


def _reason(error: BaseException) -> str:
    """Return in one line why a module cannot be imported, and the fix."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        return f"needs the package {package}, which is missing: pip install {package}"
    message = " ".join(str(error).split())[:200]
    line = traceback.extract_tb(error.__traceback__)[-1].lineno if not isinstance(error, SyntaxError) else error.lineno
    return f"does not import ({type(error).__name__} in line {line}: {message}); fix or remove it"


def _module_file(module: str) -> str:
    """Return the path of a module's file without importing it."""
    spec = importlib.util.find_spec(module)
    return str(spec.origin) if spec else module


def _plugin_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"--plugins {folder}: no such folder; give a folder of .py files")
    return [file for file in sorted(folder.glob("[!_]*.py")) if not file.name.startswith("test_")]


def _import_file(file: Path) -> ModuleType:
    name = f"plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def package_modules(package: str) -> Iterator[ModuleType]:
    """Import every module of a package whose name has no leading underscore."""
    for name in _public_modules(package):
        yield importlib.import_module(f"{package}.{name}")


def _public_modules(package: str) -> list[str]:
    """Return the sorted names of a package's modules without a leading underscore."""
    paths = importlib.import_module(package).__path__
    return sorted(info.name for info in pkgutil.iter_modules(paths) if not info.name.startswith("_"))


def classes_of(module: ModuleType, base: type[T]) -> list[type[T]]:
    """Return the concrete subclasses of `base` that a module itself defines, in the order of their names."""
    subclasses = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, base) and c is not base]
    return [c for c in subclasses if c.__module__ == module.__name__ and not inspect.isabstract(c)]
