"""DCP as a method."""

from __future__ import annotations

import pytest
import torch

from bench.conformance.checks import CHECKS
from methods.dcp import DcpSmall
from methods.nn.dcp import DcpConfig, DcpNet
from tests.catalog import build
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


@pytest.mark.parametrize("name", [c for c in CHECKS if c != "known poses"])
def test_conforms_even_untrained(tiny: DcpSmall, name: str) -> None:
    CHECKS[name](tiny)  # raises CheckFailed
