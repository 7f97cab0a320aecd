"""PointNetLK's network: motions, Jacobian, alignment, loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from methods.nn.lk import LkConfig, LkNet, align, exponential, inverse, jacobian
from methods.nn.matching import moved
from tests.methods.clouds import pose, tensor_pair

TINY = LkConfig(widths=(16, 16, 64), iterations=8)


def turned(degrees: float, shift: float = 0.0, seed: int = 0) -> torch.Tensor:
    """A motion (1, 4, 4) about a random axis."""
    draw = np.random.default_rng(seed)
    axis, way = (v / np.linalg.norm(v) for v in draw.normal(size=(2, 3)))
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(np.deg2rad(degrees) * axis).as_matrix()
    T[:3, 3] = shift * way
    return torch.from_numpy(T)[None]


def smooth(points: torch.Tensor) -> torch.Tensor:
    """A smooth global feature (B, 40): means over the points of waves in fixed directions."""
    waves = torch.randn(3, 20, generator=torch.Generator().manual_seed(1), dtype=points.dtype)
    phase = points @ waves
    return torch.cat([phase.sin().mean(dim=1), phase.cos().mean(dim=1)], dim=1)


def test_the_exponential_is_scipy_s() -> None:
    twist = np.random.default_rng(0).normal(size=(4, 6))
    for ours, (a, b, c, *v) in zip(exponential(torch.from_numpy(twist)).numpy(), twist, strict=True):
        M = np.array([[0, -c, b, v[0]], [c, 0, -a, v[1]], [-b, a, 0, v[2]], [0, 0, 0, 0]])
        np.testing.assert_allclose(ours, expm(M), atol=1e-12)
        np.testing.assert_allclose(ours[:3, :3], Rotation.from_rotvec([a, b, c]).as_matrix(), atol=1e-12)


def test_the_inverse_is_the_inverse() -> None:
    T = torch.from_numpy(np.stack([pose(0), pose(1)]))
    torch.testing.assert_close(inverse(T) @ T, torch.eye(4, dtype=T.dtype).expand(2, 4, 4), atol=1e-12, rtol=0)


def test_the_jacobian_is_autograd_s() -> None:
    x = tensor_pair(30)[0].double()

    def after(twist: torch.Tensor) -> torch.Tensor:
        return smooth(moved(exponential(-twist), x))[0]

    exact = torch.autograd.functional.jacobian(after, torch.zeros(1, 6, dtype=torch.float64))[:, 0]  # type: ignore[no-untyped-call]
    for step, close in ((1e-2, 5e-2), (1e-5, 1e-4)):
        ours = jacobian(smooth, x, smooth(x), step)[0]
        torch.testing.assert_close(ours, exact, atol=close, rtol=0)


def test_the_jacobian_of_the_network_is_autograd_s() -> None:
    net, x = LkNet(TINY).double(), tensor_pair(30)[0].double()

    def after(twist: torch.Tensor) -> torch.Tensor:
        return net.feature(moved(exponential(-twist), x))[0]

    exact = torch.autograd.functional.jacobian(after, torch.zeros(1, 6, dtype=torch.float64))[:, 0]  # type: ignore[no-untyped-call]
    ours = jacobian(net.feature, x, net.feature(x), 1e-6)[0]
    torch.testing.assert_close(ours, exact, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("degrees", [5.0, 20.0, 35.0])
def test_a_smooth_feature_is_aligned_exactly(degrees: float) -> None:
    source = tensor_pair(80)[0][:1].double()
    T = turned(degrees, 0.05)
    alignment = align(smooth, source, moved(T, source), 20, 1e-4, None)
    torch.testing.assert_close(alignment.T, T, atol=1e-6, rtol=0)
    assert alignment.residual.abs().max() < 1e-6


def test_it_starts_from_where_it_is_told() -> None:
    source = tensor_pair(80)[0][:1].double()
    T, near = turned(150.0, 0.1), turned(10.0, 0.02, seed=1)
    target = moved(T, source)
    torch.testing.assert_close(align(smooth, source, target, 20, 1e-4, near @ T).T, T, atol=1e-6, rtol=0)


def test_a_sphere_s_turn_is_left_alone() -> None:
    """Where no turn changes the feature the step stays finite."""
    radial = lambda x: x.square().sum(dim=2).mean(dim=1, keepdim=True).expand(-1, 9)  # noqa: E731
    x = tensor_pair(40)[0].double()
    alignment = align(radial, x, x.clone(), 5, 1e-4, None)
    assert torch.isfinite(alignment.T).all() and (alignment.T - torch.eye(4)).abs().max() < 1e-3


def test_even_an_untrained_network_finds_a_small_turn() -> None:
    net = LkNet(LkConfig(widths=(32, 64, 256)))
    source = tensor_pair(300)[0][:1]
    T = turned(8.0, 0.3)
    estimates = net.estimate(net.prepare(source, source), source, moved(T, source)).T
    apart = np.rad2deg(Rotation.from_matrix((estimates[0, :3, :3].mT @ T[0, :3, :3]).detach().numpy()).magnitude())
    assert apart < 1.0


def test_the_loss_is_the_motion_s_and_the_feature_s() -> None:
    net, (source, target) = LkNet(TINY), tensor_pair()
    estimates = net.estimate(net.prepare(source, target), source, target)
    T = torch.from_numpy(np.stack([pose(0), pose(1)]))
    apart = torch.linalg.inv(estimates.T) @ T - torch.eye(4)
    by_hand = apart.square().sum(dim=(1, 2)).mean() + estimates.residual.square().mean()
    assert net.loss(estimates, T).item() == pytest.approx(by_hand.item(), rel=1e-5)
    net.loss(estimates, T).backward()
    idle = [name for name, p in net.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert not idle
