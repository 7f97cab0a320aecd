"""Pairs of clouds as one tensor or two, so that a network sees both clouds in as few passes as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from common.devices import is_gpu
from methods.nn.threads import max_threads, thread_map

_MAX_THREADS_PER_PAIR = 4
"""With more threads, chunks of one large cloud use them better than two whole clouds do."""


class PairBatch:
    """Values of the clouds of B pairs: one tensor (2B, N, C), sources first, or two (B, N, C) and (B, M, C)."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors

    @classmethod
    def of(cls, sources: Sequence[Tensor], targets: Sequence[Tensor], joint: bool = True) -> PairBatch:
        """Stack sources (1, N, C) and targets (1, M, C); in one tensor if `joint` and N = M, since one pass is cheaper."""
        if joint and sources[0].shape == targets[0].shape:
            return cls([torch.cat([*sources, *targets])])
        return cls([torch.cat(list(sources)), torch.cat(list(targets))])

    def to(self, device: str) -> PairBatch:
        """Copy the clouds to a device, in one transfer; on the CPU they stay as they are."""
        return PairBatch(to_device(self.tensors, device))

    def to_host(self) -> PairBatch:
        """Copy the values to the host, in one transfer; the trailing dimensions of both tensors must be equal."""
        if self.on_cpu:
            return self
        sizes = [len(tensor) for tensor in self.tensors]
        return PairBatch(torch.split(torch.cat(list(self.tensors)).cpu(), sizes))

    @property
    def on_cpu(self) -> bool:
        """Whether the values are in the host's memory."""
        return self.tensors[0].device.type == "cpu"

    def map(self, function: Callable[[Tensor], Tensor]) -> PairBatch:
        """Apply a function to the clouds."""
        return PairBatch([function(tensor) for tensor in self.tensors])

    def map_network(self, network: Callable[[Tensor], Tensor]) -> PairBatch:
        """Apply a network; to a single pair on few threads of a CPU, with one thread per cloud."""
        return PairBatch(thread_map(network, self.tensors)) if self._one_thread_each() else self.map(network)

    def split(self) -> Sequence[Tensor]:
        """Return the tensors of the sources and of the targets."""
        return self.tensors if len(self.tensors) == 2 else self.tensors[0].chunk(2)

    def _one_thread_each(self) -> bool:
        """Return whether each of two clouds gets a thread: both have about as much to do, and none waits at barriers."""
        small, large = sorted(tensor.shape[1] for tensor in (self.tensors[0], self.tensors[-1]))
        single_pair = len(self.tensors) == 2 and len(self.tensors[0]) == 1
        few_threads = 2 <= max_threads() <= _MAX_THREADS_PER_PAIR
        return single_pair and few_threads and small >= large / 2 and self.on_cpu


def to_device(tensors: Sequence[Tensor], device: str) -> list[Tensor]:
    """Copy float32 tensors of the host to a device in one transfer, since the host waits for each; on the CPU, return them."""
    if not is_gpu(device):
        return list(tensors)
    if len(tensors) == 1:
        return [tensors[0].to(device)]
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).to(device)
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
