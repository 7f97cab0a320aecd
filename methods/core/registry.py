"""Methods by name: each is a file of `methods/` (or of a `--plugins` folder); `a+b` initialises b with a's pose.

Only a method's own process imports the code of plug-ins; see `common.plugins`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from common import specs
from common.devices import CPU
from common.errors import InputError, unknown
from common.inspection import Task, run
from common.plugins import Source, discover
from methods.core.base import Method
from methods.core.chain import Chain
from methods.core.description import (
    CONTRACT,
    MethodFacts,
    describe_source,
    facts_of,
    missing_package,
    unavailable,
    variants_of,
)
from methods.core.provenance import file_hashes
from methods.core.tuned import TUNED, with_tuned

FOLDER = Path(__file__).resolve().parents[1]
GROUP = "registration_bench.methods"
"""The entry point group by which an installed package offers methods."""


@dataclass(frozen=True)
class MethodEntry:
    """A method that can be named.

    Attributes:
        source: where its class is defined.
        class_name: name of the class.
        variant: name among the variants of the class.
        facts: its properties.
    """

    source: Source
    class_name: str
    variant: str
    facts: MethodFacts

    @property
    def cls(self) -> type[Method]:
        """The class. Its module is imported into this process, so only a method's process may use it for a plug-in."""
        return _load(self.source, self.class_name)

    @property
    def file(self) -> Path:
        """Source file of the class."""
        return Path(self.facts.file)

    def missing(self) -> str | None:
        """Return which required package is missing and how to install it; None if all are there."""
        return self.facts.missing if self.source.external else missing_package(self.cls)

    def unavailable(self) -> str | None:
        """Return why this method cannot run here and how to fix it; None if it can."""
        return self.facts.unavailable if self.source.external else unavailable(self.cls)

    def with_parameters(self, given: Mapping[str, str]) -> MethodFacts:
        """Return the properties of the method with parameters that the user gives, as text by name.

        Raises:
            InputError: a parameter does not exist, has the wrong type, or is out of range.
        """
        if not given:
            return self.facts
        if not self.source.external:
            return facts_of(self.cls, variants_of(self.source, self.cls)[self.variant], specs.Spec(self.variant, given))
        return _inspected(self.source, self.class_name, self.variant, tuple(given.items()))


@dataclass(frozen=True)
class Part:
    """A part of a chain, or a method alone, resolved: what a method's process needs to build it."""

    source: Source
    class_name: str
    variant: str
    given: tuple[tuple[str, str], ...]

    def build(self) -> Method:
        """Import the class and return a new instance."""
        cls = _load(self.source, self.class_name)
        parameters = variants_of(self.source, cls)[self.variant]
        return specs.instantiate(cls, specs.Spec(self.variant, dict(self.given)), parameters, "method")


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

    @property
    def remarks(self) -> dict[str, str]:
        """Name to remark, of every file or entry point whose import changes its process."""
        return _discovered(self.plugins)[2]

    @property
    def files_without_method(self) -> dict[str, str]:
        """Name to reason, of every file of the user's folder that defines no method, such as one that others import."""
        return _discovered(self.plugins)[3]

    def spec(self, text: str) -> MethodSpec:
        """Resolve a method written as `icp`, `icp[trim=.3]` or `fgr+icp`.

        Raises:
            InputError: an unknown or faulty name or parameter, or a part after `+` that takes no initial pose.
        """
        parts, facts = zip(*_resolve(text, self), strict=True)
        return MethodSpec(text, self, parts, facts)


@dataclass(frozen=True)
class MethodSpec:
    """A method as the user wrote it, resolved by a registry. Cheap to copy and to send to a process.

    Attributes:
        text: as the user wrote it.
        registry: that resolves it.
        parts, facts: what the registry found, see `MethodRegistry.spec`.
    """

    text: str
    registry: MethodRegistry = MethodRegistry()
    parts: tuple[Part, ...] = field(default=(), compare=False, repr=False)
    facts: tuple[MethodFacts, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def build(self) -> Method:
        """Return a new instance, not set up; only a method's process may build a plug-in, whose module is imported.

        Raises:
            InputError: see `MethodRegistry.spec`.
        """
        parts = [part.build() for part in self.parts or self.registry.spec(self.text).parts]
        return parts[0] if len(parts) == 1 else Chain(parts=tuple(parts))

    @property
    def is_external(self) -> bool:
        """Whether any part is a plug-in."""
        return any(part.source.external for part in self.parts)

    @property
    def kind(self) -> str:
        """Kind of the method ("local", "global", "learned", "control"), of a chain that of its first part."""
        return self.facts[0].kind

    @property
    def random(self) -> bool:
        """Whether the pose depends on the seed."""
        return any(facts.random for facts in self.facts)

    @property
    def solves_batches(self) -> bool:
        """Whether several pairs can be registered in one call."""
        return len(self.facts) == 1 and self.facts[0].solves_batches

    @property
    def has_gaussians(self) -> bool:
        """Whether the method matches Gaussian mixtures, which it can return."""
        return len(self.facts) == 1 and self.facts[0].has_gaussians

    def device_on(self, device: str) -> str:
        """Return the device that the method computes on if a user gives one: that device if any part uses it, else the CPU."""
        kind = device.partition(":")[0]
        return device if any(kind in facts.devices for facts in self.facts) else CPU

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all parts."""
        return {name: value for facts in self.facts for name, value in facts.environment.items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters; of a chain those of each part, under its number and class."""
        if len(self.facts) == 1:
            return dict(self.facts[0].parameters)
        return {f"{i} {facts.class_name}": dict(facts.parameters) for i, facts in enumerate(self.facts, 1)}

    @property
    def uses_tuned(self) -> bool:
        """Whether any part selects tuned settings."""
        return any(TUNED in spec.given for spec, _ in self._entries())

    @property
    def first_name(self) -> str:
        """Name of the first part, without parameters."""
        return next(self._entries())[0].name

    @property
    def summary(self) -> str:
        """First lines of the docstrings of all parts."""
        return " + ".join(facts.summary for facts in self.facts)

    @property
    def lineage(self) -> str:
        """Name of the class that the variants and subclasses of the first part share."""
        return self.facts[0].lineage

    def unavailable(self) -> str | None:
        """Return why any part cannot run here; None if all can."""
        return next((reason for _, entry in self._entries() if (reason := entry.unavailable())), None)

    def _entries(self) -> Iterator[tuple[specs.Spec, MethodEntry]]:
        return _entries(self.text, self.registry)

    def source_hashes(self) -> dict[str, str]:
        """Return the source files of all parts, by relative name, each with the start of their SHA-256.

        These are the files of the classes and what they import from this package, from the `--plugins` folder or from the
        installed package they belong to.
        """
        hashes = [file_hashes(Path(facts.file), self._packages(facts)) for facts in self.facts]
        if len(self.facts) > 1:
            hashes.append(file_hashes(Path(inspect.getfile(Chain)), {FOLDER: FOLDER.parent}))
        return dict(sorted({name: sha256 for files in hashes for name, sha256 in files.items()}.items()))

    def _packages(self, facts: MethodFacts) -> dict[Path, Path]:
        """Return the folders whose files count as sources of a method, each with the root that its modules are named from."""
        file, depth, plugins = Path(facts.file), facts.module.count("."), self.registry.plugins
        packages = {FOLDER: FOLDER.parent}
        if plugins and file.parent.resolve() == plugins.resolve():
            return packages | {file.parent: file.parent}
        depth += file.name == "__init__.py"
        return packages | ({file.parents[depth - 1]: file.parents[depth]} if depth else {})


def _entries(text: str, registry: MethodRegistry) -> Iterator[tuple[specs.Spec, MethodEntry]]:
    """Yield the parts of a chain, or the method alone, each with its entry."""
    faults, entries = registry.faults, registry.entries
    for part in specs.split_outside(text, "+"):
        spec = specs.parse(part)
        if spec.name in faults:  # even if another method has the name: which one is meant is unknown
            raise InputError(faults[spec.name])
        if spec.name not in entries and (reason := registry.files_without_method.get(spec.name)):
            raise InputError(reason)
        if spec.name not in entries:
            raise unknown("method", spec.name, entries)
        yield spec, entries[spec.name]


def _resolve(text: str, registry: MethodRegistry) -> list[tuple[Part, MethodFacts]]:
    """Return the parts of a method with their properties; see `MethodRegistry.spec`."""
    if re.search(r"^\s*\+|\+\s*(\+|$)", text):
        raise InputError(f"'{text}': a method is missing beside a +; write two methods, a+b")
    resolved: list[tuple[Part, MethodFacts]] = []
    for spec, entry in _entries(text, registry):
        if resolved and not entry.facts.local:
            raise InputError(f"'{text}': {spec.name} takes no initial pose, so it cannot follow '+'")
        given = with_tuned(spec, registry.plugins).given
        part = Part(entry.source, entry.class_name, entry.variant, tuple(given.items()))
        resolved.append((part, entry.with_parameters(given)))
    if not resolved:
        raise InputError("--methods: an empty name; give a method such as icp, or all")
    return resolved


def _load(source: Source, class_name: str) -> type[Method]:
    """Import the module of a source and return a class that it defines."""
    return next(cls for cls in source.classes(Method) if cls.__name__ == class_name)


@lru_cache(maxsize=256)
def _inspected(source: Source, class_name: str, variant: str, given: tuple[tuple[str, str], ...]) -> MethodFacts:
    """Describe a plug-in with parameters in a separate process."""
    arguments = {"class_name": class_name, "name": variant, "given": dict(given)}
    describer = f"{describe_source.__module__}:{describe_source.__name__}"
    answer = run([Task({GROUP: describer}, source, arguments)])[0]
    if "fault" in answer:
        raise InputError(answer["fault"])
    return _entry(source, answer["result"][GROUP][0]).facts


def _entry(source: Source, described: Mapping[str, Any]) -> MethodEntry:
    """Return the entry of a plug-in from the result of `describe_source`."""
    facts = MethodFacts.from_json({name: value for name, value in described.items() if name != "name"})
    return MethodEntry(source, facts.class_name, described["name"], facts)


@lru_cache(maxsize=8)
def _discovered(
    plugins: Path | None,
) -> tuple[dict[str, MethodEntry], dict[str, str], dict[str, str], dict[str, str]]:
    discovery = discover("methods", GROUP, plugins)
    offers: list[tuple[str, Source, MethodEntry]] = []
    for source in discovery.sources:
        if source.external:
            entries = [_entry(source, described) for described in discovery.described[source]]
            offers += [(entry.variant, source, entry) for entry in entries]
        elif source.module != CONTRACT:
            offers += _built_in(source)
    return *discovery.index(offers, "method"), discovery.remarks, discovery.files_without("Method (methods.base)")


def _built_in(source: Source) -> Iterator[tuple[str, Source, MethodEntry]]:
    for cls in source.classes(Method):
        for name, parameters in variants_of(source, cls).items():
            facts = facts_of(cls, parameters, specs.Spec(name, {}))
            yield name, source, MethodEntry(source, cls.__name__, name, facts)
