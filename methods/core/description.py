"""What the benchmark knows of a method without calling it. Plug-ins are described in a separate process, as JSON."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common import specs
from common.devices import CPU, CUDA
from common.errors import InputError, unknown
from common.plugins import Source
from methods.core.base import LogUniform, Method, Unavailable

CONTRACT = "methods.base"
"""Module in `methods/` that is no method."""
SearchSpace = dict[str, tuple[Any, ...] | LogUniform]


@dataclass(frozen=True)
class MethodFacts:
    """Properties of a method with its parameters.

    Attributes:
        class_name: name of its class.
        file: source file of the class.
        module: dotted name of its module.
        kind, local, random, solves_batches, requires, devices, environment, in_all: see `Method`.
        has_gaussians: whether it overrides `gaussians`.
        summary: first line of its docstring, or a note that it has none.
        parameters: its parameters by name.
        search: search ranges of the class, without the parameters of the variant and without the default values.
        search_fault: what is wrong with the declared ranges; empty if nothing is.
        lineage: name of the outermost base class that is defined in a file with a method; variants and subclasses share it.
        unavailable: why it cannot run here; None if it can.
        missing: which required package is missing; None if none is.
    """

    class_name: str
    file: str
    module: str
    kind: str
    local: bool
    random: bool
    solves_batches: bool
    requires: tuple[str, ...]
    devices: tuple[str, ...]
    environment: Mapping[str, str]
    in_all: bool
    has_gaussians: bool
    summary: str
    parameters: Mapping[str, Any]
    search: SearchSpace
    search_fault: str
    lineage: str
    unavailable: str | None = None
    missing: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        ranges = {n: [r.low, r.high] if isinstance(r, LogUniform) else {"values": [*r]} for n, r in self.search.items()}
        lists = {"requires": [*self.requires], "devices": [*self.devices]}
        return values | lists | {"environment": dict(self.environment), "search": ranges}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MethodFacts:
        """Return facts from the result of `to_json`."""
        search: SearchSpace = {
            name: LogUniform(*r) if isinstance(r, list) else tuple(r["values"]) for name, r in values["search"].items()
        }
        tuples = {name: tuple(values[name]) for name in ("requires", "devices")}
        return cls(**{**values, **tuples, "search": search})


def documented(cls: type[Method]) -> bool:
    """Return whether a class has its own docstring, not the signature that dataclasses put there."""
    return bool((cls.__doc__ or "").strip()) and not (cls.__doc__ or "").startswith(f"{cls.__name__}(")


def summary_of(cls: type[Method]) -> str:
    """Return the first line of a class's docstring, or a note that it has none."""
    if not documented(cls):
        return f"has no docstring: write one sentence below 'class {cls.__name__}'"
    return (cls.__doc__ or "").strip().split("\n")[0]


def missing_package(cls: type[Method]) -> str | None:
    """Return which required package of a class is missing and how to install it; None if all are there."""
    requires: Any = cls.requires
    if not isinstance(requires, tuple | list) or not all(isinstance(name, str) and name for name in requires):
        return f"{cls.__name__}.requires is {requires!r}; write a tuple of names, such as ('package',)"
    for name in requires:
        package = name.split(".")[0]
        try:
            location = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):  # of a package around it, or of a name that none can have
            location = None
        if location is None:
            return f"package {name} is missing: pip install {package}"
    return None


def unavailable(cls: type[Method]) -> str | None:
    """Return why a method cannot run here and how to fix it; None if it can."""
    if reason := missing_package(cls):
        return reason
    try:
        cls.check_available()
    except Unavailable as reason:
        return str(reason)
    except Exception as error:
        return (
            f"{cls.__name__}.check_available raises {type(error).__name__}: {error}; raise Unavailable with the reason"
        )
    return None


def facts_of(cls: type[Method], variant: Mapping[str, Any], given: specs.Spec) -> MethodFacts:
    """Describe a method, with the parameters of a variant and those that the user gives.

    Raises:
        InputError: a parameter does not exist, has the wrong type, or is out of range.
    """
    method = specs.instantiate(cls, given, variant, "method")
    space, fault = _search_space(cls, variant)
    return MethodFacts(
        class_name=cls.__name__,
        file=inspect.getfile(cls),
        module=cls.__module__,
        kind=str(method.kind),
        local=bool(cls.local),
        random=bool(method.random),
        solves_batches=bool(method.solves_batches),
        requires=tuple(cls.requires) if isinstance(cls.requires, tuple | list) else (),
        devices=_devices(cls),
        environment={str(name): str(value) for name, value in method.environment.items()},
        in_all=bool(cls.in_all),
        has_gaussians=method.has_gaussians,
        summary=summary_of(cls),
        parameters=method.parameters,
        search=space,
        search_fault=fault,
        lineage=_lineage(cls),
    )


def _devices(cls: type[Method]) -> tuple[str, ...]:
    """Return the kinds of devices that a class declares.

    Raises:
        InputError: they are no tuple of known kinds with "cpu".
    """
    devices: Any = cls.devices
    if isinstance(devices, tuple | list) and CPU in devices and {*devices} <= {CPU, CUDA}:
        return tuple(devices)
    raise InputError(f"{cls.__name__}.devices is {devices!r}; write ('cpu',) or ('cpu', 'cuda')")


def _search_space(cls: type[Method], variant: Mapping[str, Any]) -> tuple[SearchSpace, str]:
    """Return the search space of a class and its bases, and what is wrong with it."""
    space: SearchSpace = {}
    for base in reversed(cls.__mro__):
        space |= vars(base).get("search", {})
    defaults = {f.name: f.default for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if undefined := sorted(space.keys() - defaults):
        return {}, str(unknown(f"parameter in {cls.__name__}.search", undefined[0], defaults))
    others = {
        name: values if isinstance(values, LogUniform) else tuple(v for v in values if v != defaults[name])
        for name, values in space.items()
        if name not in variant
    }
    return {name: values for name, values in others.items() if values}, ""


def _lineage(cls: type[Method]) -> str:
    shared = [base for base in cls.__mro__ if issubclass(base, Method) and _is_method_module(base.__module__, cls)]
    return f"{shared[-1].__module__}.{shared[-1].__qualname__}"


def _is_method_module(module: str, cls: type[Method]) -> bool:
    """Return whether a module is that of a class, or directly in `methods/`."""
    package, _, name = module.rpartition(".")
    return module == cls.__module__ or (package == "methods" and module != CONTRACT and not name.startswith("_"))


def variants_of(source: Source, cls: type[Method]) -> Mapping[str, Mapping[str, Any]]:
    """Return the variants of a class of a source, by name."""
    return cls.variants or {source.name: {}}


def describe_source(source: Source, class_name: str = "", name: str = "", given: Any = None) -> list[dict[str, Any]]:
    """Describe the methods that a plug-in defines, as JSON values, one entry per name.

    Args:
        source: the plug-in, which is imported.
        class_name: describe only this class.
        name: describe only this variant of the class.
        given: parameters that the user gives, as text by name.

    Raises:
        InputError: a class cannot be described; see also `facts_of`.
    """
    entries = []
    for cls in source.classes(Method):
        if not isinstance(cls.variants, Mapping):
            raise InputError(f"{cls.__name__}.variants is no mapping of names to parameters; write {{'name': {{}}}}")
        for variant, parameters in variants_of(source, cls).items():
            if name and (cls.__name__, variant) != (class_name, name):
                continue
            facts = facts_of(cls, parameters, specs.Spec(str(variant), given or {})).to_json()
            entries.append(
                facts | {"name": str(variant), "missing": missing_package(cls), "unavailable": unavailable(cls)}
            )
    return entries
