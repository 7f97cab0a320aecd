"""Weight files: round trip, faults, and the choice by domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from common.errors import InputError
from methods.base import Unavailable
from methods.deepgmr import DeepGMR
from methods.learned.weights import Card, choose, read_card, save
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
