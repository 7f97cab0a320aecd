"""Pairs of clouds as one tensor or two, so that a network sees both clouds in as few passes as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

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
        return single_pair and few_threads and small >= large / 2 and self.tensors[0].device.type == "cpu"
