"""The compute blocks against SciPy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from methods.nn.gmm import Mixture, align, kabsch, mixture, point_loss, pose_loss, rotation_of
from tests.methods.clouds import blob, pose


def test_mixture_is_the_weighted_moments() -> None:
    x = torch.from_numpy(blob(100).astype(np.float64)) + 3
    gamma = torch.rand(100, 5, dtype=torch.float64).softmax(-1)
    gaussians = mixture(gamma[None], x[None])
    for j in range(5):
        w = gamma[:, j].numpy()
        mean = np.average(x.numpy(), axis=0, weights=w)
        scatter = np.cov(x.numpy().T, aweights=w, ddof=0)
        assert gaussians.pi[0, j].item() == pytest.approx(w.mean())
        np.testing.assert_allclose(gaussians.mu[0, j], mean, atol=1e-12)
        assert gaussians.sigma2[0, j].item() == pytest.approx(np.trace(scatter) / 3)


def random_mixtures(seed: int) -> tuple[Mixture, Mixture]:
    draw = np.random.default_rng(seed)

    def one() -> Mixture:
        parts = draw.dirichlet(np.ones(8)), draw.normal(size=(8, 3)), draw.uniform(0.01, 0.3, 8)
        return Mixture(*(torch.from_numpy(p)[None] for p in parts))

    return one(), one()


@pytest.mark.parametrize("seed", range(4))
def test_align_is_the_optimum_scipy_finds(seed: int) -> None:
    source, target = random_mixtures(seed)
    w = (source.pi / target.sigma2)[0].numpy()
    mu_s, mu_t = source.mu[0].numpy(), target.mu[0].numpy()

    def cost(x: np.ndarray) -> float:
        apart = Rotation.from_rotvec(x[:3]).apply(mu_s) + x[3:] - mu_t
        return float(w @ (apart**2).sum(1))

    T = align(source, target)[0].numpy()
    ours = cost(np.concatenate([Rotation.from_matrix(T[:3, :3]).as_rotvec(), T[:3, 3]]))
    starts = [np.concatenate([Rotation.random(random_state=s).as_rotvec(), mu_t.mean(0)]) for s in range(12)]
    best = min(minimize(cost, start, method="BFGS").fun for start in starts)
    assert ours == pytest.approx(best, rel=1e-6)
    printed = align(source, target, "printed")[0].numpy()
    assert cost(np.concatenate([Rotation.from_matrix(printed[:3, :3]).as_rotvec(), printed[:3, 3]])) > ours


def test_kabsch_is_scipy_s_align_vectors() -> None:
    draw = np.random.default_rng(1)
    a, b, w = draw.normal(size=(10, 3)), draw.normal(size=(10, 3)), draw.dirichlet(np.ones(10))
    theirs = Rotation.align_vectors(b - w @ b, a - w @ a, weights=w)[0].as_matrix()
    weight = torch.from_numpy(w)[None]
    T = kabsch(torch.from_numpy(a)[None], torch.from_numpy(b)[None], weight, weight)[0].numpy()
    np.testing.assert_allclose(T[:3, :3], theirs, atol=1e-9)
    np.testing.assert_allclose(T[:3, 3], w @ b - theirs @ (w @ a), atol=1e-9)


def test_rotation_is_proper_even_for_a_reflection() -> None:
    M = torch.diag(torch.tensor([-2.0, 1.0, 0.5], dtype=torch.float64))[None]
    R = rotation_of(M)
    assert torch.linalg.det(R).item() == pytest.approx(1)
    best = max(np.trace(Rotation.random(random_state=s).as_matrix().T @ M[0].numpy()) for s in range(500))
    assert torch.trace(R[0].T @ M[0]).item() >= best


def test_gradients_of_the_blocks_against_finite_differences() -> None:
    x, y = (torch.from_numpy(blob(12, s).astype(np.float64))[None] for s in (0, 1))
    T_true = torch.from_numpy(pose(0))[None]

    def through(scores_x: torch.Tensor, scores_y: torch.Tensor) -> torch.Tensor:
        source, target = mixture(scores_x.softmax(-1), x), mixture(scores_y.softmax(-1), y)
        return pose_loss(align(source, target), align(target, source), T_true[:, None]).mean()

    scores = [torch.randn(1, 12, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(through, scores)
    assert torch.autograd.gradcheck(rotation_of, torch.randn(5, 3, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("means", [torch.eye(3)[[0, 1, 2, 0]], torch.ones(4, 3), torch.eye(3)[[0, 0, 1, 1]]])
def test_gradients_stay_finite_where_the_pose_is_ambiguous(means: torch.Tensor) -> None:
    mu = means.double()[None].requires_grad_()
    weight = torch.full((1, 4), 0.25, dtype=torch.float64)
    kabsch(mu, mu.detach() * 2, weight, weight).square().sum().backward()
    assert mu.grad is not None and torch.isfinite(mu.grad).all()


def test_losses_are_those_of_the_paper_for_each_true_pose() -> None:
    """‖T T*⁻¹ - I‖² + ‖T̂ T* - I‖² (Eq. 18), and the root of the mean square distance of the moved points."""
    T, back = (np.stack([pose(s), pose(s + 1)]) for s in (0, 10))
    true = np.stack([[pose(20 + 3 * b + g) for g in range(3)] for b in range(2)])
    points = np.stack([blob(30, 5), blob(30, 6)]).astype(np.float64)
    tensors = [torch.from_numpy(x) for x in (T, back, true, points)]
    ours, distances = pose_loss(*tensors[:3]), point_loss(tensors[0], *tensors[2:])
    assert ours.shape == distances.shape == (2, 3)
    for b, g in np.ndindex(2, 3):
        forward, backward = T[b] @ np.linalg.inv(true[b, g]) - np.eye(4), back[b] @ true[b, g] - np.eye(4)
        assert ours[b, g].item() == pytest.approx((forward**2).sum() + (backward**2).sum())
        one, other = (points[b] @ P[:3, :3].T + P[:3, 3] for P in (T[b], true[b, g]))
        assert distances[b, g].item() == pytest.approx(np.sqrt(((one - other) ** 2).sum(axis=1).mean()))
    assert 0 < point_loss(tensors[2][:, 0], tensors[2], tensors[3])[0, 0].item() < 1e-5
