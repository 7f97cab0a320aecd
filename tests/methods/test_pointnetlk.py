"""PointNetLK as a method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from bench.conformance.checks import CHECKS
from common.errors import InputError
from methods.nn.lk import LkConfig, LkNet
from methods.pointnetlk import PointNetLK, PointNetLKSmall
from tests.catalog import build
from tests.methods.clouds import pose, tensor_pair
from tests.methods.weight_files import write_weights


def turned(degrees: float, shift: float = 0.0, seed: int = 0) -> torch.Tensor:
    """A motion (1, 4, 4) about a random axis."""
    draw = np.random.default_rng(seed)
    axis, way = (v / np.linalg.norm(v) for v in draw.normal(size=(2, 3)))
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(np.deg2rad(degrees) * axis).as_matrix()
    T[:3, 3] = shift * way
    return torch.from_numpy(T)[None]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> PointNetLKSmall:
    torch.manual_seed(0)
    net = LkNet(LkConfig(widths=(32, 64, 256)))
    file = write_weights(tmp_path_factory.mktemp("w") / "w.safetensors", net, "pointnetlk_small", sampler="euler45")
    method = build(f"pointnetlk_small[weights={file}]")
    method.setup("cpu", 0, "shapes40")
    assert isinstance(method, PointNetLKSmall)
    return method


@pytest.mark.parametrize("name", list(CHECKS))
def test_conforms_even_untrained(tiny: PointNetLKSmall, name: str) -> None:
    CHECKS[name](tiny)  # raises CheckFailed


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_a_start_between_the_clouds_as_given(tiny: PointNetLKSmall, scale: float) -> None:
    source = scale * (tensor_pair(300)[0][0].numpy() + 2.0)
    T = pose(1)
    T[:3, 3] *= scale
    target = source @ T[:3, :3].T + T[:3, 3]
    start = T @ turned(5.0)[0].numpy()
    result = tiny.register(source, target, start)
    np.testing.assert_allclose(result[:3, :3], T[:3, :3], atol=0.02)
    assert np.abs((source @ result[:3, :3].T + result[:3, 3]) - target).max() < 0.05 * scale


def test_it_stands_after_a_plus_and_the_sizes_are_the_paper_s() -> None:
    assert build("fgr+pointnetlk_small").kind == "global"
    net = PointNetLK.network()
    assert [m.out_features for m in net.layers if isinstance(m, torch.nn.Linear)] == [64, 64, 64, 128, 1024]
    assert net.config.iterations == 10
    with pytest.raises(InputError, match="takes no initial pose"):
        build("fgr+dcp_small")
