"""Precision, batches and mixtures of the DeepGMR methods."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.errors import InputError
from methods.base import NoSolution
from methods.deepgmr import DeepGMR
from methods.learned import gmr
from methods.learned.gmr import PRECISIONS, usable_precision
from tests.methods.clouds import blob, moved, pose


def test_a_batch_is_its_pairs(trained: dict[str, DeepGMR]) -> None:
    sources = [blob(300, seed) for seed in range(6)]
    for m in (300, 260):
        targets = [moved(pose(seed), x)[:m] for seed, x in enumerate(sources)]
        targets[2] = np.full((m, 3), np.nan, dtype=np.float32)
        targets[4] = (1e3 * targets[4]).astype(np.float32)
        method = trained["int8"]
        answers = method.register_batch(sources, targets)
        assert isinstance(answers[2], NoSolution) and "not finite" in str(answers[2])
        for i in (0, 1, 3, 4, 5):
            alone = method.register(sources[i], targets[i])
            np.testing.assert_allclose(answers[i], alone, atol=1e-3 * max(1, np.abs(alone).max()))
        torch.set_num_threads(2)
        twice = method.register_batch(sources, targets)
        torch.set_num_threads(1)
        np.testing.assert_allclose(np.stack(answers[:2]), np.stack(twice[:2]), atol=1e-6)  # type: ignore[arg-type]


def test_the_precision_is_noted(trained: dict[str, DeepGMR]) -> None:
    for precision, method in trained.items():
        assert method.scratch.notes["precision"] == usable_precision(precision, "cpu")
    assert usable_precision("float32", "cpu") == "float32" and usable_precision("bfloat16", "cpu") != "int8"
    with pytest.raises(InputError, match="int9"):
        DeepGMR(precision="int9")


@pytest.mark.parametrize(
    ("int8", "bfloat16"), [(False, ()), (True, ()), (False, ("amx_bf16",)), (True, ("avx512_bf16",))]
)
def test_the_precision_is_the_narrowest_allowed_that_the_processor_has(
    monkeypatch: pytest.MonkeyPatch, int8: bool, bfloat16: tuple[str, ...]
) -> None:
    monkeypatch.setattr("methods.nn.inference.can_quantise", lambda: int8)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(("avx2", *bfloat16), True))
    wide = "bfloat16" if bfloat16 else "float32"
    expected = {"int8": "int8" if int8 else wide, "bfloat16": wide, "float32": "float32"}
    assert {name: usable_precision(name, "cpu") for name in PRECISIONS} == expected


@pytest.mark.parametrize("capability", [(6, 1), (7, 5), (8, 0), (9, 0), (10, 3)])
def test_on_a_gpu_the_precision_is_bfloat16_from_capability_8_on(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: asked.append(device) or capability)
    wide = "bfloat16" if capability >= (8, 0) else "float32"
    expected = {"int8": wide, "bfloat16": wide, "float32": "float32"}
    assert {name: usable_precision(name, "cuda:1") for name in PRECISIONS} == expected
    assert set(asked) == {"cuda:1"}


def test_the_control_is_computed_in_float32_on_any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gmr, "usable_precision", lambda *_: "bfloat16")
    method = DeepGMR(untrained=True)
    method.setup("cpu", 0, "shapes40")
    assert method.scratch.notes["precision"] == "float32"


def test_setup_is_deterministic_and_leaves_the_global_generator(control: DeepGMR) -> None:
    before = torch.random.get_rng_state()
    again = DeepGMR(untrained=True)
    again.setup("cpu", 99, "modelnet40")
    assert torch.equal(before, torch.random.get_rng_state())
    source, target = blob(100, 2), blob(100, 3)
    assert (again.register(source, target) == control.register(source, target)).all()


def test_the_gaussians_shown_are_those_of_the_shares_and_move_with_the_cloud() -> None:
    method = DeepGMR(untrained=True)
    method.setup("cpu", 0, "shapes40")
    cloud, T = 3.0 * blob(300, 0) + 7.0, pose(1)
    moved = (cloud @ T[:3, :3].T + T[:3, 3]).astype(np.float32)
    method.begin(0)
    plain, other = method.gaussians(cloud.astype(np.float32), moved)
    assert plain.shares.shape == (300, 16) and np.allclose(plain.shares.sum(axis=1), 1)
    assert plain.weights == pytest.approx(plain.shares.mean(axis=0))
    means = plain.shares.T @ cloud / plain.shares.sum(axis=0)[:, None]
    assert np.allclose(plain.means, means, atol=1e-3)
    apart = ((cloud[:, None] - means[None]) ** 2).sum(axis=2)
    variances = (plain.shares * apart).sum(axis=0) / plain.shares.sum(axis=0) / 3
    assert np.allclose(plain.radii, np.sqrt(variances), atol=1e-2)
    assert np.allclose(other.means, plain.means @ T[:3, :3].T + T[:3, 3], atol=1e-2)


@pytest.mark.parametrize("untrained", [False, True])
@pytest.mark.parametrize("features", ["rri", "xyz"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_setup_converts_the_backbone_and_notes_what_it_uses(
    monkeypatch: pytest.MonkeyPatch, precision: str, features: str, untrained: bool
) -> None:
    """The implementation of the features counts for rotation-invariant ones alone."""
    done: list[str] = []

    class Net(torch.nn.Module):
        config = SimpleNamespace(features=features, k=7)
        backbone = SimpleNamespace(quantise=lambda: done.append("int8"), to_bfloat16=lambda: done.append("bfloat16"))

    monkeypatch.setattr(gmr, "usable_precision", lambda narrowest, device: f"{narrowest}" if device == "cpu" else "")
    monkeypatch.setattr("methods.nn.rri.implementation", lambda device, k: f"{device} {k}")
    monkeypatch.setattr(gmr.GmrMethod, "network_for", lambda self, domain: Net())
    method = gmr.GmrMethod(precision=precision, untrained=untrained)
    method.begin(0)
    method.setup("cpu", 0, "d")
    used = "float32" if untrained else precision
    assert done == ([] if used == "float32" else [used]) and method.state["device"] == "cpu"
    assert method.scratch.notes == {"precision": used} | ({"features": "cpu 7"} if features == "rri" else {})
    assert not method.state["net"].training


def test_results_of_a_batch_belong_to_its_pairs_and_the_control_takes_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pair that is refused takes no pose; a pose that is not finite is a reason for that pair alone."""
    batches: list[int] = []

    def poses(self: gmr.GmrMethod, sources: list[torch.Tensor], targets: list[torch.Tensor]) -> np.ndarray:
        batches.append(len(sources))
        T = np.tile(np.eye(4), (len(sources), 1, 1))
        T[:, 0, 3] = [float(t.std() / s.std()) for s, t in zip(sources, targets, strict=True)]
        T[T[:, 0, 3] > 3] = np.nan
        return T

    monkeypatch.setattr(gmr.GmrMethod, "poses", poses)
    clouds = [blob(30, seed) for seed in range(5)]
    targets = [clouds[0], np.full_like(clouds[1], np.nan), 5 * clouds[2], clouds[3], 0.5 * clouds[4]]
    for untrained in (False, True):
        method = gmr.GmrMethod(untrained=untrained)
        method.state.update(net=SimpleNamespace(config=SimpleNamespace(least_points=3)), device="cpu")
        batches.clear()
        results = method.register_batch(clouds, targets)
        assert batches == ([1] * 4 if untrained else [4])
        kinds = [str(r) if isinstance(r, NoSolution) else "" for r in results]
        assert kinds == ["", "a coordinate is not finite", "the network's pose is not finite", "", ""]
        for row in (0, 3, 4):
            alone = method.register(clouds[row], targets[row])
            np.testing.assert_allclose(results[row], alone)
        assert not np.allclose(results[0], results[4])  # type: ignore[arg-type]
    batches.clear()
    assert len(gmr.GmrMethod._register_all(method, clouds[:1], targets[1:2])) == 1 and batches == []
    with pytest.raises(NoSolution, match="a coordinate is not finite"):
        method.register(clouds[0], targets[1])


def test_assignments_are_those_of_the_source_and_of_the_target() -> None:
    clouds = [torch.from_numpy(blob(n, seed))[None] for n, seed in ((30, 0), (40, 1))]
    method = gmr.GmrMethod()
    method.state["net"] = type("Net", (), {"features": lambda self, x: x + 1, "__call__": lambda self, x: 2 * x})()
    for found, cloud in zip(method.assignments(*clouds), clouds, strict=True):
        assert torch.equal(found, 2 * (cloud + 1))
