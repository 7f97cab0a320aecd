"""Matches by learned descriptors, with weights that were never trained."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from common.errors import InputError
from common.kinds import DataKind
from methods.base import Unavailable
from methods.geometry import learned_matches, patches
from methods.geometry.patches import hollow_side
from methods.learned import descriptor
from methods.native import descriptor as native
from methods.nn.descriptor import DescriptorConfig, DescriptorNet
from tests.catalog import build
from tests.methods.geometry.test_patches import NoKernel
from tests.methods.weight_files import write_weights


@pytest.fixture
def weights(tmp_path, monkeypatch):
    torch.manual_seed(0)
    file = write_weights(tmp_path / "w.safetensors", DescriptorNet(DescriptorConfig()), "descriptor")
    for module in (descriptor, learned_matches):
        monkeypatch.setattr(module, "WEIGHTS", file)
    return file


@pytest.fixture
def pair():
    draw = np.random.default_rng(0)
    xy = draw.uniform(-1.5, 1.5, (3000, 2))
    source = np.column_stack([xy, 0.4 * np.sin(3 * xy[:, 0]) * np.cos(2 * xy[:, 1] + 1)])
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = Rotation.random(random_state=1).as_matrix(), [1, 2, 3]
    return source.astype(np.float32), (source @ T[:3, :3].T + T[:3, 3]).astype(np.float32), T


@pytest.mark.parametrize("name", ["ransac10k", "fgr"])
def test_methods_register_by_learned_features(weights, pair, name):
    method = build(f"{name}[features=learned]")
    method.setup("cpu", 0, "rooms")
    method.begin(0)
    source, target, T = pair
    error = np.linalg.norm((method.register(source, target) @ np.linalg.inv(T))[:3, :3] - np.eye(3))
    assert error < 0.2 and method.scratch.notes["matches"] > 100


def test_at_most_so_many_points_are_described(weights, monkeypatch):
    monkeypatch.setattr(learned_matches, "KEYS", 50)
    matcher = learned_matches.LearnedMatcher.load()
    cloud = 0.1 * np.random.default_rng(0).normal(size=(300, 3))
    described, _ = matcher.describe_both(cloud, cloud)
    assert described.descriptors.shape == (50, 32) and len(np.unique(described.rows)) == 50
    rows = matcher.mutual(described, described)
    assert (rows[:, 0] == rows[:, 1]).all()


def test_missing_weights_name_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(descriptor, "WEIGHTS", tmp_path / "none.safetensors")
    with pytest.raises(Unavailable, match=r"bench\.py train descriptor"):
        build("fgr[features=learned]").setup("cpu", 0, "rooms")


def test_unknown_features_are_refused():
    with pytest.raises(InputError, match="features 'sift'"):
        build("fgr[features=sift]")


def test_matches_do_not_depend_on_threads_and_are_each_others_nearest(weights, pair, monkeypatch):
    monkeypatch.setattr(learned_matches, "KEYS", 300)
    matcher = learned_matches.LearnedMatcher.load()
    found = []
    for threads in "12":
        monkeypatch.setenv("BENCH_THREADS", threads)
        described = matcher.describe_both(*(cloud.astype(float) for cloud in pair[:2]))
        found.append(matcher.mutual(*described))
    np.testing.assert_array_equal(*found)
    scores = described[0].descriptors.astype(float) @ described[1].descriptors.T.astype(float)
    x = np.searchsorted(described[0].rows, found[0][:, 0])
    y = np.searchsorted(described[1].rows, found[0][:, 1])
    assert len(found[0]) > 50
    np.testing.assert_allclose(scores[x, y], scores.max(axis=1)[x], atol=1e-6)
    np.testing.assert_allclose(scores[x, y], scores.max(axis=0)[y], atol=1e-6)


def described_by(kernel, matcher, cloud, monkeypatch):
    with monkeypatch.context() as patch:
        if not kernel:
            patch.setattr(native, "KERNEL", NoKernel)
        return matcher.describe_both(cloud, cloud)[0].descriptors


@pytest.mark.parametrize("points", [200, 1500])
def test_the_kernel_computes_the_descriptors_of_the_network(weights, monkeypatch, points):
    """Also at the border of a cloud, where patches have fewer points."""
    if native.KERNEL.load() is None:
        pytest.skip("the kernel cannot be had here")
    matcher = learned_matches.LearnedMatcher.load()
    cloud = np.random.default_rng(0).uniform(-0.5, 0.5, (points, 3)) * [1, 1, 0.1]
    ours, networks = (described_by(kernel, matcher, cloud, monkeypatch) for kernel in (True, False))
    assert np.einsum("ij,ij->i", ours, networks).min() > 1 - 1e-5


def test_normals_to_the_wrong_side_are_noticed(weights, pair, monkeypatch):
    matcher, cloud = learned_matches.LearnedMatcher.load(), pair[0].astype(float) / 2
    signs = iter([1.0, -1.0])

    def one_side_each(keys, directions, offsets):
        return hollow_side(keys, directions, offsets)._replace(sign=next(signs))

    monkeypatch.setattr(patches, "hollow_side", one_side_each)
    source, target = matcher.describe_both(cloud, cloud)
    np.testing.assert_allclose(source.descriptors, target.descriptors, atol=1e-4)


def test_a_key_far_from_all_points_has_the_descriptor_of_an_empty_patch(weights, monkeypatch):
    network, cloud = descriptor.load()[0], np.random.default_rng(0).normal(size=(200, 3))
    keys = np.array([[1e9, 0, 0], [0, -1e9, 5]])
    ours = descriptor.describe(network, cloud, keys, 0.5)
    monkeypatch.setattr(native, "KERNEL", NoKernel)
    np.testing.assert_allclose(ours, descriptor.describe(network, cloud, keys, 0.5), atol=1e-4)


def test_both_features_add_the_matches_of_fpfh(weights, pair, monkeypatch):
    monkeypatch.setattr(learned_matches, "KEYS", 300)
    source, target, T = pair
    matches = []
    for features in ("learned", "both"):
        method = build(f"sc2_pcr[features={features}]")
        method.adapt(DataKind.SCANS)
        method.setup("cpu", 0, "rooms")
        method.begin(0)
        found = method.register(source, target)
        matches.append(method.scratch.notes["matches"])
    assert matches[1] > matches[0] + 10
    assert np.linalg.norm((found @ np.linalg.inv(T))[:3, :3] - np.eye(3)) < 0.2


def test_both_features_are_for_methods_on_compatible_matches():
    with pytest.raises(InputError, match="features 'both'"):
        build("fgr[features=both]")


@pytest.mark.parametrize("layout", ["right", "strided", "float64"])
def test_moments_are_written_only_to_contiguous_float32(layout):
    """The kernel writes without knowing the layout."""
    calls, keys = [], np.eye(3)
    kernel = SimpleNamespace(descriptor_moments=lambda *given: calls.append(given))
    result = np.zeros((3, 2, 4, 5), np.float64 if layout == "float64" else np.float32)
    result = result[..., ::2] if layout == "strided" else result
    arguments = kernel, keys, keys, keys, np.ones((7, 3)), 0.5, 9, result
    if layout == "right":
        native.write_moments(*arguments)
        ((*_, count, _, support, radius, most, stride, _),) = calls
        assert (count, support, radius, most, stride) == (3, 7, 0.5, 9, 40)
        native.write_moments(*arguments[:-1], result[:, :1])  # a part of each key's moments, with the same stride
        assert calls[1][-2] == 40
    else:
        with pytest.raises(ValueError, match="not contiguous float32"):
            native.write_moments(*arguments)
        assert not calls
