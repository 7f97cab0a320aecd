"""Find plug-ins: the modules of a package, the files of a user's folder, and the entry points of installed packages.

Modules of the package are imported here. All others are inspected in a separate process (`common.inspection`): what is wrong
with one is one line, which is shown where plug-ins are listed and when that plug-in is used, and affects no other.
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
from functools import lru_cache
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from common.errors import InputError
from common.inspection import Task, run
from common.specs import name_fault

T = TypeVar("T")
RESERVED = ("all", "oracle")
"""Names that mean something else on the command line."""
_DESCRIBERS = {
    "registration_bench.methods": "methods.core.description:describe_source",
    "registration_bench.datasets": "datasets.description:describe_source",
}
"""Entry point group to the function that describes the plug-ins of a source; see `common.inspection.Task`."""


@dataclass(frozen=True)
class Source:
    """Module that may define plug-ins. Cheap to copy and to send to a process, which imports it.

    Attributes:
        name: the file's stem, or the entry point's name.
        origin: the file or entry point, for messages.
        module: dotted name of the module; empty for a file.
        file: the file of a user's folder; empty for a module.
        only: name of the class that an entry point names; empty for all classes of the module.
        external: whether it does not belong to the benchmark, so that only separate processes import it.
    """

    name: str
    origin: str
    module: str = ""
    file: str = ""
    only: str = ""
    external: bool = False

    def load(self) -> ModuleType:
        """Import the module."""
        return _import_file(Path(self.file)) if self.file else importlib.import_module(self.module)

    def classes(self, base: type[T]) -> list[type[T]]:
        """Import the module and return the concrete subclasses of `base` that it defines."""
        module = self.load()
        if self.only:
            chosen = getattr(module, self.only)
            return [chosen] if inspect.isclass(chosen) and issubclass(chosen, base) else []
        return classes_of(module, base)


@dataclass(frozen=True)
class Discovery:
    """Sources in order; what is wrong with sources, by name; what their import changes; descriptions of external plug-ins."""

    sources: list[Source] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    described: dict[Source, list[dict[str, Any]]] = field(default_factory=dict)

    def files_without(self, base: str) -> dict[str, str]:
        """Return by name what is wrong with the files of a user's folder that have no plug-in, if they are used as one.

        Args:
            base: the class that a plug-in is derived from, for messages.
        """
        why = f"defines no complete class derived from {base}; add one, or give another name"
        return {s.name: f"{s.origin}: {why}" for s in self.sources if s.file and not self.described.get(s)}

    def index(self, plugins: Iterable[tuple[str, Source, T]], kind: str) -> tuple[dict[str, T], dict[str, str]]:
        """Map names to plug-ins; of several with one name, the first is used.

        Args:
            plugins: name, source and plug-in, in order.
            kind: what the plug-ins are, such as "method", for messages.

        Returns:
            Plug-ins by name, and faults by name: failed imports, names that are already taken, and names that cannot be used.
        """
        indexed: dict[str, T] = {}
        origins: dict[str, str] = {}
        faults = dict(self.faults)
        for name, source, plugin in plugins:
            if fault := name_fault(name) or (f"the name '{name}' is reserved" if name in RESERVED else None):
                faults[name] = f"{source.origin}: {kind}: {fault}; rename it"
            elif name in indexed:
                faults[name] = (
                    f"{source.origin}: a {kind} named '{name}' exists already ({origins[name]}); rename this one"
                )
            else:
                indexed[name], origins[name] = plugin, source.origin
        return indexed, faults


def discover(package: str, group: str, folder: Path | None = None) -> Discovery:
    """Find the public modules of a package, the entry points of a group and the public `*.py` files of a user's folder.

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
        source = Source(name, _module_file(module), module)
        try:
            source.load()
            discovery.sources.append(source)
        except (Exception, SystemExit) as error:
            discovery.faults[name] = f"{source.origin}: {reason(error)}"
    external = tuple(_external_sources(group, folder))
    for source, answer in zip(external, _inspected(external, group), strict=True):
        if fault := answer.get("fault"):
            discovery.faults[source.name] = f"{source.origin}: {fault}"
            continue
        if effects := answer.get("effects"):
            text = f"importing it {', '.join(effects)}; other methods are not affected, since it has its own process"
            discovery.remarks[source.name] = f"{source.origin}: {text}"
        discovery.sources.append(source)
        discovery.described[source] = answer.get("result", {}).get(group, [])
    return discovery


def _external_sources(group: str, folder: Path | None) -> Iterator[Source]:
    for point in metadata.entry_points(group=group):
        origin = f"entry point {point.name} = {point.value}"
        yield Source(point.name, origin, module=point.module, only=point.attr or "", external=True)
    for file in _plugin_files(folder) if folder else ():
        yield Source(file.stem, str(file), file=str(file), external=True)


def _inspected(sources: tuple[Source, ...], group: str) -> list[dict[str, Any]]:
    """Return the answer of the inspection of each source: those of a folder are inspected for all groups at once."""
    files = tuple(source for source in sources if source.file)
    of_files = _answers(files, tuple(_DESCRIBERS.items()), _times(files))
    describers = tuple(item for item in _DESCRIBERS.items() if item[0] == group)
    points = tuple(source for source in sources if not source.file)
    return [*_answers(points, describers, ()), *of_files]


@lru_cache(maxsize=8)
def _answers(
    sources: tuple[Source, ...], describers: tuple[tuple[str, str], ...], _times: tuple[int, ...]
) -> list[dict[str, Any]]:
    return run([Task(dict(describers), source) for source in sources])


def _times(sources: tuple[Source, ...]) -> tuple[int, ...]:
    """Return when files were changed, so that a changed file is inspected again."""
    return tuple(Path(source.file).stat().st_mtime_ns for source in sources)


def reason(error: BaseException) -> str:
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


_PREFIX = "plugin_"
"""Prefix of a plug-in's module: a file may import another one of its folder, as `plugin_NAME`."""
_changed_at: dict[str, int] = {}


def _import_file(file: Path) -> ModuleType:
    """Import a file of a user's folder; once in a process, unless its text has changed."""
    name, changed = f"{_PREFIX}{file.stem}", file.stat().st_mtime_ns
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(file) and _changed_at.setdefault(name, changed) == changed:
        return loaded
    sys.modules.pop(name, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _FolderFinder)]
    sys.meta_path.append(_FolderFinder(file.parent))
    _changed_at[name] = changed
    return importlib.import_module(name)


class _FolderFinder(MetaPathFinder):
    """Finder of the plug-ins of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder.find_spec`."""
        file = self.folder / f"{name.removeprefix(_PREFIX)}.py"
        if not name.startswith(_PREFIX) or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(name, file)


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
