"""Laws of problems: every field of a key matters, poses have their distributions, and noise is on both clouds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest, norm

from common.keys import rng
from datasets import poses
from datasets.base import DataSet, MeshShape
from datasets.problems import ProblemKey, make_problem

PLATE = np.array([[[-0.6, -0.5, 0], [0.6, -0.5, 0], [0.6, 0.5, 0]], [[-0.6, -0.5, 0], [0.6, 0.5, 0], [-0.6, 0.5, 0]]])


class Plates(DataSet):
    """A plate in the xy-plane, whose z coordinate is the noise alone."""

    categories = ("a", "b")

    def labels(self, split):
        return None

    def shape(self, split, index):
        return MeshShape(f"{split}{index}", "a", PLATE)


KEY = ProblemKey("plates", "noisy", 200, 3, 1, "test", "axis_angle", (10.0, 170.0))
OTHERS = {
    "dataset": "other",
    "condition": "noisy[sigma=0.02]",
    "points": 201,
    "index": 4,
    "seed": 2,
    "split": "train",
    "sampler": "haar",
    "angles": (11.0, 170.0),
}


@pytest.mark.parametrize("field", OTHERS)
def test_every_field_of_a_key_changes_the_problem(field):
    one, other = make_problem(Plates(), KEY), make_problem(Plates(), replace(KEY, **{field: OTHERS[field]}))
    same_pose = np.array_equal(one.T_target_source, other.T_target_source)
    assert same_pose == (field in ("condition", "points")), "conditions and sizes are compared on the same poses"
    assert np.array_equal(one.source_pose, other.source_pose) == same_pose
    n = min(len(one.source), len(other.source))
    assert not np.allclose(one.source[:n], other.source[:n]) and one.sha256() != other.sha256()


@pytest.mark.parametrize("sampler", poses.SAMPLERS)
def test_translations_and_axes_have_their_laws(sampler):
    draw, low, high = rng("laws", sampler), 0.0, 180.0
    T = np.stack([poses.sample_pose(sampler, draw, low, high) for _ in range(1500)])
    if sampler.endswith("_box"):
        for axis in range(3):
            assert kstest(T[:, axis, 3] + 0.5, "uniform").pvalue > 1e-3
        return
    length = np.linalg.norm(T[:, :3, 3], axis=1)
    assert kstest(length / 0.5, "uniform").pvalue > 1e-3
    for axis in range(3):  # a coordinate of a uniform direction is uniform
        assert kstest((T[:, axis, 3] / length + 1) / 2, "uniform").pvalue > 1e-3
    if sampler == "euler45":
        return
    R = T[:, :3, :3]
    skew = np.stack([R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], axis=1)
    for axis in (skew / np.linalg.norm(skew, axis=1, keepdims=True)).T:
        assert kstest((axis + 1) / 2, "uniform").pvalue > 1e-3
    angle = np.arctan2(np.linalg.norm(skew, axis=1), np.trace(R, axis1=1, axis2=2) - 1)
    law = {"axis_angle": angle / np.pi, "haar": (angle - np.sin(angle)) / np.pi}[sampler]
    assert kstest(law, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "condition", ["noisy", "unseen", "resampled", "density[target=700]", "partial", "outliers", "crop", "nearest"]
)
def test_noise_is_on_both_clouds(condition):
    problem = make_problem(Plates(), replace(KEY, condition=condition, points=600))
    A = problem.source_pose
    for cloud, pose in ((problem.source, A), (problem.target, problem.T_target_source @ A)):
        z = (cloud.astype(float) - pose[:3, 3]) @ pose[:3, 2]
        near = z[np.abs(z) < 0.04] if condition == "outliers" else z
        assert near.size > 300 and kstest(near, norm(0, 0.01).cdf).pvalue > 1e-3
        if condition == "outliers":
            assert (np.abs(z) > 0.04).mean() == pytest.approx(0.3, abs=0.05)
