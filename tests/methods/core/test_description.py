"""What is known of a method without a call."""

from __future__ import annotations

import json

import numpy as np
import pytest

from common.errors import InputError
from common.specs import Spec
from methods.base import Cloud, LogUniform, Method, Pose, Unavailable
from methods.core.description import (
    MethodFacts,
    _is_method_module,
    facts_of,
    missing_package,
    summary_of,
    unavailable,
)
from methods.core.registry import MethodRegistry


class First(Method):
    """Do nothing.

    Parameters:
        share: not used.
    """

    kind = "local"
    local = True
    batched = True
    requires = ("numpy", "scipy.spatial")
    devices = ("cpu", "cuda")
    environment = {"A": "1"}
    search = {"share": (0.1, 0.5), "size": LogUniform(1.0, 9.0), "name": ("a",)}

    share: float = 0.5
    size: float = 2.0
    name: str = "a"

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        return np.eye(4)


class Second(First):
    random = True
    in_all = False
    search = {"count": (1, 2, 3)}

    count: int = 2


def test_every_property_is_that_of_the_class() -> None:
    facts = facts_of(First, {"share": 0.25}, Spec("first", {"size": "4"}))
    assert facts == MethodFacts(
        class_name="First",
        file=__file__,
        module=__name__,
        kind="local",
        local=True,
        random=False,
        solves_batches=True,
        requires=("numpy", "scipy.spatial"),
        devices=("cpu", "cuda"),
        environment={"A": "1"},
        in_all=True,
        has_gaussians=False,
        summary="Do nothing.",
        parameters={"share": 0.25, "size": 4.0, "name": "a"},
        search={"size": LogUniform(1.0, 9.0)},
        search_fault="",
        lineage=f"{__name__}.First",
    )
    assert MethodFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


def test_a_subclass_shares_the_ranges_and_the_lineage_of_its_base() -> None:
    facts = facts_of(Second, {}, Spec("second", {}))
    assert facts.search == {"share": (0.1,), "size": LogUniform(1.0, 9.0), "count": (1, 3)}
    assert facts.lineage == f"{__name__}.First" and (facts.random, facts.in_all) == (True, False)
    assert not facts.solves_batches, "a batch has one seed"
    assert MethodFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
    assert summary_of(Second) == "has no docstring: write one sentence below 'class Second'"


def test_ranges_of_unknown_parameters_and_unknown_devices_are_faults() -> None:
    class Lost(First):
        search = {"shore": (1,)}

    class Strange(First):
        devices = ("cpu", "tpu")

    class GpuOnly(First):
        devices = ("cuda",)

    facts = facts_of(Lost, {}, Spec("lost", {}))
    assert facts.search == {} and facts.search_fault.startswith("unknown parameter in Lost.search 'shore'")
    for cls in (Strange, GpuOnly):
        with pytest.raises(InputError, match=rf"{cls.__name__}\.devices is"):
            facts_of(cls, {}, Spec("x", {}))


def test_reasons_why_a_method_can_not_run() -> None:
    class Absent(First):
        requires = ("numpy", "no_such_package.part")

    class Text(First):
        requires = "numpy"  # type: ignore[assignment]

    class Refused(First):
        @classmethod
        def check_available(cls) -> None:
            raise Unavailable("no weights")

    class Broken(First):
        @classmethod
        def check_available(cls) -> None:
            raise KeyError("x")

    assert missing_package(First) is None and unavailable(First) is None
    assert unavailable(Absent) == "package no_such_package.part is missing: pip install no_such_package"
    assert unavailable(Text) == "Text.requires is 'numpy'; write a tuple of names, such as ('package',)"
    assert unavailable(Refused) == "no weights"
    reason = "Broken.check_available raises KeyError: 'x'; raise Unavailable with the reason"
    assert unavailable(Broken) == reason


@pytest.mark.parametrize(
    ("name", "lineage"),
    [
        ("icp", "methods.icp.Icp"),
        ("deepgmr", "methods.deepgmr.DeepGMR"),
        ("deepgmr_untrained", "methods.deepgmr.DeepGMR"),
        ("deepgmr_k40", "methods.deepgmr.DeepGMR"),
        ("sc2_pcr", "methods.sc2_pcr.Sc2Pcr"),
        ("mac", "methods.mac.Mac"),
    ],
)
def test_variants_and_subclasses_of_a_method_share_its_lineage_and_base_classes_of_several_do_not(
    name: str, lineage: str
) -> None:
    """A base class in a package below `methods`, such as that of learned methods, is no method."""
    found = MethodRegistry().entries[name].facts.lineage
    assert found.lower() == lineage.lower()


@pytest.mark.parametrize(
    ("module", "counts"),
    [
        ("methods.icp", True),
        ("methods.base", False),
        ("methods._private", False),
        ("methods.learned.base", False),
        ("elsewhere.icp", False),
        ("icp", False),
        (__name__, True),
    ],
)
def test_modules_of_methods_are_those_of_the_package_and_the_class_s_own(module: str, counts: bool) -> None:
    assert _is_method_module(module, First) == counts
