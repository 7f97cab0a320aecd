"""Scores, poses of matches and the loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from methods.nn.dcp import DcpConfig
from methods.nn.matching import Embedding, motion_loss, pose_of_matches, scores_of
from tests.methods.clouds import pose, tensor_pair


@pytest.mark.parametrize("seed", range(3))
def test_hard_matches_give_scipy_s_alignment(seed: int) -> None:
    draw = np.random.default_rng(seed)
    source, target = draw.normal(size=(20, 3)), draw.normal(size=(30, 3))
    match = draw.integers(0, 30, 20)
    share = torch.nn.functional.one_hot(torch.from_numpy(match), 30)[None].double()
    T = pose_of_matches(share, torch.from_numpy(source)[None], torch.from_numpy(target)[None])[0].numpy()
    a, b = source - source.mean(0), target[match] - target[match].mean(0)
    R = Rotation.align_vectors(b, a)[0].as_matrix()
    np.testing.assert_allclose(T[:3, :3], R, atol=1e-9)
    np.testing.assert_allclose(T[:3, 3], target[match].mean(0) - R @ source.mean(0), atol=1e-9)


def test_scores_are_scaled_dot_products_in_float32_under_autocast() -> None:
    x, y = torch.randn(2, 4, 9), torch.randn(2, 5, 9)
    with torch.autocast("cpu", torch.bfloat16):
        scores = scores_of(x, y)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, torch.einsum("bnf,bmf->bnm", x, y) / 3)


def test_the_loss_is_the_paper_s() -> None:
    T, truth = pose(0), pose(1)
    by_hand = np.square(T[:3, :3].T @ truth[:3, :3] - np.eye(3)).sum() + np.square(T[:3, 3] - truth[:3, 3]).sum()
    both = [torch.from_numpy(np.stack([T, truth])), torch.from_numpy(np.stack([truth, truth]))]
    assert motion_loss(*both).item() == pytest.approx(by_hand / 2)


@pytest.mark.parametrize("sizes", [(12, 12), (12, 9)])
def test_features_of_each_cloud_are_its_own_and_those_given_the_other(sizes: tuple[int, int]) -> None:
    """Whether both clouds pass the network at once, which equal sizes allow, or one after the other."""
    net = Embedding(DcpConfig(k=4, widths=(8, 12), features=16, heads=2, inner=24)).eval()
    clouds = tensor_pair(*sizes)
    with torch.no_grad():
        prepared = net.prepare(*clouds)
        found = net(prepared, *clouds)
        own = [net.local(cloud, near) for cloud, near in zip(clouds, prepared, strict=True)]
        expected = own[0] + net.mutual(own[0], own[1]), own[1] + net.mutual(own[1], own[0])
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
