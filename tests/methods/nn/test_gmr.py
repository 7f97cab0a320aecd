"""Sizes of DeepGMR's network."""

from __future__ import annotations

import torch

from methods.deepgmr import DeepGMR


def test_paper_sizes(control: DeepGMR) -> None:
    shapes = [m.weight.shape for m in control.state["net"].modules() if isinstance(m, torch.nn.Linear)]
    sizes = [(64, 80), (128, 64), (256, 128), (1024, 256), (512, 1024), (512, 1024), (256, 512), (128, 256), (16, 128)]
    assert [tuple(s) for s in shapes] == sizes
