"""Conformance checks: each detects its fault and names the fix."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bench.conformance import checks
from bench.conformance.checks import CHECKS, CheckFailed
from tests.bench.command_line import PLUGINS
from tests.bench.conformance.faulty_methods import EXPECTED
from tests.catalog import build


@pytest.mark.parametrize("how", EXPECTED)
def test_each_fault_is_detected_by_its_check_with_a_fix(faulty, how):
    check, says = EXPECTED[how]
    with pytest.raises(CheckFailed, match=re.escape(says)):
        CHECKS[check](build(f"faulty_{how}", faulty))


@pytest.mark.parametrize("check", CHECKS)
def test_method_without_fault_passes(faulty, check):
    CHECKS[check](build("faulty_fine", faulty))


def test_check_of_batches_detects_faults():
    assert "3 pairs at once" in checks.batches(build("together", PLUGINS))
    assert checks.batches(build("good", PLUGINS)) == "not supported"
    for name, says in {
        "together_few": "2 results for 3 pairs",
        "together_raise": "broke",
        "together_spoilt": "another",
    }.items():
        with pytest.raises(checks.CheckFailed, match=says):
            checks.batches(build(name, PLUGINS))


def test_clouds_of_the_checks_have_the_shape_that_they_are_named_after():
    """The ellipsoid with semi-axes 1, 0.7 and 0.5 has a horn and two dents, and nothing else that turns it into itself."""
    cloud = checks.asymmetric_cloud(20_000) / (1.0, 0.7, 0.5)
    radius = np.linalg.norm(cloud, axis=1)
    unit = cloud / radius[:, None]
    for axis, height in (((1.0, 0.2, 0.1), 0.35), ((-0.2, 0.9, 0.4), -0.3), ((0.1, -0.3, 0.95), -0.25)):
        near = unit @ axis > 0.999 * np.linalg.norm(axis)
        assert near.sum() > 3 and np.abs(radius[near] - (1 + height)).max() < 0.02, axis
    assert np.median(np.abs(radius - 1)) < 0.02
    assert (radius.min(), radius.max()) == (pytest.approx(0.7, abs=0.01), pytest.approx(1.35, abs=0.01))
    blob = checks.random_cloud(20_000)
    np.testing.assert_allclose(blob.std(axis=0), (0.5, 0.3, 0.1), rtol=0.03)
    np.testing.assert_allclose(blob.mean(axis=0), 0, atol=0.02)
    for make in (checks.asymmetric_cloud, checks.random_cloud):
        assert not np.array_equal(make(50, 0), make(50, 1)) and np.array_equal(make(50, 1), make(50, 1))


def test_degenerate_clouds_are_what_their_names_say():
    clouds = checks.DEGENERATE_CLOUDS
    sizes = {"empty": 0, "one point": 1, "two points": 2, "few points": 5, "collinear": 100, "all equal": 100}
    assert {name: clouds[name].shape for name in clouds} == {name: (sizes.get(name, 200), 3) for name in clouds}
    ranks = {name: np.linalg.matrix_rank(clouds[name] - clouds[name].mean(0), tol=1e-9) for name in list(clouds)[4:8]}
    assert ranks == {"collinear": 1, "all equal": 0, "planar": 2, "duplicates": 3}
    assert {len(np.unique(clouds[name], axis=0)) for name in ("collinear", "planar")} == {100, 200}
    assert len(np.unique(clouds["duplicates"], axis=0)) == 40
    assert np.isnan(clouds["one nan"]).sum() == np.isinf(clouds["infinite"]).sum() == 1
    sizes = {name: np.abs(clouds[name]).max() for name in ("huge", "tiny")}
    assert sizes["huge"] > 1e6 and 1e-7 < sizes["tiny"] < 1e-5 and clouds["far away"].min() > 0.99e6


@pytest.mark.parametrize("key", range(3))
def test_the_easy_pair_has_the_angle_and_shift_of_its_pose_and_another_order(key):
    source, target, T = checks.easy_pair(100, key)
    assert source.dtype == target.dtype == np.float32 and source.shape == target.shape == (100, 3)
    angle = np.degrees(np.arccos((np.trace(T[:3, :3]) - 1) / 2))
    assert (angle, np.linalg.norm(T[:3, 3])) == (pytest.approx(10), pytest.approx(0.15))
    apart = cdist(source @ T[:3, :3].T + T[:3, 3], target)
    assert apart.min(axis=1).max() < 1e-5 and np.trace(apart < 1e-5) < 20
    assert checks.error(T, T, source) == 0 and checks.error(None, T, source) == np.inf
    moved = source @ T[:3, :3].T + T[:3, 3]
    assert checks.error(np.eye(4), T, source) == pytest.approx(np.sqrt(((moved - source) ** 2).sum(axis=1).mean()))


def outcome_of(check, method):
    """The remark of a check, or what is wrong."""
    try:
        return check(method)
    except CheckFailed as failure:
        return f"wrong: {failure}"


@pytest.mark.parametrize("in_order", [0.0, 0.019, 0.021, 1.0])
@pytest.mark.parametrize("shuffled", [0.0, 0.19, 0.21, 3.0])
def test_only_a_good_pose_that_becomes_bad_by_another_order_is_a_fault(monkeypatch, in_order, shuffled):
    errors = [in_order, shuffled]
    monkeypatch.setattr(checks, "call_method", lambda *_: (None, None))
    monkeypatch.setattr(checks, "error", lambda *_: errors.pop(0))
    found = outcome_of(checks.point_order, build("pca")).startswith("wrong: ")
    assert found == (in_order < 0.02 and shuffled > 0.2)


@pytest.mark.parametrize(
    ("typical", "inverse", "says"), [(0.9, 0, "error"), (1, 0.69, "return its inverse"), (1, 0.71, "no better")]
)
def test_a_known_pose_is_better_than_the_identity_or_the_inverse_is_suggested(monkeypatch, typical, inverse, says):
    errors = [typical, 1.0, inverse] * checks.KNOWN_POSES
    monkeypatch.setattr(checks, "error", lambda *_: errors.pop(0))
    text = outcome_of(checks.known_poses, build("pca"))
    assert says in text and text.startswith("wrong: ") == (typical >= 1)
    assert errors == []


@pytest.mark.parametrize(
    ("seconds", "mb", "says"),
    [
        (19.9, 3990, "19900 ms and 3990 MB"),
        (21, 1, "21 s for 2000 points, over 20 s"),
        (1, 4100, "4100 MB for 2000"),
        (1, -5, "and 0 MB"),
    ],
)
def test_limits_of_time_and_memory(monkeypatch, seconds, mb, says):
    clouds = []

    def call(method, *pair):
        clouds.extend(map(len, pair))
        return None, SimpleNamespace(time_ms=1e3 * seconds, peak_mb=mb)

    monkeypatch.setattr(checks, "call_method", call)
    text = outcome_of(checks.bounded, build("pca"))
    assert says in text and text.startswith("wrong: ") == (seconds > 20 or mb > 4000) and clouds == [2000, 2000]


@pytest.mark.parametrize(
    ("stages", "says"), [({}, "none"), ({"a": 50.0, "b": 52.0}, "a, b: 102%"), ({"a": 103.5}, "one lies inside")]
)
def test_stages_take_no_longer_than_the_call(monkeypatch, stages, says):
    monkeypatch.setattr(checks, "call_method", lambda *_: (None, SimpleNamespace(time_ms=100.0, stages=stages)))
    assert says in outcome_of(checks.stages_add_up, build("pca"))


def test_of_a_chain_the_last_part_refines_and_every_part_is_documented():
    assert "becomes" in checks.initial_pose(build("pca+icp")) and checks.documented(build("pca+icp")) == "global"
    assert checks.initial_pose(build("pca")) == "not supported"
    worse = build("icp")
    object.__setattr__(worse, "register", lambda source, target, init: np.diag([-1.0, -1, 1, 1]))
    assert "the error rises" in outcome_of(checks.initial_pose, worse)
