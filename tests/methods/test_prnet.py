"""PRNet as a method."""

from __future__ import annotations

import pytest
import torch

from bench.conformance.checks import CHECKS
from methods.nn.prnet import PrnetConfig, PrnetNet
from methods.prnet import Prnet, PrnetSmall
from tests.catalog import build
from tests.methods.weight_files import write_weights

TINY = PrnetConfig(k=5, widths=(8, 12), features=16, heads=2, inner=24)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> PrnetSmall:
    torch.manual_seed(0)
    file = write_weights(tmp_path_factory.mktemp("w") / "w.safetensors", PrnetNet(TINY), "prnet_small")
    method = build(f"prnet_small[weights={file}]")
    method.setup("cpu", 0, "shapes40")
    assert isinstance(method, PrnetSmall)
    return method


@pytest.mark.parametrize("name", [c for c in CHECKS if c != "known poses"])
def test_conforms_even_untrained(tiny: PrnetSmall, name: str) -> None:
    CHECKS[name](tiny)  # raises CheckFailed


def test_the_default_sizes_are_the_paper_s() -> None:
    config = Prnet.network().config
    assert (config.k, config.features, config.rounds) == (20, 512, 3)
