"""Methods whose packages are optional."""

from __future__ import annotations

import importlib.util
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods import kiss_matcher
from methods.base import NoSolution
from methods.core.registry import MethodRegistry
from methods.cpd import Cpd
from methods.geometry.features import unit_pair
from methods.kiss_matcher import KissMatcher
from methods.small_gicp import SmallGicp
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
    assert method.scratch.notes or name == "fricp"  # its package counts nothing


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


class Given(Exception):
    """What a library was given."""


def given(*arguments, **settings):
    raise Given(arguments, settings)


def test_parameters_and_the_start_reach_small_gicp_and_its_pose_comes_back(monkeypatch):
    module = pytest.importorskip("small_gicp")
    source, target, start = turned_pair(30, scale=4.0)
    pair = unit_pair(source, target)
    method, calls = SmallGicp(kind_of="VGICP", voxel=0.02, distance=0.3, iterations=7), []
    found = pair.to_unit(turned_pair(50)[2])

    def align(*clouds, **settings):
        calls.append((clouds, settings))
        return SimpleNamespace(T_target_source=found, num_inliers=len(calls) % 2, iterations=3, converged=1)

    monkeypatch.setattr(module, "align", align)
    np.testing.assert_allclose(method.register(source, target, start), pair.to_original(found))
    (clouds, settings), notes = calls[0], {"iterations": 3, "converged": True, "inliers": 1}
    expected = (pair.target, pair.source, pair.to_unit(start))
    assert all(np.array_equal(*two) for two in zip(clouds, expected, strict=True)) and method.scratch.notes == notes
    lengths = {"voxel_resolution": 0.1, "downsampling_resolution": 0.02, "max_correspondence_distance": 0.3}
    others = {"registration_type": "VGICP", "num_threads": 1, "max_iterations": 7}
    assert settings == others | {name: pytest.approx(value) for name, value in lengths.items()}
    with pytest.raises(NoSolution, match="no pair lies within"):
        method.register(source, target)
    assert np.array_equal(calls[1][0][2], pair.to_unit(np.eye(4)))
    for n, refused in ((9, True), (10, False)):
        with pytest.raises(NoSolution) if refused else nullcontext():
            method.register(source[:n], target)


def test_parameters_and_even_subsamples_reach_pycpd(monkeypatch):
    module = pytest.importorskip("pycpd")
    source, target, start = turned_pair(30, n=300)
    pair = unit_pair(source, target[:50])
    monkeypatch.setattr(module, "RigidRegistration", given)
    with pytest.raises(Given) as caught:
        Cpd(outliers=0.3, iterations=9, tolerance=0.5, limit=60).register(source, target[:50], start)
    _, settings = caught.value.args
    T = pair.to_unit(start)
    rows = np.linspace(0, 299, 60).astype(int)
    np.testing.assert_allclose(settings.pop("X"), pair.target)
    np.testing.assert_allclose(settings.pop("Y"), pair.source[rows] @ T[:3, :3].T + T[:3, 3])
    assert settings == {"scale": False, "w": 0.3, "max_iterations": 9, "tolerance": 0.5}
    for share, fits in ((0.0, True), (0.999, True), (1.0, False), (-0.1, False)):
        with nullcontext() if fits else pytest.raises(InputError):
            Cpd(outliers=share)


def test_parameters_reach_kiss_matcher_and_cells_are_counted(monkeypatch):
    module = pytest.importorskip("kiss_matcher")
    monkeypatch.setattr(module, "KISSMatcherConfig", given)
    with pytest.raises(Given) as caught:
        KissMatcher(voxel=0.1, normal_gain=2.0, feature_gain=4.0).register(*turned_pair(20)[:2])
    assert caught.value.args == ((), {"voxel_size": 0.1, "normal_r_gain": 2.0, "fpfh_r_gain": 4.0})
    cloud = np.random.default_rng(0).uniform(-3, 2, (200, 3))
    cells = {tuple(np.floor((p - cloud.min(axis=0)) / 0.7).astype(int)) for p in cloud}
    assert kiss_matcher._cells(cloud, 0.7) == len(cells) > 50
