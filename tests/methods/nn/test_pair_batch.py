"""Pairs of clouds as one tensor or two, on one thread or several."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from methods.deepgmr import DeepGMR
from tests.methods.clouds import blob, moved, pose


@pytest.mark.parametrize("m", [300, 260, 100])
def test_threads_do_not_change_a_pair(trained: dict[str, DeepGMR], m: int) -> None:
    source = blob(300, 7)
    target = moved(pose(7), source)[:m]
    alone = trained["int8"].register(source, target)
    for threads in (2, 3, 5):
        torch.set_num_threads(threads)
        np.testing.assert_allclose(trained["int8"].register(source, target), alone, atol=1e-6)
        assert torch.get_num_threads() == threads
