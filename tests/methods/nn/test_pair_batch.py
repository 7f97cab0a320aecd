"""Pairs of clouds as one tensor or two, on one thread or several."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from methods.deepgmr import DeepGMR
from methods.nn import pair_batch
from methods.nn.pair_batch import PairBatch, to_device
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


def clouds(count: int, points: int) -> list[torch.Tensor]:
    return [torch.randn(1, points, 3) for _ in range(count)]


@pytest.mark.parametrize(("n", "m", "joint", "tensors"), [(7, 7, True, 1), (7, 7, False, 2), (7, 5, True, 2)])
def test_sources_come_first_and_stay_apart_from_targets(n: int, m: int, joint: bool, tensors: int) -> None:
    sources, targets = clouds(3, n), clouds(3, m)
    batch = PairBatch.of(sources, targets, joint)
    assert len(batch.tensors) == tensors and batch.on_cpu and batch.to_host() is batch
    for done, factor in (
        (batch, 1),
        (batch.to("cpu"), 1),
        (batch.map(lambda x: 2 * x), 2),
        (batch.map_network(lambda x: 3 * x), 3),
    ):
        first, second = done.split()
        assert torch.equal(first, factor * torch.cat(sources)) and torch.equal(second, factor * torch.cat(targets))


@pytest.mark.parametrize(
    ("sizes", "threads", "each"),
    [
        ((8, 7), 2, True),
        ((8, 4), 4, True),
        ((4, 8), 2, True),
        ((8, 3), 2, False),
        ((3, 8), 2, False),
        ((8, 7), 1, False),
        ((8, 7), 5, False),
    ],
)
def test_two_clouds_of_about_one_size_get_a_thread_each(sizes: tuple[int, int], threads: int, each: bool) -> None:
    torch.set_num_threads(threads)
    n, m = sizes
    assert PairBatch.of(clouds(1, n), clouds(1, m))._one_thread_each() == each
    assert not PairBatch.of(clouds(2, n), clouds(2, m))._one_thread_each()
    assert not PairBatch.of(clouds(1, n), clouds(1, n))._one_thread_each(), "they are one tensor"


@pytest.mark.parametrize("shapes", [[(1, 5, 3)], [(1, 5, 3), (4, 7, 3), (2, 2)]])
def test_one_transfer_keeps_values_and_shapes(monkeypatch: pytest.MonkeyPatch, shapes: list[tuple[int, ...]]) -> None:
    tensors, transfers = [torch.randn(shape) for shape in shapes], []
    to = torch.Tensor.to
    monkeypatch.setattr(pair_batch, "is_gpu", lambda device: True)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device: transfers.append(device) or to(self, "cpu"))
    for before, after in zip(tensors, to_device(tensors, "cuda:1"), strict=True):
        assert torch.equal(before, after)
    assert transfers == ["cuda:1"]
    elsewhere = PairBatch([torch.empty(2, 5, 3, device="meta")])
    assert not elsewhere.on_cpu and PairBatch(tensors).on_cpu
    monkeypatch.setattr(PairBatch, "on_cpu", False)
    two = PairBatch([torch.randn(2, 5), torch.randn(3, 5)])
    assert all(map(torch.equal, two.tensors, two.to_host().tensors))
