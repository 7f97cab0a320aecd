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
from methods.learned import base as module
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


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_is_refused_without_a_warning_and_no_pose_is_changed(tiny: DcpSmall) -> None:
    cloud = tensor_pair(60, 60)[0][0].numpy().astype(np.float64)
    for value in (np.nan, np.inf):
        for row in (0, 59):
            bad = cloud.copy()
            bad[row, 1] = value
            bad[row, 2] = -value
            for pair in ((bad, cloud), (cloud, bad)):
                with pytest.raises(NoSolution, match="a coordinate is not finite"):
                    tiny.normalise(*pair)
    pair, T = tiny.normalise(5 * cloud, cloud + 1), np.eye(4)
    moved = pair.denormalise(T)
    assert np.array_equal(T, np.eye(4)) and np.allclose(moved[:3, 3], 1 + cloud.mean(0) - 5 * cloud.mean(0))
    spoilt = T.copy()
    spoilt[1, 3] = np.nan
    with pytest.raises(NoSolution, match="the network's pose is not finite"):
        pair.denormalise(spoilt)


def test_weights_are_chosen_by_the_name_the_domain_and_what_they_were_trained_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple] = []
    (tmp_path / "w.safetensors").write_bytes(b"weights")
    monkeypatch.setattr(module, "choose", lambda *given: asked.append(given) or tmp_path / "w.safetensors")
    monkeypatch.setattr(DcpSmallEuler45, "load", classmethod(lambda cls, file: ("network", file)))
    method = DcpSmallEuler45(training="partial")
    method.begin(0)
    assert method.network_for("rooms/first3") == ("network", tmp_path / "w.safetensors")
    assert asked == [("dcp_small", "rooms/first3", "partial", module.WEIGHTS_FOLDER, "euler45")]
    digest = hashlib.sha256(b"weights").hexdigest()
    assert method.scratch.notes == {"weights": "w.safetensors", "sha256": digest}
    seen: list[tuple] = []
    monkeypatch.setattr(module, "available", lambda *given: seen.append(given) or {})
    with pytest.raises(Unavailable, match=r"train dcp_small --dataset shapes40 --condition noisy --sampler euler45$"):
        DcpSmallEuler45.check_available()
    assert seen == [("dcp_small", "euler45", module.WEIGHTS_FOLDER)]


def test_a_setup_leaves_the_global_generator_and_prepares_for_inference(tiny: DcpSmall) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    method = DcpSmall(weights=tiny.weights)
    method.setup("cpu", 0, "shapes40")
    assert torch.equal(before, torch.random.get_rng_state())
    assert not method.state["net"].training and method.state["device"] == "cpu"
    state, again = tiny.state["net"].state_dict(), method.state["net"].state_dict()
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_values_of_a_configuration_are_those_of_its_choices() -> None:
    config_type = type("Config", (), {"CHOICES": {"kind": ("a", "b")}, "__dataclass_fields__": {"kind": 1, "size": 2}})
    cls = type(
        "Net", (module.Trained,), {"trained": "m", "network_type": lambda: SimpleNamespace(config_type=config_type)}
    )
    for config, says in (
        ({"kind": "a"}, None),
        ({"kind": "b", "size": [1, 2]}, None),
        ({"size": 3}, None),
        ({"kind": "c"}, "field 'config.kind' is 'c', not a or b"),
        ({"z": 1, "y": 2}, "field 'config.y' is unknown"),
    ):
        card = SimpleNamespace(method="m", config=config)
        if says:
            with pytest.raises(InputError, match=says):
                cls.checked_config(Path("w"), card)
        else:
            tuples = {name: tuple(v) if isinstance(v, list) else v for name, v in config.items()}
            assert cls.checked_config(Path("w"), card) == tuples
