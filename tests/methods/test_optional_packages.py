"""Methods whose packages are optional."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods.base import NoSolution
from methods.core.registry import MethodRegistry
from tests.catalog import build, spec
from tests.methods.clouds import solve, turned_pair

LOCAL = ("small_gicp", "small_vgicp", "cpd", "fricp")


def made(name):
    """The method, or a skip that says which package is missing."""
    reason = spec(name).unavailable()
    if reason:
        pytest.skip(reason)
    return build(name)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("name", LOCAL)
def test_a_small_pose_is_found_in_any_unit(name, scale):
    source, target, truth = turned_pair(12, scale=scale)
    method = made(name)
    result = solve(method, source, target)
    apart = Rotation.from_matrix(result[:3, :3].T @ truth[:3, :3]).magnitude()
    assert np.rad2deg(apart) < 1 and np.linalg.norm(result[:3, 3] - truth[:3, 3]) < 0.02 * scale
    assert method.scratch.notes


@pytest.mark.parametrize("name", LOCAL)
def test_the_start_is_used(name):
    source, target, truth = turned_pair(150)
    method = made(name)
    method.begin(0)
    result = method.register(source, target, truth)
    assert np.abs(result - truth).max() < 0.03


@pytest.mark.parametrize("degrees", [5, 100, 179])
def test_kiss_matcher_finds_any_pose(degrees):
    source, target, truth = turned_pair(degrees, n=2000)
    method = made("kiss_matcher")
    result = solve(method, source, target)
    assert np.abs(result - truth).max() < 0.05 and 0 < method.scratch.notes["confidence"] <= 1


@pytest.mark.parametrize("name", [*LOCAL, "kiss_matcher"])
def test_what_would_end_the_process_is_refused(name):
    method = made(name)
    for bad in (np.zeros((0, 3)), np.zeros((50, 3)), np.linspace(0, 1, 40)[:, None] * np.ones(3)):
        method.begin(0)
        with pytest.raises(NoSolution):
            method.register(bad.astype(np.float32), bad.astype(np.float32))


@pytest.mark.parametrize("name", ["small_gicp", "kiss_matcher", "fricp", "cpd"])
def test_a_missing_package_is_named_with_the_command(name, monkeypatch):
    offer = MethodRegistry().entries[name]
    find = importlib.util.find_spec
    wanted = offer.cls.requires[0]
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda package, *a: None if package == wanted else find(package, *a)
    )
    assert offer.unavailable() == f"package {wanted} is missing: pip install {wanted}"


@pytest.mark.parametrize("text", ["cpd[outliers=1]", "small_gicp[kind_of=ICP]", "kiss_matcher[voxel=0]"])
def test_bad_parameters(text):
    with pytest.raises(InputError):
        build(text)
