"""Torch's state for every test, and DeepGMR with trained and untrained weights."""

from __future__ import annotations

import pytest
import torch

from methods.deepgmr import DeepGMR
from methods.learned.gmr import PRECISIONS


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def control() -> DeepGMR:
    """DeepGMR without training."""
    method = DeepGMR(untrained=True)
    method.setup("cpu", 0, "shapes40")
    return method


@pytest.fixture(scope="module")
def trained() -> dict[str, DeepGMR]:
    """DeepGMR with trained weights, by the narrowest precision allowed; this processor may use a wider one."""
    methods = {precision: DeepGMR(precision=precision) for precision in PRECISIONS}
    for method in methods.values():
        method.begin(0)
        method.setup("cpu", 0, "shapes40")
    return methods
