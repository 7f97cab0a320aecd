"""Scores, poses of matches and the loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from methods.nn.matching import motion_loss, pose_of_matches, scores_of
from tests.methods.clouds import pose


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
