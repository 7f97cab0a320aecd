"""Methods by name: each is a file of this folder (or of a `--plugins` folder); `a+b` initialises b with a's pose."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from common import specs
from common.errors import InputError, unknown
from common.plugins import discover
from methods.core.base import Cloud, Method, Pose, Unavailable
from methods.core.provenance import source_files

HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class MethodEntry:
    """A method one can name: its class, the parameters that the name stands for, and the file that the class stands in."""

    cls: type[Method]
    parameters: Mapping[str, Any]
    file: Path

    @property
    def summary(self) -> str:
        """The first line of the class's docstring; if it has none, that it has none."""
        if not self.documented:
            return f"has no docstring: write one sentence below 'class {self.cls.__name__}'"
        return (self.cls.__doc__ or "").strip().split("\n")[0]

    @property
    def documented(self) -> bool:
        """Whether the class has a docstring of its own, not the signature that dataclasses put there."""
        return not (self.cls.__doc__ or "").startswith(f"{self.cls.__name__}(")

    def missing(self) -> str | None:
        """Which package it needs and is not here, and what mends it; None if all are."""
        missing = [p for p in self.cls.requires if importlib.util.find_spec(p) is None]
        return f"package {missing[0]} is missing: pip install {missing[0]}" if missing else None

    def unavailable(self) -> str | None:
        """Why this method cannot run here and what mends it; None if it can."""
        if reason := self.missing():
            return reason
        try:
            self.cls.check_available()
        except Unavailable as reason:
            return str(reason)
        return None


GROUP = "registration_bench.methods"
"""The entry point group by which an installed package offers methods."""
_NOT_METHODS = {"methods.base"}


TUNED = "tuned"
"""What looks like a parameter but names settings that `bench.py tune` found: `fgr[tuned=modelnet40_noisy]`."""


@lru_cache(maxsize=8)
def _named(plugins: Path | None) -> tuple[dict[str, MethodEntry], dict[str, str]]:
    found = discover("methods", GROUP, plugins)
    offers = (
        (name, source, MethodEntry(cls, parameters, Path(inspect.getfile(cls if source.only else source.module))))
        for source in found.sources
        for cls in (() if source.module.__name__ in _NOT_METHODS else source.classes(Method))
        for name, parameters in (cls.variants or {source.name: {}}).items()
    )
    return found.named(offers, "method")


def faults(plugins: Path | None = None) -> dict[str, str]:
    """Name to reason, of every file or entry point that does not import, and of every name that is given twice."""
    return _named(plugins)[1]


def available(plugins: Path | None = None) -> dict[str, MethodEntry]:
    """Name to offer, of every method in this folder, in installed packages and in a user's folder."""
    return _named(plugins)[0]


def build(text: str, plugins: Path | None = None) -> Method:
    """The method written as `icp`, `icp[trim=.3]` or `fgr+icp`.

    Raises:
        InputError: an unknown or faulty name or parameter, or a part after `+` that takes no initial pose.
    """
    offers = available(plugins)
    if re.search(r"^\s*\+|\+\s*(\+|$)", text):
        raise InputError(f"'{text}': nothing stands beside a +; write two methods, a+b")
    parts: list[Method] = []
    for part in specs.split_outside(text, "+"):
        spec = specs.parse(part)
        if spec.name in faults(plugins):  # even if another has the name: which of the two is meant, nobody knows
            raise InputError(faults(plugins)[spec.name])
        if spec.name not in offers:
            raise unknown("method", spec.name, offers)
        offer = offers[spec.name]
        if parts and not offer.cls.local:
            raise InputError(f"'{text}': {spec.name} takes no initial pose, so it cannot stand after '+'")
        parts.append(specs.build(offer.cls, _with_tuned(spec, plugins), offer.parameters, "method"))
    if not parts:
        raise InputError("--methods: an empty name; give a method such as icp, or all")
    return parts[0] if len(parts) == 1 else Chain(parts=tuple(parts))


def tuned_file(plugins: Path | None = None) -> Path:
    """Where `bench.py tune` keeps what it found: `tuned.toml` beside the methods, or in the user's folder."""
    return (plugins or HERE) / "tuned.toml"


def tuned(file: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Method to name to what was found, with its `values`; nothing if there is no such file.

    Raises:
        InputError: the file is not of that form.
    """
    if not file.exists():
        return {}
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not TOML ({error}); mend or remove it") from error
    for method, entries in found.items():
        for name, entry in entries.items() if isinstance(entries, dict) else [("", None)]:
            if not isinstance(entry, dict) or not isinstance(entry.get("values"), dict):
                raise InputError(f"{file}: [{method}.{name}] has no table 'values'; mend it or run bench.py tune again")
    return found


def uses_tuned(text: str) -> bool:
    """Whether a method, or any part of a chain, is asked for by the name of tuned settings."""
    return any(TUNED in specs.parse(part).given for part in specs.split_outside(text, "+"))


def _with_tuned(spec: specs.Spec, plugins: Path | None) -> specs.Spec:
    """The spec with the values that `tuned=NAME` stands for; what is written beside it wins.

    Raises:
        InputError: the method has no such settings.
    """
    given = dict(spec.given)
    name = given.pop(TUNED, None)
    if name is None:
        return spec
    found = tuned(tuned_file()).get(spec.name, {}) | (tuned(tuned_file(plugins)).get(spec.name, {}) if plugins else {})
    if name not in found:
        raise unknown(f"tuned settings of {spec.name} (bench.py tune makes them)", name, found)
    values = {key: str(value) for key, value in found[name]["values"].items()}
    return specs.Spec(spec.name, values | given)


def unavailable(text: str, plugins: Path | None = None) -> str | None:
    """Why a method (or a part of a chain) cannot run here; None if it can."""
    return next((reason for offer in _offers_of(text, plugins) if (reason := offer.unavailable())), None)


def missing(text: str, plugins: Path | None = None) -> str | None:
    """Which package a method (or a part of a chain) needs and is not here; None if all are."""
    return next((reason for offer in _offers_of(text, plugins) if (reason := offer.missing())), None)


def source_hashes(text: str, plugins: Path | None = None) -> dict[str, str]:
    """The files that a method and the parts of a chain are made of, each with the start of its SHA-256.

    They are those in which they stand, and what these import of this package, of the `--plugins` folder or of the installed
    package they belong to. Names are relative to where modules are named from.
    """
    offers, found = _offers_of(text, plugins), dict[str, str]()
    for offer in offers:
        packages = {HERE: HERE.parent} | _package_of(offer, plugins)
        for one in source_files(offer.file, packages):
            root = next((root for folder, root in packages.items() if folder in one.parents), one.parent)
            found[str(one.relative_to(root))] = _digest(one)
    if len(offers) > 1:
        found[str(Path(__file__).relative_to(HERE.parent))] = _digest(Path(__file__))
    return dict(sorted(found.items()))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _package_of(offer: MethodEntry, plugins: Path | None) -> dict[Path, Path]:
    """The folder of the package that a method belongs to, and where its modules are named from; nothing if there is none."""
    file, depth = offer.file, offer.cls.__module__.count(".")
    if plugins and file.parent.resolve() == plugins.resolve():
        return {file.parent: file.parent}
    if file.name == "__init__.py":
        depth += 1
    return {file.parents[depth - 1]: file.parents[depth]} if depth else {}


def _offers_of(text: str, plugins: Path | None) -> list[MethodEntry]:
    offers = available(plugins)
    return [offers[specs.parse(part).name] for part in specs.split_outside(text, "+")]


def kind_of(method: Method) -> str:
    """Its kind ("local", "global", "learned", "control"); a chain has that of its first part."""
    return kind_of(method.parts[0]) if isinstance(method, Chain) else method.kind


def parameters_of(method: Method) -> dict[str, Any]:
    """Its parameters by name; of a chain, each part's under the part's number and class."""
    if isinstance(method, Chain):
        return {f"{i + 1} {type(p).__name__}": parameters_of(p) for i, p in enumerate(method.parts)}
    return dataclasses.asdict(method)  # type: ignore[call-overload]


def is_random(method: Method) -> bool:
    """Whether a method, or any part of a chain, declares that its answer depends on the seed."""
    return any(map(is_random, method.parts)) if isinstance(method, Chain) else method.random


def is_batched(method: Method) -> bool:
    """Whether a method solves several pairs at once. A chain does not, nor what depends on the seed of the pair."""
    return method.batched and not is_random(method)


def environment_of(method: Method) -> dict[str, str]:
    """Environment variables the method's process must start with."""
    parts = method.parts if isinstance(method, Chain) else (method,)
    return {k: v for p in parts for k, v in p.environment.items()}


class Chain(Method):
    """The first method's pose initialises the next: `fgr+icp`."""

    parts: tuple[Method, ...]

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Set up every part; what each notes is noted under its number, as two parts may note the same."""
        for i, part in enumerate(self.parts, 1):
            part.setup(device, seed, domain)
            self.note(**{f"{i} {name}": fact for name, fact in part.scratch.notes.items()})

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """Run the first part, then refine by each following one."""
        with self._part(0) as first:
            T = first.register(source, target)
        for i in range(1, len(self.parts)):
            with self._part(i) as refiner, self.stage("refine"):
                T = refiner.register(source, target, T)  # type: ignore[call-arg]
        return T

    @contextmanager
    def _part(self, i: int) -> Iterator[Method]:
        """One part with its own generator; its notes, and the first part's stages, become the chain's.

        A refinement counts as one stage, whatever parts it has.
        """
        part = self.parts[i]
        part.begin(self.seed + i)
        yield part
        self.note(**part.scratch.notes)
        if i == 0:
            self.scratch.stages.update(part.scratch.stages)
