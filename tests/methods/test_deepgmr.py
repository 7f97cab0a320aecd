"""DeepGMR by its properties, and against float64."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch

from methods.base import NoSolution
from methods.core.registry import MethodRegistry
from methods.deepgmr import DeepGMR
from methods.learned.gmr import PRECISIONS
from methods.learned.weights import read_tensors
from methods.nn.gmr import GmrConfig, GmrNet
from tests.methods.clouds import blob, moved, pose


@pytest.mark.parametrize("seed", range(3))
def test_untrained_is_exact_on_clean_clouds(control: DeepGMR, seed: int) -> None:
    source, T = blob(256, seed), pose(seed)
    target = np.random.default_rng(seed).permutation(moved(T, source))
    control.begin(0)
    result = control.register(source, target)
    np.testing.assert_allclose(result, T, atol=2e-3)
    np.testing.assert_allclose(control.register(target, source) @ result, np.eye(4), atol=2e-3)
    assert set(control.scratch.stages) == {"features", "network", "solve"}


def test_the_control_sees_one_cloud_at_a_time(control: DeepGMR) -> None:
    """Its batch norms use the statistics of a cloud, not those of a pair of equal size, or of a batch of pairs."""
    clouds = [(blob(64, 2 * k), (1.5 + k) * blob(64, 2 * k + 1)) for k in range(2)]
    together = control.register_batch(*map(list, zip(*clouds, strict=True)))
    for (source, target), T in zip(clouds, together, strict=True):
        pair, net = control.normalise(source, target), control.state["net"]
        with torch.no_grad():
            gamma = control.assignments(pair.source, pair.target)
            expected = net.poses(gamma, (pair.source, pair.target))[0][0].numpy()
        np.testing.assert_allclose(T, pair.denormalise(expected), atol=1e-4)


def test_order_of_points_does_not_matter(control: DeepGMR) -> None:
    source, target = blob(200, 1), moved(pose(1), blob(150, 1))
    shuffled = control.register(np.random.default_rng(0).permutation(source), target)
    np.testing.assert_allclose(shuffled, control.register(source, target), atol=1e-3)


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-3, 0.0), (1.0, 1e4)])
def test_other_units_and_places(control: DeepGMR, scale: float, shift: float) -> None:
    source, T = blob(256, 5), pose(5)
    target = source.astype(np.float64) @ T[:3, :3].T + T[:3, 3]
    result = control.register((scale * source).astype(np.float32), scale * target + shift)  # type: ignore[arg-type]
    np.testing.assert_allclose(result[:3, :3], T[:3, :3], atol=5e-3)
    assert np.abs(result[:3, 3] - scale * T[:3, 3] - shift).max() < 5e-3 * scale


@pytest.mark.parametrize(
    ("cloud", "why"),
    [
        (np.zeros((0, 3)), "0 points"),
        (blob(20), "need 21"),
        (np.full((50, 3), np.nan), "not finite"),
        (np.ones((50, 3)), "equal"),
    ],
)
def test_no_solution(control: DeepGMR, cloud: np.ndarray, why: str) -> None:
    with pytest.raises(NoSolution, match=why):
        control.register(cloud.astype(np.float32), cloud.astype(np.float32))


def in_float64(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The pose by the same weights, with every layer as trained, in float64."""
    from methods.learned.weights import WEIGHTS_FOLDER

    file = WEIGHTS_FOLDER / "deepgmr_shapes40_noisy.safetensors"
    net = GmrNet(GmrConfig())
    net.load_state_dict(read_tensors(file, net.state_dict()))
    net = net.double().eval()
    clouds = [torch.from_numpy(x.astype(np.float64))[None] for x in (source, target)]
    with torch.no_grad():
        return net.poses((net(net.features(clouds[0])), net(net.features(clouds[1]))), tuple(clouds))[0][0].numpy()


@pytest.mark.parametrize("n", [128, 1000, 8192])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_fast_is_float64_on_clean_clouds(trained: dict[str, DeepGMR], n: int, precision: str) -> None:
    source, T = blob(n, 3), pose(3)
    result = trained[precision].register(source, np.random.default_rng(0).permutation(moved(T, source)))
    np.testing.assert_allclose(result, T, atol=1e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fast_is_float64_on_noisy_clouds(trained: dict[str, DeepGMR], precision: str) -> None:
    draw = np.random.default_rng(1)
    for seed in range(3):
        source = blob(500, seed)
        target = (moved(pose(seed), source) + draw.normal(scale=0.01, size=(500, 3))).astype(np.float32)[:450]
        expected, apart = in_float64(source, target), {"float32": 1e-4, "bfloat16": 5e-3, "int8": 2e-2}[precision]
        np.testing.assert_allclose(trained[precision].register(source, target), expected, atol=apart)


def test_collinear_and_duplicate_clouds_do_not_crash(control: DeepGMR) -> None:
    for cloud in (np.outer(np.linspace(-1, 1, 60), [1, 0, 0]), np.repeat(blob(12), 5, axis=0)):
        T = control.register(cloud.astype(np.float32), cloud.astype(np.float32))
        np.testing.assert_allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-6)


CHANGED = {
    "deepgmr": {},
    "deepgmr_untrained": {},
    "deepgmr_j16": {},
    "deepgmr_j4": {"components": 4},
    "deepgmr_j8": {"components": 8},
    "deepgmr_j32": {"components": 32},
    "deepgmr_xyz": {"features": "xyz"},
    "deepgmr_rmse_loss": {"loss": "rmse"},
    "deepgmr_width256": {"local": (64, 128, 256, 256)},
    "deepgmr_width512": {"local": (64, 128, 256, 512)},
    "deepgmr_printed": {"centring": "printed"},
    "deepgmr_k10": {"k": 10},
    "deepgmr_k40": {"k": 40},
    "deepgmr_k64": {"k": 64, "loss": "rmse"},
}
"""What differs from the paper's configuration, by the name of the method."""


@pytest.mark.parametrize("name", CHANGED)
def test_an_ablation_changes_what_its_name_says(name: str) -> None:
    entry = MethodRegistry().entries[name]
    paper = {"features": "rri", "k": 20, "local": (64, 128, 256, 1024), "head": (512, 256, 128), "components": 16}
    paper |= {"centring": "exact", "loss": "mse", "symmetric": False}
    assert asdict(entry.cls.network().config) == paper | CHANGED[name]
    assert entry.cls.trained == ("deepgmr" if name == "deepgmr_untrained" else name)
    assert entry.facts.in_all == (name in ("deepgmr", "deepgmr_untrained"))
