"""Methods by name: each is a file of `methods/` (or of a `--plugins` folder); `a+b` initialises b with a's pose."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from common import specs
from common.errors import InputError, unknown
from common.plugins import discover
from methods.core.base import Method, Unavailable
from methods.core.chain import Chain
from methods.core.provenance import file_hashes
from methods.core.tuned import TUNED, with_tuned

FOLDER = Path(__file__).resolve().parents[1]
GROUP = "registration_bench.methods"
"""The entry point group by which an installed package offers methods."""
_CONTRACT = "methods.base"


@dataclass(frozen=True)
class MethodEntry:
    """A method that can be named: its class, the parameters that the name implies, and the file of the class."""

    cls: type[Method]
    parameters: Mapping[str, Any]
    file: Path

    @property
    def summary(self) -> str:
        """First line of the class's docstring, or a note that it has none."""
        if not self.documented:
            return f"has no docstring: write one sentence below 'class {self.cls.__name__}'"
        return (self.cls.__doc__ or "").strip().split("\n")[0]

    @property
    def documented(self) -> bool:
        """Whether the class has its own docstring, not the signature that dataclasses put there."""
        return not (self.cls.__doc__ or "").startswith(f"{self.cls.__name__}(")

    def missing(self) -> str | None:
        """Return which required package is missing and how to install it; None if all are there."""
        missing = [p for p in self.cls.requires if importlib.util.find_spec(p) is None]
        return f"package {missing[0]} is missing: pip install {missing[0]}" if missing else None

    def unavailable(self) -> str | None:
        """Return why this method cannot run here and how to fix it; None if it can."""
        if reason := self.missing():
            return reason
        try:
            self.cls.check_available()
        except Unavailable as reason:
            return str(reason)
        return None


@dataclass(frozen=True)
class MethodRegistry:
    """The methods that can be named: built-in ones, those of installed packages, and those of a user's folder.

    >>> MethodRegistry().spec("icp[trim=0.3]").kind
    'local'
    """

    plugins: Path | None = None

    @property
    def entries(self) -> dict[str, MethodEntry]:
        """Name to entry of every method."""
        return _discovered(self.plugins)[0]

    @property
    def faults(self) -> dict[str, str]:
        """Name to reason, of every file or entry point that cannot be imported, and of every name that is given twice."""
        return _discovered(self.plugins)[1]

    def spec(self, text: str) -> MethodSpec:
        """Resolve a method written as `icp`, `icp[trim=.3]` or `fgr+icp`.

        Raises:
            InputError: an unknown or faulty name or parameter, or a part after `+` that takes no initial pose.
        """
        spec = MethodSpec(text, self)
        spec.build()
        return spec


@dataclass(frozen=True)
class MethodSpec:
    """A method as the user wrote it, with the registry that resolves its name. Cheap to copy and to send to a process."""

    text: str
    registry: MethodRegistry = MethodRegistry()

    def __str__(self) -> str:
        return self.text

    def build(self) -> Method:
        """Return a new instance, not set up.

        Raises:
            InputError: see `MethodRegistry.spec`.
        """
        if re.search(r"^\s*\+|\+\s*(\+|$)", self.text):
            raise InputError(f"'{self.text}': a method is missing beside a +; write two methods, a+b")
        parts: list[Method] = []
        for spec, entry in self._parts():
            if parts and not entry.cls.local:
                raise InputError(f"'{self.text}': {spec.name} takes no initial pose, so it cannot follow '+'")
            tuned = with_tuned(spec, self.registry.plugins)
            parts.append(specs.build(entry.cls, tuned, entry.parameters, "method"))
        if not parts:
            raise InputError("--methods: an empty name; give a method such as icp, or all")
        return parts[0] if len(parts) == 1 else Chain(parts=tuple(parts))

    def _parts(self) -> list[tuple[specs.Spec, MethodEntry]]:
        """Return the parts of a chain, or the method alone, each with its entry."""
        faults, entries, parts = self.registry.faults, self.registry.entries, []
        for part in specs.split_outside(self.text, "+"):
            spec = specs.parse(part)
            if spec.name in faults:  # even if another method has the name: which one is meant is unknown
                raise InputError(faults[spec.name])
            if spec.name not in entries:
                raise unknown("method", spec.name, entries)
            parts.append((spec, entries[spec.name]))
        return parts

    @property
    def kind(self) -> str:
        """Kind of the method ("local", "global", "learned", "control"), of a chain that of its first part."""
        return _template(self).kind

    @property
    def random(self) -> bool:
        """Whether the pose depends on the seed."""
        return _template(self).random

    @property
    def solves_batches(self) -> bool:
        """Whether several pairs can be registered in one call."""
        return _template(self).solves_batches

    @property
    def uses_tuned(self) -> bool:
        """Whether any part selects tuned settings."""
        return any(TUNED in spec.given for spec, _ in self._parts())

    @property
    def first_name(self) -> str:
        """Name of the first part, without parameters."""
        return self._parts()[0][0].name

    @property
    def summary(self) -> str:
        """First lines of the docstrings of all parts."""
        return " + ".join(entry.summary for _, entry in self._parts())

    def missing(self) -> str | None:
        """Return which package any part needs and is missing; None if all are there."""
        return next((reason for _, entry in self._parts() if (reason := entry.missing())), None)

    def unavailable(self) -> str | None:
        """Return why any part cannot run here; None if all can."""
        return next((reason for _, entry in self._parts() if (reason := entry.unavailable())), None)

    def source_hashes(self) -> dict[str, str]:
        """Return the source files of all parts, by relative name, each with the start of its SHA-256.

        These are the files of the classes and what they import from this package, from the `--plugins` folder or from the
        installed package they belong to.
        """
        parts = [entry for _, entry in self._parts()]
        hashes = [file_hashes(entry.file, self._packages(entry)) for entry in parts]
        if len(parts) > 1:
            hashes.append(file_hashes(Path(inspect.getfile(Chain)), {FOLDER: FOLDER.parent}))
        return dict(sorted({name: sha256 for files in hashes for name, sha256 in files.items()}.items()))

    def _packages(self, entry: MethodEntry) -> dict[Path, Path]:
        """Return the folders whose files count as sources of a method, each with the root that its modules are named from."""
        file, depth, plugins = entry.file, entry.cls.__module__.count("."), self.registry.plugins
        packages = {FOLDER: FOLDER.parent}
        if plugins and file.parent.resolve() == plugins.resolve():
            return packages | {file.parent: file.parent}
        depth += file.name == "__init__.py"
        return packages | ({file.parents[depth - 1]: file.parents[depth]} if depth else {})


@lru_cache(maxsize=256)
def _template(spec: MethodSpec) -> Method:
    """Return an instance to ask for its properties, never set up."""
    return spec.build()


@lru_cache(maxsize=8)
def _discovered(plugins: Path | None) -> tuple[dict[str, MethodEntry], dict[str, str]]:
    discovery = discover("methods", GROUP, plugins)
    offers = (
        (name, source, MethodEntry(cls, parameters, Path(inspect.getfile(cls if source.only else source.module))))
        for source in discovery.sources
        for cls in (() if source.module.__name__ == _CONTRACT else source.classes(Method))
        for name, parameters in (cls.variants or {source.name: {}}).items()
    )
    return discovery.index(offers, "method")
