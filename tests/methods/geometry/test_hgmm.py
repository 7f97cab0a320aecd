"""Trees of Gaussians against scikit-learn and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from methods.geometry import hgmm as hgmm
from tests.methods.clouds import lumpy

GROWTH = hgmm.FitParameters(levels=3, floor=1e-4, flat=0.0, least=32, iterations=30, tolerance=0.0)


def turn(degrees: float, seed: int = 1) -> np.ndarray:
    axis = np.random.default_rng(seed).normal(size=3)
    return Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis)).as_matrix()


def grown(points: np.ndarray, how: hgmm.FitParameters = GROWTH) -> hgmm.Tree:
    return hgmm.fit_tree(torch.as_tensor(points), how)


@pytest.mark.parametrize(
    "points",
    [
        lumpy(3000),
        lumpy(3000) * [1, 1, 0],
        np.random.default_rng(0).normal(size=(3000, 3)),
        np.repeat(lumpy(300), 10, 0),
    ],
    ids=["surface", "plane", "normal", "duplicates"],
)
def test_the_likelihood_never_falls_during_em_in_any_level(points: np.ndarray) -> None:
    tree = grown(points)
    assert len(tree.levels) >= 2
    for record in tree.history:
        assert len(record) > 1 and np.diff(record).min() > -1e-9 and record[-1] > record[0]


def test_one_level_agrees_with_scikit_learn_from_the_same_start() -> None:
    points = lumpy(2000)
    how = GROWTH._replace(levels=1, floor=1e-6, iterations=16)
    first = hgmm.fit_tree(torch.as_tensor(points), how._replace(iterations=1)).levels[0]
    level = hgmm.fit_tree(torch.as_tensor(points), how).levels[0]
    start = (first.axes / first.variance[:, None, :]) @ first.axes.transpose(1, 2)
    other = GaussianMixture(
        8,
        reg_covar=0,
        tol=0,
        max_iter=15,
        means_init=first.mean,
        weights_init=first.log_weight.exp(),
        precisions_init=start,
    )
    with pytest.warns(Warning, match="did not converge"):
        other.fit(points)
    assert np.allclose(level.mean, other.means_, atol=1e-8)
    assert np.allclose(level.log_weight.exp(), other.weights_, atol=1e-8)
    covariance = (level.axes * level.variance[:, None, :]) @ level.axes.transpose(1, 2)
    assert np.allclose(covariance, other.covariances_, atol=1e-8)


def test_coefficients_are_logarithms_of_weighted_densities() -> None:
    points = lumpy(500)
    level = grown(points).levels[0]
    for blur in (0.0, 0.2):
        log_densities = level.coefficients(blur) @ hgmm.monomials(torch.as_tensor(points[:20])).T
        for k in range(8):
            covariance = (level.axes[k] * level.variance[k]) @ level.axes[k].T + blur**2 * torch.eye(3)
            expected = multivariate_normal(level.mean[k].numpy(), covariance.numpy()).logpdf(points[:20])
            assert np.allclose(log_densities[k], expected + float(level.log_weight[k]))


def test_few_and_many_components_are_evaluated_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.as_tensor(lumpy(2000))
    tree = grown(lumpy(4000))
    coefficients = [level.coefficients() for level in tree.levels]
    dense = hgmm.descend(tree.levels, coefficients, points)
    monkeypatch.setattr(hgmm, "_DENSE", 0)
    gathered = hgmm.descend(tree.levels, coefficients, points)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(dense, gathered, strict=True))


def test_nodes_that_are_flat_or_have_few_points_are_leaves() -> None:
    box = np.random.default_rng(0).uniform(-1, 1, size=(2000, 3))
    assert len(grown(box * [1, 1, 0], GROWTH._replace(flat=0.01)).levels) == 1
    assert len(grown(box, GROWTH._replace(flat=0.01)).levels) == 3
    assert len(grown(box, GROWTH._replace(least=2000)).levels) == 1
    tree = grown(box)
    for level, below in zip(tree.levels, tree.levels[1:], strict=False):
        children = below.log_weight.exp().view(-1, 8).sum(dim=1)
        assert torch.allclose(children, level.open.double())


def test_seeds_turn_with_the_points() -> None:
    points = torch.as_tensor(lumpy(400))
    node = torch.as_tensor(np.arange(400) % 3)
    turned = points @ torch.as_tensor(turn(70)).T
    assert torch.equal(hgmm.seeds(points, node, 3), hgmm.seeds(turned, node, 3))
    assert len(hgmm.seeds(points, node, 3).unique()) == 8


def test_a_step_is_the_least_squares_step_along_principal_axes() -> None:
    tree = grown(lumpy(800), GROWTH._replace(levels=1))
    level, points = tree.levels[0], torch.as_tensor(lumpy(50, 3) @ turn(5).T)
    bound, _ = hgmm.descend(tree.levels, [level.coefficients()], points)
    share, _ = hgmm.shares((level.coefficients() @ hgmm.monomials(points).T).T)
    rows, sides = [], []
    for p, weights in zip(points.numpy(), share.numpy(), strict=True):
        for k in range(8):
            for a in range(3):
                n = level.axes[k, :, a].numpy()
                w = np.sqrt(weights[k] / float(level.variance[k, a]))
                rows.append(w * np.hstack([np.cross(p, n), n]))
                sides.append(w * n @ (level.mean[k].numpy() - p))
    expected = np.linalg.lstsq(np.array(rows), np.array(sides), rcond=None)[0]
    assert np.allclose(hgmm.newton_step(points, bound, 0.0), expected, atol=1e-8)


@pytest.mark.parametrize("blur", [0.0, 0.2])
def test_an_alignment_has_converged_only_if_its_last_step_was_small_and_without_blur(blur: float) -> None:
    points = lumpy(600)
    tree, start = grown(points), torch.eye(4, dtype=torch.float64)
    moved = torch.as_tensor(points @ turn(8).T + [0.02, 0.0, -0.01])
    how = hgmm.SearchParameters(blur=blur, floor=0.02, outliers=0.1, iterations=200, tolerance=1e-4, damping=1e-3)
    last = hgmm.align(tree, moved, start, how)
    assert last.converged and 3 < last.iterations < 200 and 0.5 < last.share <= 1
    apart = last.T[:3, :3].numpy() @ turn(8)
    assert np.rad2deg(Rotation.from_matrix(apart).magnitude()) < 2
    for iterations in range(last.iterations):
        early = hgmm.align(tree, moved, start, how._replace(iterations=iterations))
        assert early.iterations == iterations and not early.converged
    same = hgmm.align(tree, moved, start, how._replace(iterations=last.iterations))
    assert same.converged and torch.equal(same.T, last.T)
