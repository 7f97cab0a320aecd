"""What a method is unless it says otherwise, and the state of its calls."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from common.kinds import DataKind
from methods.base import Cloud, Method, NoSolution, Pose

CLOUD = np.zeros((4, 3), dtype=np.float32)


class Plain(Method):
    """Return the identity, or refuse clouds with a negative first coordinate."""

    size: int = 2

    def register(self, source: Cloud, target: Cloud) -> Pose:
        if source[0, 0] < 0:
            raise NoSolution("negative")
        return np.eye(4) * target[0, 0]


def test_a_class_is_global_deterministic_and_on_the_cpu_unless_it_says_otherwise() -> None:
    method = Plain()
    assert (method.kind, method.local, method.random, method.batched, method.in_all) == (
        "global",
        False,
        False,
        False,
        True,
    )
    assert (method.requires, method.devices, method.variants, method.search) == ((), ("cpu",), {}, {})
    assert dict(method.environment) == {} and method.data_kind == DataKind.OBJECTS
    assert not method.solves_batches and not method.has_gaussians and method.gaussians(CLOUD, CLOUD) is None
    assert method.parameters == {"size": 2} and Plain(size=3).parameters == {"size": 3}
    with pytest.raises(NoSolution, match="does not implement register"):
        Method().register(CLOUD, CLOUD)


def test_arguments_of_a_class_reach_its_other_base_classes() -> None:
    class Named:
        def __init_subclass__(cls, label: str = "", **kwargs: object) -> None:
            super().__init_subclass__(**kwargs)
            cls.label = label

    class Labelled(Plain, Named, label="a"):  # type: ignore[call-arg]
        """Plain, with a label."""

    assert Labelled.label == "a" and Labelled(size=3).parameters == {"size": 3}
    with pytest.raises(TypeError):
        type("Wrong", (Plain,), {}, colour="red")


@pytest.mark.parametrize(
    ("batched", "random", "solves"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_batches_are_solved_at_once_only_without_random_numbers(batched: bool, random: bool, solves: bool) -> None:
    cls = type("Batched", (Plain,), {"batched": batched, "random": random, "__doc__": "x"})
    assert cls().solves_batches == solves


def test_parameters_are_fixed_and_state_is_of_the_instance() -> None:
    one, other = Plain(), Plain()
    with pytest.raises(AttributeError):
        one.size = 5  # type: ignore[misc]
    one.state["model"] = 1
    one.adapt(DataKind.SCANS)
    one.note(a=1)
    assert other.state == {} and other.data_kind == DataKind.OBJECTS and other.scratch.notes == {} and one != other


def test_a_batch_is_solved_in_sequence_with_the_reason_for_each_failure() -> None:
    sources = [CLOUD, CLOUD - 1, CLOUD]
    first, second, third = Plain().register_batch(sources, [CLOUD + k for k in (1, 2, 3)])
    assert np.array_equal(first, np.eye(4)) and np.array_equal(third, 3 * np.eye(4))
    assert isinstance(second, NoSolution) and str(second) == "negative"


def test_times_of_a_repeated_stage_add_up_also_after_a_failure() -> None:
    method = Plain()
    method.scratch.clock = count().__next__  # one second between two looks
    with method.stage("solve"), method.stage("inner"):
        pass
    with pytest.raises(KeyError), method.stage("solve"):
        raise KeyError
    assert method.scratch.stages == {"solve": 4, "inner": 1}


def test_each_call_begins_with_its_seed_and_without_the_last_one_s_state() -> None:
    method = Plain()
    method.begin(2**31 + 5)
    with method.stage("solve"):
        method.note(a=1)
    assert method.seed == 5 and method.rng is method.rng
    assert method.rng.random() == np.random.default_rng(2**31 + 5).random()
    method.begin(6)
    assert method.scratch.notes == {} and method.scratch.stages == {} and method.seed == 6
    assert method.rng.random() == np.random.default_rng(6).random()
