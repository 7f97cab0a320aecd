"""Properties that ICP, FGR and RANSAC share."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from common.errors import InputError
from methods.base import Method, NoSolution
from methods.fgr import Fgr
from methods.icp import Icp
from methods.ransac import Ransac
from tests.methods.clouds import lumpy, solve, turned_pair

METHODS: list[Method] = [Icp(), Fgr(), Ransac(iterations=2000)]

GLOBAL = METHODS[1:]


@pytest.mark.parametrize("method", GLOBAL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("degrees", [5, 100, 179])
def test_global_methods_map_source_into_target_at_any_angle(method: Method, degrees: float) -> None:
    source, target, truth = turned_pair(degrees)
    assert np.abs(solve(method, source, target) - truth).max() < 1e-3


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_same_seed_same_bits(method: Method) -> None:
    source, target, _ = turned_pair(15)
    noisy = source + np.random.default_rng(0).normal(scale=0.01, size=source.shape).astype(np.float32)
    first, again = solve(method, noisy, target), solve(method, noisy, target)
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_scale_changes_nothing_but_the_translation(method: Method) -> None:
    unit, large = turned_pair(12)[:2], turned_pair(12, scale=1000.0)[:2]
    a, b = solve(method, *unit), solve(method, *large)
    a[:3, 3] *= 1000
    assert np.allclose(a[:3, :3], b[:3, :3], atol=1e-4)
    assert np.allclose(a[:3, 3], b[:3, 3], atol=0.5)


LINE = np.outer(np.linspace(0, 1, 50), [1.0, 2.0, 3.0])

BAD = {
    "empty": np.zeros((0, 3)),
    "one": np.ones((1, 3)),
    "two": np.eye(3)[:2],
    "equal": np.full((50, 3), 0.3),
    "line": LINE,
    "line far away": LINE + 1e4,
    "nan": np.where(np.arange(150).reshape(50, 3) == 7, np.nan, lumpy(50)),
    "inf": np.where(np.arange(150).reshape(50, 3) == 7, np.inf, lumpy(50)),
    "shape": np.zeros((50, 2)),
}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("name", "side"), list(itertools.product(BAD, (0, 1))))
def test_clouds_that_fix_no_pose_are_refused_with_a_reason(method: Method, name: str, side: int) -> None:
    clouds = [lumpy(50).astype(np.float32)] * 2
    clouds[side] = BAD[name].astype(np.float32)
    with pytest.raises(NoSolution, match="target" if side else "source"):
        solve(method, *clouds)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("cloud", [np.eye(3), lumpy(4), lumpy(40) * [1, 1, 0], lumpy(40) * 1e6, lumpy(40) * 1e-6])
def test_poor_clouds_give_a_rigid_pose_or_a_reason(method: Method, cloud: np.ndarray) -> None:
    try:
        T = solve(method, cloud.astype(np.float32), cloud[::-1].astype(np.float32))
    except NoSolution as reason:
        assert str(reason)
    else:
        assert np.isfinite(T).all()
        assert np.allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-6) and np.linalg.det(T[:3, :3]) > 0


def test_bad_parameters_are_one_line() -> None:
    for make in (
        lambda: Icp(trim=1.0),
        lambda: Icp(distance=0.0),
        lambda: Icp(metric="plain"),
        lambda: Icp(kernel="hubert"),
        lambda: Icp(iterations=0),
        lambda: Fgr(orientation="outwards"),
        lambda: Ransac(distance=-1.0),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert "\n" not in str(caught.value)
