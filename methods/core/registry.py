"""Methods by name: one file each in `methods/`, in a `--plugins` folder or in an installed package."""

from __future__ import annotations

import dataclasses
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
from methods.core.tuned import with_tuned

GROUP = "registration_bench.methods"
"""Entry point group by which an installed package offers methods."""
_NOT_METHODS = {"methods.base"}
"""Modules of the package `methods` in which no method is looked for."""


@dataclass(frozen=True)
class MethodEntry:
    """A registered method.

    Attributes:
        cls: its class.
        parameters: the values of parameters that the name stands for.
        file: the source file of the class.
    """

    cls: type[Method]
    parameters: Mapping[str, Any]
    file: Path

    @property
    def summary(self) -> str:
        """The first line of the class's docstring, or a hint that it has none."""
        if not self.documented:
            return f"has no docstring: write one sentence below 'class {self.cls.__name__}'"
        return (self.cls.__doc__ or "").strip().split("\n")[0]

    @property
    def documented(self) -> bool:
        """Whether the class has a docstring, other than the signature that `dataclass` sets as one."""
        return not (self.cls.__doc__ or "").startswith(f"{self.cls.__name__}(")

    def missing(self) -> str | None:
        """Return which required package is missing and how to install it, or None."""
        missing = [p for p in self.cls.requires if importlib.util.find_spec(p) is None]
        return f"package {missing[0]} is missing: pip install {missing[0]}" if missing else None

    def unavailable(self) -> str | None:
        """Return why the method cannot run on this machine and how to fix that, or None if it can run."""
        if reason := self.missing():
            return reason
        try:
            self.cls.check_available()
        except Unavailable as reason:
            return str(reason)
        return None


@lru_cache(maxsize=8)
def _entries(plugins: Path | None) -> tuple[dict[str, MethodEntry], dict[str, str]]:
    """Return the entries by name, and the reasons of faults by name."""
    discovery = discover("methods", GROUP, plugins)
    entries = (
        (name, source, MethodEntry(cls, parameters, Path(inspect.getfile(cls if source.only else source.module))))
        for source in discovery.sources
        for cls in (() if source.module.__name__ in _NOT_METHODS else source.classes(Method))
        for name, parameters in (cls.variants or {source.name: {}}).items()
    )
    return discovery.named(entries, "method")


def faults(plugins: Path | None = None) -> dict[str, str]:
    """Return name to reason, for every file or entry point that fails to import and every name given twice."""
    return _entries(plugins)[1]


def available(plugins: Path | None = None) -> dict[str, MethodEntry]:
    """Return name to entry, for every method in `methods/`, in installed packages and in the `plugins` folder."""
    return _entries(plugins)[0]


def build(text: str, plugins: Path | None = None) -> Method:
    """Build the method written as `icp`, `icp[trim=.3]` or `fgr+icp`.

    Raises:
        InputError: a name or parameter is unknown or faulty, or a part after `+` takes no initial pose.
    """
    entries = available(plugins)
    if re.search(r"^\s*\+|\+\s*(\+|$)", text):
        raise InputError(f"'{text}': a method is missing beside a +; write two methods, a+b")
    parts: list[Method] = []
    for part in specs.split_outside(text, "+"):
        spec = specs.parse(part)
        if spec.name in faults(plugins):  # also if another file defines the name: it is ambiguous
            raise InputError(faults(plugins)[spec.name])
        if spec.name not in entries:
            raise unknown("method", spec.name, entries)
        entry = entries[spec.name]
        if parts and not entry.cls.local:
            raise InputError(f"'{text}': {spec.name} takes no initial pose, so it cannot follow a '+'")
        parts.append(specs.build(entry.cls, with_tuned(spec, plugins), entry.parameters, "method"))
    if not parts:
        raise InputError("--methods: an empty name; give a method such as icp, or all")
    return parts[0] if len(parts) == 1 else Chain(parts=tuple(parts))


def unavailable(text: str, plugins: Path | None = None) -> str | None:
    """Return why a method, or a part of a chain, cannot run on this machine; None if it can."""
    return next((reason for entry in entries_of(text, plugins) if (reason := entry.unavailable())), None)


def missing(text: str, plugins: Path | None = None) -> str | None:
    """Return which package a method, or a part of a chain, requires and lacks; None if all are installed."""
    return next((reason for entry in entries_of(text, plugins) if (reason := entry.missing())), None)


def entries_of(text: str, plugins: Path | None = None) -> list[MethodEntry]:
    """Return the entry of a method, or those of the parts of a chain in order."""
    entries = available(plugins)
    return [entries[specs.parse(part).name] for part in specs.split_outside(text, "+")]


def kind_of(method: Method) -> str:
    """Return a method's kind ("local", "global", "learned", "control"); a chain has that of its first part."""
    return kind_of(method.parts[0]) if isinstance(method, Chain) else method.kind


def parameters_of(method: Method) -> dict[str, Any]:
    """Return a method's parameters by name; of a chain, the parts' parameters by number and class of the part."""
    if isinstance(method, Chain):
        return {f"{i + 1} {type(p).__name__}": parameters_of(p) for i, p in enumerate(method.parts)}
    return dataclasses.asdict(method)  # type: ignore[call-overload]


def is_random(method: Method) -> bool:
    """Return whether the pose of a method, or of any part of a chain, depends on the seed."""
    return any(map(is_random, method.parts)) if isinstance(method, Chain) else method.random


def is_batched(method: Method) -> bool:
    """Return whether a method solves several pairs at once; chains and random methods do not."""
    return method.batched and not is_random(method)


def environment_of(method: Method) -> dict[str, str]:
    """Return the environment variables that the method's process must start with."""
    parts = method.parts if isinstance(method, Chain) else (method,)
    return {k: v for p in parts for k, v in p.environment.items()}
