"""The PointNet segmentation backbone: point-wise layers, one max-pool over the cloud, a head on local and global together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from methods.nn.spread import Chunk, chunks, max_threads, spread

_ROWS = 1024
"""Points that pass through the layers at once on the CPU: half as many are slower."""
_TOGETHER = 1 << 13
"""Points of small clouds that one thread takes through the first layers at once: each call of a layer takes a while to begin."""
_HELD = 1 << 14
"""Points of small clouds whose widest layer is held at once."""
_EXACT = 1
"""Layers that stay float32 where the others are narrower: features on 8 bits would not do."""
_SPREADS = 8.0
"""Standard deviations from the mean, as batch norm knows them, that 8 bits reach; 5 cut off large values with some weights."""
_LEVELS = 255


class PointLayer(nn.Module):
    """Linear, batch norm and ReLU on every point; optionally on the concatenation of the point with its cloud's vector.

    A linear layer on concat(point, cloud) is the sum of one on the point and one, per cloud, on the vector: half the work.
    """

    def __init__(self, inputs: int, outputs: int, context: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.context = nn.Linear(context, outputs, bias=False) if context else None
        self.norm: nn.Module = nn.BatchNorm1d(outputs)

    def forward(self, points: Tensor, cloud: Tensor | None = None) -> Tensor:
        """(B, N, inputs) and (B, context) to (B, N, outputs)."""
        y = self.linear(points)
        if self.context is not None:
            y = y + self.context(cloud)[:, None]
        # On (B * N, C): Linear and batch norm are several times faster there than a 1 x 1 convolution on (B, C, N).
        return torch.relu_(self.norm(y.reshape(-1, y.shape[-1]))).view(y.shape)

    def folded(self) -> FoldedLayer:
        """The same layer for inference, its batch norm's running statistics folded into the weights."""
        norm = self.norm
        assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None and norm.running_var is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        context = None if self.context is None else self.context.weight * scale[:, None]
        reach = norm.bias + _SPREADS * norm.weight.abs()
        return FoldedLayer(self.linear.weight * scale[:, None], norm.bias - scale * norm.running_mean, context, reach)


class FoldedLayer(nn.Module):
    """Linear and ReLU on every point, in the precision of the weights: a `PointLayer` for inference.

    `reach` (outputs,) is what each output hardly exceeds.
    """

    def __init__(self, weight: Tensor, bias: Tensor, context: Tensor | None, reach: Tensor) -> None:
        super().__init__()
        for name, value in (("weight", weight), ("bias", bias), ("context", context), ("reach", reach)):
            self.register_buffer(name, None if value is None else value.detach().clone())
        self.packed: Tensor | None = None

    weight: Tensor
    bias: Tensor
    context: Tensor | None
    reach: Tensor

    @property
    def unit(self) -> Tensor:
        """What one level of 8 bits stands for, of each output (outputs,)."""
        return self.reach.clamp_min(1e-3 * self.reach.max()) / _LEVELS

    def forward(self, points: Tensor, cloud: Tensor | None = None) -> Tensor:
        """(B, N, inputs) and (B, context) to (B, N, outputs)."""
        if cloud is None:
            return self.biased(points, self.bias)
        points = points.to(self.weight.dtype)
        return torch.relu_(functional.linear(points, self.weight).add_(self.biases(cloud)[:, None]))

    def biases(self, cloud: Tensor) -> Tensor:
        """(B, context) to (B, outputs): to the points of one cloud, its vector's part is a bias as any other."""
        assert self.context is not None
        return functional.linear(cloud.to(self.weight.dtype), self.context, self.bias)

    def biased(self, points: Tensor, bias: Tensor) -> Tensor:
        """(B, N, inputs) and a bias (outputs,) to (B, N, outputs)."""
        points = points.to(self.weight.dtype)
        if self.packed is None:
            return torch.relu_(functional.linear(points, self.weight, bias))
        result: Tensor = torch.ops.mkldnn._linear_pointwise(points, self.packed, bias, "relu", [], "")
        return result

    def narrow(self) -> None:
        """Compute in bfloat16 from now on; on the CPU with weights in the order its matrix unit wants, and ReLU on the way.

        What torch has for that it keeps to its own compiler; where that is missing, plain operations do the same.
        """
        self.to(torch.bfloat16)
        if self.weight.device.type == "cpu" and _can_pack():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, _ROWS)


class RoundingLayer(FoldedLayer):
    """The last layer before those on 8 bits: numbers (B, N, inputs) to levels (B, N, outputs) uint8, see `QuantisedLayer`."""

    def __init__(self, layer: FoldedLayer) -> None:
        unit = layer.unit
        super().__init__(layer.weight / unit[:, None], layer.bias / unit + 0.5, None, layer.reach)

    def biased(self, points: Tensor, bias: Tensor) -> Tensor:
        """See `FoldedLayer.biased`; half a level is in the bias, so that the conversion rounds."""
        y = super().biased(points, bias).clamp_max_(_LEVELS)
        levels = torch.empty(y.shape, dtype=torch.uint8)
        np.copyto(levels.numpy(), y.numpy(), casting="unsafe")  # seven times as fast as torch's
        return levels


class QuantisedLayer(FoldedLayer):
    """The same on 8 bits: levels (B, N, inputs) uint8 to levels (B, N, outputs), or to numbers after the last such layer.

    As ReLU commutes with scaling, the units of inputs and outputs, one a channel, go into the weights; those have one scale an
    output. Sums are exact integers.
    """

    def __init__(self, layer: FoldedLayer, entering: Tensor, last: bool) -> None:
        """Of a layer whose inputs have the units `entering` (inputs,)."""
        leaving = torch.ones_like(layer.bias) if last else layer.unit
        context = None if layer.context is None else layer.context * entering / leaving[:, None]
        super().__init__(layer.weight * entering / leaving[:, None], layer.bias / leaving, context, layer.reach)
        self.kind = torch.float32 if last else torch.uint8
        self.product = PackedLinear(self.weight, _ROWS)
        self.once = None if context is None else PackedLinear(context, 1)

    def biases(self, cloud: Tensor) -> Tensor:
        """See `FoldedLayer.biases`."""
        assert self.once is not None
        return self.once(cloud, self.bias, torch.float32, "none")

    def biased(self, points: Tensor, bias: Tensor) -> Tensor:
        """See `FoldedLayer.biased`."""
        return self.product(points, bias, self.kind, "relu")


class PackedLinear:
    """Weights (outputs, inputs) on 8 bits, in the order that so many rows of levels want."""

    def __init__(self, weight: Tensor, rows: int) -> None:
        self.scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        whole = (weight / self.scales[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(whole, [rows, whole.shape[1]])

    def __call__(self, levels: Tensor, bias: Tensor, kind: torch.dtype, after: str) -> Tensor:
        """Levels (…, inputs) uint8 by the weights, a bias (outputs,) and "relu" or "none", to numbers or levels (…, outputs)."""
        weights = self.packed, self.scales, self.zeros
        result: Tensor = torch.ops.onednn.qlinear_pointwise(levels, 1.0, 0, *weights, bias, 1.0, 0, kind, after, [], "")
        return result


def can_quantise() -> bool:
    """Whether the processor multiplies 8 bits without overflow, and torch offers what it keeps to its own compiler."""
    can = torch.cpu.get_capabilities()
    offered = hasattr(torch.ops.onednn, "qlinear_prepack") and hasattr(torch.ops.onednn, "qlinear_pointwise")
    return offered and any(can.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def _can_pack() -> bool:
    found = torch.ops.mkldnn
    needed = ("_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise")
    return all(hasattr(found, name) for name in needed) and bool(found._is_mkldnn_bf16_supported())


def max_pool(x: Tensor) -> Tensor:
    """Largest value (B, C) over the points of x (B, N, C), which must not be negative. Of tied points one has the gradient."""
    pooled: Tensor = _MaxPool.apply(x)  # type: ignore[no-untyped-call]
    return pooled


class _MaxPool(torch.autograd.Function):
    """`amax` in a quarter of its time on the CPU, and a sparse gradient: a tenth to a fifth of a training step.

    Bits of bfloat16 that are not negative are ordered as integers, and integers have the fast loops.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        bits = _ordered(x)
        top = bits.amax(dim=1)
        ctx.save_for_backward(x, top)
        return top.view(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, top = ctx.saved_tensors
        spread = torch.zeros_like(x)
        for cloud, best, into, grad in zip(_ordered(x), top, spread, grads[0], strict=True):
            winners = _nonzero((cloud == best).view(-1))
            chosen = torch.empty_like(grad, dtype=torch.long)
            chosen[winners % x.shape[2]] = winners  # of tied points one stays
            into.view(-1)[chosen] = grad
        return spread


def _ordered(x: Tensor) -> Tensor:
    return x.view(torch.int16) if x.dtype == torch.bfloat16 else x


def _nonzero(mask: Tensor) -> Tensor:
    """Indices of True in a flat mask; NumPy's search is five times faster on the CPU."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.nonzero()[:, 0]


def _chain(widths: Sequence[int]) -> nn.Sequential:
    return nn.Sequential(*(PointLayer(a, b) for a, b in pairwise(widths)))


def _folded(chain: nn.Sequential) -> nn.Sequential:
    return nn.Sequential(*(layer.folded() for layer in chain if isinstance(layer, PointLayer)))


class PointNet(nn.Module):
    """(B, N, inputs) to scores (B, N, outputs), for any N, equivariant to the order of the points.

    Args:
        inputs: numbers a point.
        local: widths of the point-wise layers before the max-pool.
        head: widths of the layers on the concatenation of each point with the pooled vector.
        outputs: scores a point.
    """

    def __init__(self, inputs: int, local: Sequence[int], head: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.local = _chain([inputs, *local])
        self.join: PointLayer | FoldedLayer = PointLayer(local[-1], head[0], context=local[-1])
        self.head = _chain(head)
        self.last = nn.Linear(head[-1], outputs)

    def forward(self, features: Tensor) -> Tensor:
        if isinstance(self.join, FoldedLayer) and features.device.type == "cpu":
            return self._in_pieces(features)
        x: Tensor = self.local(features)
        return self._scores(x, max_pool(x))

    def _scores(self, x: Tensor, top: Tensor) -> Tensor:
        """From the widest layer (B, N, C) and its maximum (B, C)."""
        return self._last(self.head(self.join(x, top)))

    def _last(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 scores would quantise the assignments
            scores: Tensor = self.last(x.to(self.last.weight.dtype))
        return scores

    def _in_pieces(self, features: Tensor) -> Tensor:
        """The same: some small clouds a thread, or large ones in pieces: memory for `_TOGETHER` points a thread, or `_HELD`."""
        count, points, _ = features.shape
        scores = features.new_empty(count, points, self.last.out_features)
        if points <= _ROWS:
            some = max(1, min(_TOGETHER // points, -(-count // max_threads())))
            spread(
                lambda first: self._whole(features[first : first + some], scores[first : first + some]),
                range(0, count, some),
            )
            return scores
        group = max(1, _HELD // points)
        for first in range(0, count, group):
            self._group(features[first : first + group], scores[first : first + group])
        return scores

    def _whole(self, features: Tensor, scores: Tensor) -> None:
        """Write the scores (B, N, outputs) of some clouds' features (B, N, inputs)."""
        assert isinstance(self.join, FoldedLayer)
        x = self.local(features)
        for cloud, bias, into in zip(x, self.join.biases(max_pool(x)), scores, strict=True):
            self._write(self.head(self.join.biased(cloud[None], bias)), into)

    def _write(self, x: Tensor, scores: Tensor) -> None:
        """Write the scores (N, outputs) of the head's output (1, N, C)."""
        last = self.last
        torch.addmm(last.bias, x[0].to(last.weight.dtype), last.weight.T, out=scores)

    def _group(self, features: Tensor, scores: Tensor) -> None:
        """Write the scores (B, N, outputs) of features (B, N, inputs): all pieces up to the max-pool, then the rest of all."""
        parts = chunks(len(features), features.shape[1], _ROWS)

        def widen(part: Chunk) -> tuple[Tensor, Tensor]:
            x: Tensor = self.local(features[part.cloud, part.rows][None])
            return x, max_pool(x)

        wide = spread(widen, parts)
        tops = torch.cat([top for _, top in wide]).view(len(features), -1, wide[0][1].shape[1])
        join = self.join
        assert isinstance(join, FoldedLayer)
        biases = join.biases(max_pool(tops))

        def finish(work: tuple[Chunk, Tensor]) -> None:
            part, x = work
            self._write(self.head(join.biased(x, biases[part.cloud])), scores[part.cloud, part.rows])

        spread(finish, [(part, x) for part, (x, _) in zip(parts, wide, strict=True)])

    def fold(self) -> None:
        """Fold every batch norm into the weights, in place: faster inference, no more training."""
        assert isinstance(self.join, PointLayer)
        self.local, self.join, self.head = _folded(self.local), self.join.folded(), _folded(self.head)

    def narrow(self) -> None:
        """Let the layers after the first compute in bfloat16, in place; the scores stay float32. After `fold`."""
        for layer in self._folded_layers()[_EXACT:]:
            layer.narrow()

    def quantise(self) -> None:
        """Let the layers after the first compute on 8 bits, in place, on the CPU; the scores stay float32. After `fold`."""
        layers = self._folded_layers()
        made = [
            QuantisedLayer(layer, before.unit, last=layer is layers[-1])
            for before, layer in pairwise(layers[_EXACT - 1 :])
        ]
        whole, local = [*layers[: _EXACT - 1], RoundingLayer(layers[_EXACT - 1]), *made], len(self.local)
        self.local, self.join, self.head = (
            nn.Sequential(*whole[:local]),
            whole[local],
            nn.Sequential(*whole[local + 1 :]),
        )

    def _folded_layers(self) -> list[FoldedLayer]:
        return [layer for layer in (*self.local, self.join, *self.head) if isinstance(layer, FoldedLayer)]
