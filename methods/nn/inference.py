"""PointNet for inference: batch norms folded, layers in bfloat16 or int8, chunks of points on threads.

The int8 and bfloat16 products use operators that torch registers for its own compiler (`onednn::qlinear_*`,
`mkldnn::_linear_pointwise`). No other module uses them. Without them, `can_quantise` is false and bfloat16 uses public operators.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from methods.nn.pointnet import PointLayer, PointNet, float32_scores, max_pool
from methods.nn.threads import Chunk, chunks, max_threads, thread_map

_CHUNK_POINTS = 1024
"""Points that pass through the layers together on the CPU; 512 are slower."""
_GROUP_POINTS = 1 << 13
"""Points of small clouds that one thread passes through the first layers together, to amortise the cost of a call."""
_WIDE_POINTS = 1 << 14
"""Points of large clouds whose widest layer is held in memory together."""
_FLOAT32_LAYERS = 1
"""Leading layers kept in float32: int8 input features lose too much accuracy."""
_RANGE_DEVIATIONS = 8.0
"""Range of the int8 levels in standard deviations, by the batch norm; 5 clipped large values with some weights."""
_LEVELS = 255
"""Largest level of an unsigned 8-bit number."""


class FoldedLayer(nn.Module):
    """Linear and ReLU on every point, in the precision of the weights.

    Attributes:
        weight: (outputs, inputs).
        bias: (outputs,).
        context: weights (outputs, context) on the cloud's vector, or None.
        reach: (outputs,), a value that each output rarely exceeds.
        packed: the weights in the layout of the bfloat16 matrix unit, or None.
    """

    weight: Tensor
    bias: Tensor
    context: Tensor | None
    reach: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, context: Tensor | None, reach: Tensor) -> None:
        super().__init__()
        for name, value in (("weight", weight), ("bias", bias), ("context", context), ("reach", reach)):
            self.register_buffer(name, None if value is None else value.detach().clone())
        self.packed: Tensor | None = None

    @property
    def unit(self) -> Tensor:
        """The value of one int8 level of each output (outputs,)."""
        return self.reach.clamp_min(1e-3 * self.reach.max()) / _LEVELS

    def forward(self, points: Tensor, cloud: Tensor | None = None) -> Tensor:
        """Map points (B, N, inputs) and cloud vectors (B, context) to (B, N, outputs)."""
        if cloud is None:
            return self.biased(points, self.bias)
        points = points.to(self.weight.dtype)
        return torch.relu_(functional.linear(points, self.weight).add_(self.biases(cloud)[:, None]))

    def biases(self, cloud: Tensor) -> Tensor:
        """Return the biases (B, outputs) of cloud vectors (B, context): constant over the points of a cloud."""
        assert self.context is not None
        return functional.linear(cloud.to(self.weight.dtype), self.context, self.bias)

    def biased(self, points: Tensor, bias: Tensor) -> Tensor:
        """Map points (B, N, inputs) with a bias (outputs,) to (B, N, outputs)."""
        points = points.to(self.weight.dtype)
        if points.device.type != "cpu":  # product, bias and ReLU in one kernel
            fused = torch._addmm_activation(bias, points.flatten(0, -2), self.weight.T)
            return fused.view(*points.shape[:-1], -1)
        if self.packed is None:
            return torch.relu_(functional.linear(points, self.weight, bias))
        result: Tensor = torch.ops.mkldnn._linear_pointwise(points, self.packed, bias, "relu", [], "")
        return result

    def to_bfloat16(self) -> None:
        """Switch to bfloat16; on the CPU, pack the weights for the matrix unit if the operators exist."""
        self.to(torch.bfloat16)
        if self.weight.device.type == "cpu" and _can_pack():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, _CHUNK_POINTS)


def fold_layer(layer: PointLayer) -> FoldedLayer:
    """Fold the running statistics of a layer's batch norm into its weights."""
    norm = layer.norm
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    context = None if layer.context is None else layer.context.weight * scale[:, None]
    reach = norm.bias + _RANGE_DEVIATIONS * norm.weight.abs()
    return FoldedLayer(layer.linear.weight * scale[:, None], norm.bias - scale * norm.running_mean, context, reach)


class RoundingLayer(FoldedLayer):
    """Last float32 layer before the int8 layers: maps (B, N, inputs) to uint8 levels (B, N, outputs)."""

    def __init__(self, layer: FoldedLayer) -> None:
        unit = layer.unit
        super().__init__(layer.weight / unit[:, None], layer.bias / unit + 0.5, None, layer.reach)

    def biased(self, points: Tensor, bias: Tensor) -> Tensor:
        """See `FoldedLayer.biased`; the bias contains half a level, so that the truncating conversion rounds."""
        y = super().biased(points, bias).clamp_max_(_LEVELS)
        levels = torch.empty(y.shape, dtype=torch.uint8)
        np.copyto(levels.numpy(), y.numpy(), casting="unsafe")  # seven times as fast as torch's conversion
        return levels


class QuantisedLayer(FoldedLayer):
    """Int8 layer: maps uint8 levels (B, N, inputs) to levels (B, N, outputs), or to float32 in the last such layer.

    ReLU commutes with scaling, so the units of inputs and outputs, one per channel, are folded into the weights. The weights
    have one scale per output. Sums are exact integers.

    Args:
        layer: the float32 layer.
        input_unit: value of one level of each input (inputs,).
        last: whether the outputs are float32 numbers.
    """

    def __init__(self, layer: FoldedLayer, input_unit: Tensor, last: bool) -> None:
        output_unit = torch.ones_like(layer.bias) if last else layer.unit
        context = None if layer.context is None else layer.context * input_unit / output_unit[:, None]
        weight = layer.weight * input_unit / output_unit[:, None]
        super().__init__(weight, layer.bias / output_unit, context, layer.reach)
        self.dtype = torch.float32 if last else torch.uint8
        self.product = PackedLinear(self.weight, _CHUNK_POINTS)
        self.context_product = None if context is None else PackedLinear(context, 1)

    def biases(self, cloud: Tensor) -> Tensor:
        """See `FoldedLayer.biases`."""
        assert self.context_product is not None
        return self.context_product(cloud, self.bias, torch.float32, "none")

    def biased(self, points: Tensor, bias: Tensor) -> Tensor:
        """See `FoldedLayer.biased`."""
        return self.product(points, bias, self.dtype, "relu")


class PackedLinear:
    """Int8 weights in the memory layout of the processor's matrix product.

    Args:
        weight: (outputs, inputs) float32.
        rows: number of input rows for which the layout is chosen.
    """

    def __init__(self, weight: Tensor, rows: int) -> None:
        self.scales = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        levels = (weight / self.scales[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(levels, [rows, levels.shape[1]])

    def __call__(self, levels: Tensor, bias: Tensor, dtype: torch.dtype, activation: str) -> Tensor:
        """Multiply uint8 levels (…, inputs) by the weights; return (…, outputs) of a dtype.

        Args:
            levels: inputs.
            bias: (outputs,) float32.
            dtype: of the result: float32, or uint8 for levels.
            activation: "relu" or "none".
        """
        weights = self.packed, self.scales, self.zeros
        scales = 1.0, 0  # of the result, and its zero point
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            levels, 1.0, 0, *weights, bias, *scales, dtype, activation, [], ""
        )
        return result


def can_quantise() -> bool:
    """Return whether the processor has int8 products without overflow and torch has the operators for them."""
    capabilities = torch.cpu.get_capabilities()
    operators = hasattr(torch.ops.onednn, "qlinear_prepack") and hasattr(torch.ops.onednn, "qlinear_pointwise")
    return operators and any(capabilities.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8"))


def _can_pack() -> bool:
    """Return whether torch has the packed bfloat16 product for this processor."""
    operators = torch.ops.mkldnn
    names = ("_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise")
    return all(hasattr(operators, name) for name in names) and bool(operators._is_mkldnn_bf16_supported())


class FoldedPointNet(nn.Module):
    """A trained `PointNet` for inference: faster, without batch norms, no longer trainable.

    Args:
        network: the trained network, in evaluation or training mode; its running statistics are used.
    """

    def __init__(self, network: PointNet) -> None:
        super().__init__()
        self.local, self.head = (
            nn.Sequential(*(fold_layer(layer) for layer in layers if isinstance(layer, PointLayer)))
            for layers in (network.local, network.head)
        )
        self.join = fold_layer(network.join)
        self.last = network.last

    def forward(self, features: Tensor) -> Tensor:
        """Compute the scores (B, N, outputs), float32, of features (B, N, inputs)."""
        return self.whole(features) if features.device.type != "cpu" else self.in_chunks(features)

    def to_bfloat16(self) -> None:
        """Switch the layers after the first to bfloat16, in place; the scores stay float32."""
        for layer in self._layers()[_FLOAT32_LAYERS:]:
            layer.to_bfloat16()

    def quantise(self) -> None:
        """Switch the layers after the first to int8, in place, on the CPU; the scores stay float32."""
        layers = self._layers()
        quantised = [
            QuantisedLayer(layer, previous.unit, last=layer is layers[-1])
            for previous, layer in pairwise(layers[_FLOAT32_LAYERS - 1 :])
        ]
        layers = [*layers[: _FLOAT32_LAYERS - 1], RoundingLayer(layers[_FLOAT32_LAYERS - 1]), *quantised]
        count = len(self.local)
        self.local, self.join = nn.Sequential(*layers[:count]), layers[count]
        self.head = nn.Sequential(*layers[count + 1 :])

    def _layers(self) -> list[FoldedLayer]:
        return [layer for layer in (*self.local, self.join, *self.head) if isinstance(layer, FoldedLayer)]

    def whole(self, features: Tensor) -> Tensor:
        """Compute the scores of all clouds in one pass, as on a GPU."""
        x: Tensor = self.local(features)
        return float32_scores(self.last, self.head(self.join(x, max_pool(x))))

    def in_chunks(self, features: Tensor) -> Tensor:
        """Compute the scores on threads: several small clouds per thread, or large clouds in chunks of points.

        Memory is bounded by `_GROUP_POINTS` points per thread, or `_WIDE_POINTS` points.
        """
        count, points, _ = features.shape
        scores = features.new_empty(count, points, self.last.out_features)
        if points <= _CHUNK_POINTS:
            clouds = max(1, min(_GROUP_POINTS // points, -(-count // max_threads())))
            slices = [slice(first, first + clouds) for first in range(0, count, clouds)]
            thread_map(lambda rows: self._score_small(features[rows], scores[rows]), slices)
        else:
            clouds = max(1, _WIDE_POINTS // points)
            for first in range(0, count, clouds):
                self._score_large(features[first : first + clouds], scores[first : first + clouds])
        return scores

    def _score_small(self, features: Tensor, scores: Tensor) -> None:
        """Write the scores (B, N, outputs) of features (B, N, inputs): the first layers of all clouds, then cloud by cloud."""
        x = self.local(features)
        for cloud, bias, out in zip(x, self.join.biases(max_pool(x)), scores, strict=True):
            self._write_scores(self.head(self.join.biased(cloud[None], bias)), out)

    def _score_large(self, features: Tensor, scores: Tensor) -> None:
        """Write the scores (B, N, outputs) of features (B, N, inputs): all chunks up to the max-pool, then the rest."""
        parts = chunks(len(features), features.shape[1], _CHUNK_POINTS)

        def before_pool(part: Chunk) -> tuple[Tensor, Tensor]:
            x: Tensor = self.local(features[part.cloud, part.rows][None])
            return x, max_pool(x)

        wide = thread_map(before_pool, parts)
        maxima = torch.cat([top for _, top in wide]).view(len(features), -1, wide[0][1].shape[1])
        biases = self.join.biases(max_pool(maxima))

        def after_pool(work: tuple[Chunk, Tensor]) -> None:
            part, x = work
            self._write_scores(self.head(self.join.biased(x, biases[part.cloud])), scores[part.cloud, part.rows])

        thread_map(after_pool, [(part, x) for part, (x, _) in zip(parts, wide, strict=True)])

    def _write_scores(self, x: Tensor, out: Tensor) -> None:
        """Write the scores (N, outputs) of the head's output (1, N, C)."""
        torch.addmm(self.last.bias, x[0].to(self.last.weight.dtype), self.last.weight.T, out=out)
