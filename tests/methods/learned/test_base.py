"""Weights and normalisation of every learned method, on DCP."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.errors import InputError
from methods.base import NoSolution, Unavailable
from methods.dcp import Dcp, DcpSmall, DcpSmallEuler45
from methods.learned.weights import choose
from methods.nn.dcp import DcpConfig, DcpNet
from tests.catalog import build
from tests.methods.clouds import tensor_pair
from tests.methods.weight_files import write_weights

TINY = DcpConfig(k=5, widths=(8, 12), features=16, heads=2, inner=24)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> DcpSmall:
    torch.manual_seed(0)
    file = write_weights(tmp_path_factory.mktemp("w") / "w.safetensors", DcpNet(TINY), "dcp_small")
    method = build(f"dcp_small[weights={file}]")
    method.setup("cpu", 0, "shapes40")
    assert isinstance(method, DcpSmall)
    return method


def test_the_pose_is_denormalised_to_the_original_clouds(tiny: DcpSmall) -> None:
    """Moving and scaling both clouds moves and scales the answer."""
    pair = [c[0].numpy() - c[0].numpy().mean(0) for c in tensor_pair(60, 60)]
    source, target = (c / max(np.linalg.norm(x, axis=1).max() for x in pair) for c in pair)  # what others are scaled to
    plain = tiny.register(source, target)
    far = tiny.register(100 * source + 7, 100 * target - 30)
    np.testing.assert_allclose(far[:3, :3], plain[:3, :3], atol=1e-2)
    np.testing.assert_allclose(far[:3, 3], 100 * plain[:3, 3] - 30 - far[:3, :3] @ np.full(3, 7.0), atol=1.0)


def test_the_file_of_the_weights_is_noted_with_its_digest(tiny: DcpSmall) -> None:
    file = Path(tiny.weights)
    notes = {"weights": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    tiny.begin(0)
    tiny.setup("cpu", 0, "shapes40")
    assert float(torch.tensor(1e-40) * torch.tensor(1.0)) == 0, "denormal numbers are flushed; they are slow"
    assert tiny.scratch.notes == notes and tiny.state["weights"] == file.name and not tiny.state["net"].training


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "dcp"}, "field 'method' is 'dcp', not 'dcp_small'"),
        ({"config": {"k": 5, "other": 1}}, "field 'config.other' is unknown"),
    ],
)
def test_cards_of_other_methods_and_versions_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    card = SimpleNamespace(**({"method": "dcp_small", "config": {"k": 5, "widths": [8, 12]}} | change))
    with pytest.raises(InputError, match=message):
        DcpSmall.checked_config(tmp_path, card)
    card = SimpleNamespace(method="dcp_small", config={"k": 5, "widths": [8, 12]})
    assert DcpSmall.checked_config(tmp_path, card) == {"k": 5, "widths": (8, 12)}


@pytest.mark.parametrize(("radius", "kept"), [(0.79, False), (0.81, True), (1.09, True), (1.11, False)])
def test_networks_on_coordinates_keep_the_sizes_of_their_training_objects(
    tiny: DcpSmall, radius: float, kept: bool
) -> None:
    cloud = np.concatenate([np.eye(3), -np.eye(3)]) * radius
    assert tiny.normalise(cloud, cloud).scale == pytest.approx(1.0 if kept else radius)


def test_no_solution_for_few_points(tiny: DcpSmall) -> None:
    with pytest.raises(NoSolution, match="need 5"):
        tiny.register(np.zeros((4, 3), np.float32), np.zeros((9, 3), np.float32))


def test_weights_of_another_size_are_another_method_s(tmp_path: Path) -> None:
    file = write_weights(tmp_path / "w.safetensors", DcpNet(TINY), "dcp_small")
    with pytest.raises(InputError, match="field 'method' is 'dcp_small', not 'dcp'"):
        Dcp.load(file)
    assert DcpSmall.load(file).config == TINY


def test_samplers_are_not_mixed_up(tmp_path: Path) -> None:
    usual = write_weights(tmp_path / "a.safetensors", DcpNet(TINY), "dcp_small")
    with pytest.raises(Unavailable, match=r"train dcp_small .*--sampler euler45"):
        choose("dcp_small", "shapes40", "noisy", tmp_path, DcpSmallEuler45.sampler)
    own = write_weights(tmp_path / "b.safetensors", DcpNet(TINY), "dcp_small", sampler="euler45")
    assert choose("dcp_small", "shapes40", "noisy", tmp_path, DcpSmallEuler45.sampler) == own
    assert choose("dcp_small", "shapes40", "noisy", tmp_path, DcpSmall.sampler) == usual


def test_without_weights_it_is_unavailable_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (DcpSmall, DcpSmallEuler45):  # their weights are part of the package
        cls.check_available()
    monkeypatch.setattr("methods.learned.base.WEIGHTS_FOLDER", tmp_path)
    for cls, hint in ((Dcp, "train dcp --dataset"), (DcpSmallEuler45, "train dcp_small .*--sampler euler45")):
        with pytest.raises(Unavailable, match=hint):
            cls.check_available()
