"""Weight files: round trip, faults, and the choice by domain."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from common.errors import InputError
from methods.base import Unavailable
from methods.deepgmr import DeepGMR
from methods.learned import weights as module
from methods.learned.weights import Card, choose, read_card, read_tensors, save
from methods.nn.gmr import GmrConfig, GmrNet
from tests.methods.clouds import blob, moved, pose

SMALL = GmrConfig(k=8, local=(16, 32), head=(24, 16), components=6)

PROVENANCE: dict[str, Any] = {
    "dataset": "modelnet40",
    "condition": "noisy",
    "sampler": "axis_angle",
    "dataset_categories": ["bed", "airplane", "cup", "door"],
    "categories": ["bed", "airplane", "cup", "door"],
}


def write(file: Path, config: GmrConfig = SMALL, method: str = "deepgmr", **provenance: Any) -> Path:
    from dataclasses import asdict

    save(file, GmrNet(SMALL).state_dict(), Card(method, asdict(config), PROVENANCE | provenance))
    return file


def test_weights_come_back(tmp_path: Path) -> None:
    file = write(tmp_path / "w.safetensors")
    method = DeepGMR(weights=str(file))
    method.setup("cpu", 0, "anything")
    assert method.state["weights"] == "w.safetensors" and method.scratch.notes["weights"] == "w.safetensors"
    assert len(method.scratch.notes["sha256"]) == 64
    assert DeepGMR.load(file).config == SMALL
    result = method.register(blob(64), moved(pose(0), blob(64)))
    np.testing.assert_allclose(result, pose(0), atol=5e-3)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"w\.pt: a pickle .*save_file"):
        read_card(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.unlink(), "no such weight file"),
        (lambda f: f.write_bytes(f.read_bytes()[:2000]), "not a whole safetensors"),
        (lambda f: f.write_text("hello"), "not a whole safetensors"),
        (lambda f: write(f, method="dcp"), "field 'method' is 'dcp'"),
        (lambda f: write(f, GmrConfig(features="fpfh", k=8)), "field 'config.features' is 'fpfh'"),
        (
            lambda f: write(f, GmrConfig(**{**vars(SMALL), "k": 20})),
            r"backbone.local.0.linear.weight' is \(16, 32\), .*\(16, 80\)",
        ),
        (lambda f: write(f, GmrConfig(**{**vars(SMALL), "components": 16})), "backbone.last.bias"),
        (
            lambda f: write(f, GmrConfig(**{**vars(SMALL), "head": (24, 16, 8)})),
            r"head.1.linear.weight' is missing, the network wants",
        ),
    ],
)
def test_wrong_weight_files(tmp_path: Path, spoil: Any, message: str) -> None:
    file = write(tmp_path / "w.safetensors")
    spoil(file)
    with pytest.raises(InputError, match=message) as caught:
        DeepGMR.load(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_without_a_card(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(GmrNet(SMALL).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="'card' is missing"):
        DeepGMR.load(tmp_path / "w.safetensors")


def test_weights_can_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    file = write(tmp_path / "w.safetensors")
    (tmp_path / "usual").touch()
    assert file.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_weights_by_domain(tmp_path: Path) -> None:
    own, embedded = write(tmp_path / "a.safetensors"), write(tmp_path / "b.safetensors", dataset="shapes40")
    assert choose("deepgmr", "modelnet40", "noisy", tmp_path) == own
    assert choose("deepgmr", "shapes40", "noisy", tmp_path) == embedded
    assert choose("deepgmr", "icl_nuim", "noisy", tmp_path) == embedded
    with pytest.raises(Unavailable, match="--dataset modelnet40 --condition unseen"):
        choose("deepgmr", "modelnet40/first2", "noisy", tmp_path)
    half = write(tmp_path / "c.safetensors", condition="unseen", categories=["airplane", "bed"])
    assert choose("deepgmr", "modelnet40/first2", "noisy", tmp_path) == half
    assert choose("deepgmr", "modelnet40", "noisy", tmp_path) == own
    with pytest.raises(Unavailable, match="condition resampled"):
        choose("deepgmr", "modelnet40", "resampled", tmp_path)
    assert choose("deepgmr", "modelnet40/first2", "resampled", tmp_path) == half, (
        "what the message asks to train is taken"
    )


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin", ".t7"])
def test_every_ending_of_a_pickle_is_refused_with_the_command_that_converts_it(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"torch.load('w{suffix}', weights_only=True), 'w.safetensors')")):
        read_card(tmp_path / f"w{suffix}")


def test_matrices_are_rounded_to_float16_and_other_tensors_keep_their_bits(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    tensors = {
        "matrix": torch.randn(4, 3, generator=draw).T,
        "cube": torch.randn(2, 3, 4, generator=draw),
        "bias": torch.randn(5, generator=draw),
        "number": torch.tensor(3.1415927),
        "count": torch.tensor(2**40 + 1),
        "double": torch.randn(3, generator=draw, dtype=torch.float64),
    }
    file = tmp_path / "new" / "w.safetensors"
    card = Card("m", {"k": 5, "widths": [1, 2]}, {"dataset": "d"})
    save(file, tensors, card)
    assert read_card(file) == card and file.stat().st_size < 1000
    read = read_tensors(file, tensors)
    for name, tensor in tensors.items():
        expected = tensor.half() if name in ("matrix", "cube") else tensor
        assert torch.equal(read[name], expected.float() if expected.is_floating_point() else expected), name
    assert read["matrix"].dtype == torch.float32 and not torch.equal(read["matrix"], tensors["matrix"])


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("change", ["none", "fewer", "more", "shape"])
def test_tensors_are_those_of_the_network_or_of_a_part_of_it(tmp_path: Path, whole: bool, change: str) -> None:
    wanted = {"a": torch.zeros(2, 3), "b": torch.zeros(4)}
    stored = dict(wanted)
    if change == "fewer":
        del stored["a"]
    elif change == "more":
        stored["c"] = torch.zeros(1)
    elif change == "shape":
        stored["a"] = torch.zeros(3, 2)
    save(tmp_path / "w.safetensors", stored, Card("m", {}))
    message = {
        "fewer": "tensor 'a' is missing, the network wants (2, 3)",
        "more": "tensor 'c' is (1,), the network wants no such tensor",
        "shape": "tensor 'a' is (3, 2), the network wants (2, 3)",
    }.get(change)
    if message and (whole or change != "fewer"):
        with pytest.raises(InputError, match=re.escape(message)):
            read_tensors(tmp_path / "w.safetensors", wanted, whole)
    else:
        assert read_tensors(tmp_path / "w.safetensors", wanted, whole).keys() == stored.keys()
    if change == "fewer":
        with pytest.raises(InputError):
            read_tensors(tmp_path / "w.safetensors", wanted)


CATEGORIES = ["airplane", "bed", "cup", "door"]


@pytest.mark.parametrize("domain", ["modelnet40", "shapes40", "rooms", "modelnet40/first2", "rooms/first3"])
@pytest.mark.parametrize("training", ["noisy", "resampled"])
@pytest.mark.parametrize("seed", range(6))
def test_the_file_for_a_domain_is_the_best_of_the_candidates(
    monkeypatch: pytest.MonkeyPatch, domain: str, training: str, seed: int
) -> None:
    """Of files drawn at random: own data before `shapes40`, then more categories, then the name that comes first."""
    draw = np.random.default_rng(seed)
    cards = {}
    for number in range(int(draw.integers(0, 9))):
        cards[Path(f"{number}.safetensors")] = Card(
            "m" if draw.random() < 0.8 else "n",
            {},
            {
                "dataset": str(draw.choice(["modelnet40", "shapes40", "rooms"])),
                "condition": str(draw.choice(["noisy", "unseen", "resampled"])),
                "sampler": "axis_angle" if draw.random() < 0.8 else "haar",
                "dataset_categories": CATEGORIES[::-1],
                "categories": [str(name) for name in draw.permutation(CATEGORIES)[: draw.integers(1, 5)]],
            },
        )
    monkeypatch.setattr(module, "read_card", cards.__getitem__)
    folder = SimpleNamespace(glob=lambda pattern: list(cards)[::-1] if pattern == "*.safetensors" else [], name="w")
    dataset, _, part = domain.partition("/")
    rank = []
    for number, (file, card) in enumerate(cards.items()):
        facts = card.provenance
        own = facts["dataset"] == dataset
        fits = card.method == "m" and facts["sampler"] == "axis_angle" and (own or facts["dataset"] == "shapes40")
        unseen = facts["condition"] == "unseen" and (training == "noisy" or part)
        fits = fits and (facts["condition"] == training or unseen)
        allowed = CATEGORIES[: int(part[5:])] if part else CATEGORIES
        if fits and all(name in allowed for name in facts["categories"]):
            rank.append((own, len(facts["categories"]), -number, file))
    if rank:
        assert choose("m", domain, training, folder) == max(rank)[3]  # type: ignore[arg-type]
    else:
        command = f"bench.py train m --dataset {dataset} --condition {'unseen' if part else training}"
        with pytest.raises(Unavailable) as caught:
            choose("m", domain, training, folder)  # type: ignore[arg-type]
        assert str(caught.value) == f"no weights of m for {domain} in w/; train them: {command}"
        with pytest.raises(Unavailable, match=rf"{command} --sampler euler45$"):
            choose("m", domain, training, folder, "euler45")  # type: ignore[arg-type]
