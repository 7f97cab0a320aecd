"""What every method owes, whatever it is: a rigid pose or a reason, for any clouds; nothing of its input changed."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.outcome import pose_fault
from common.keys import rng
from methods import registry
from methods.base import NoSolution

CHEAP = {"ransac10m": "ransac10m[iterations=2000]"}
NAMES = [CHEAP.get(name, name) for name in registry.available()]


def line(n):
    return np.outer(np.linspace(-1, 1, n), (1, 2, 3))


def blob(n=200, key=0):
    return rng("blob", key).normal(size=(n, 3)) * (0.5, 0.3, 0.1)


HOSTILE = {
    "empty": np.empty((0, 3)),
    "one point": np.ones((1, 3)),
    "two points": blob(2),
    "few points": blob(5),
    "collinear": line(100),
    "all equal": np.full((100, 3), 0.7),
    "planar": blob() * (1, 1, 0),
    "duplicates": np.repeat(blob(40), 5, axis=0),
    "one nan": np.where(np.arange(600).reshape(200, 3) == 7, np.nan, blob()),
    "infinite": np.where(np.arange(600).reshape(200, 3) == 7, np.inf, blob()),
    "huge": blob() * 1e6,
    "tiny": blob() * 1e-6,
    "far away": blob() + 1e6,
}


@pytest.fixture(scope="module", params=NAMES)
def method(request):
    made = registry.build(request.param)
    reason = registry.unavailable(request.param)
    if reason:
        pytest.skip(reason)
    made.setup("cpu", 0, "shapes40")
    return made


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("side", ["source", "target", "both"])
def test_hostile_clouds_give_a_rigid_pose_or_a_reason(method, name, side):
    bad = HOSTILE[name].astype(np.float32)
    source, target = (
        bad if side in (which, "both") else blob(key=1).astype(np.float32) for which in ("source", "target")
    )
    method.begin(0)
    try:
        pose = method.register(source.copy(), target.copy())
    except NoSolution as reason:
        assert str(reason)
    else:
        assert pose_fault(pose) is None


def test_a_call_is_pure(method):
    """Same seed, same bits, whatever came between; inputs are left as they were; unequal sizes are fine."""
    cloud = blob(300).astype(np.float32)
    target = (cloud @ Rotation.from_rotvec((0.1, -0.2, 0.1)).as_matrix().T.astype(np.float32) + 0.1)[:280]
    kept = cloud.copy(), target.copy()
    poses = []
    for seed in (5, 6, 5):
        method.begin(seed)
        poses.append(np.asarray(method.register(cloud, target)))
    np.testing.assert_array_equal(poses[0], poses[2])
    np.testing.assert_array_equal(cloud, kept[0])
    np.testing.assert_array_equal(target, kept[1])
    assert registry.is_random(method) or np.array_equal(poses[0], poses[1])
    assert sum(method.scratch.stages.values()) >= 0 and pose_fault(poses[0]) is None
