"""Transformer block (Vaswani et al. 2017) that conditions the features of a cloud on another, as in DCP and PRNet."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention of features (B, N, width) on features (B, M, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Attend from the rows of x (B, N, width) to the rows of memory (B, M, width); return (B, N, width)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(x), keys, values))
        attention = _unfused_attention if self.training else F.scaled_dot_product_attention
        attended: Tensor = self.out(attention(q, k, v).transpose(1, 2).flatten(2))
        return attended


def _unfused_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute softmax(q kᵀ / √d) v in separate steps: on the CPU its gradient takes less than half of the fused one's time."""
    return (q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)).softmax(dim=-1).to(v.dtype) @ v


class ResidualAttention(nn.Module):
    """Residual attention: x + f(norm(x)), where f attends to x itself or to a memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Map (B, N, width) to (B, N, width)."""
        y = self.norm(x)
        return x + self.attention(y, y if memory is None else memory)


class ResidualLayers(nn.Module):
    """Residual point-wise layers: x + W₂ relu(W₁ norm(x))."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, N, width) to (B, N, width)."""
        return x + self.layers(x)


class Transformer(nn.Module):
    """φ(x, y): an encoder block on the other cloud's features y, and a decoder block on x that attends to them.

    Args:
        width: features per point.
        heads: of each attention.
        inner: width of the point-wise layers.
    """

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.encoder, self.decoder, self.cross = (ResidualAttention(width, heads) for _ in range(3))
        self.encoded, self.decoded = ResidualLayers(width, inner), ResidualLayers(width, inner)
        self.memory, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute the residual (B, N, width) of x (B, N, width) given y (B, M, width)."""
        memory = self.memory(self.encoded(self.encoder(y)))
        residual: Tensor = self.norm(self.decoded(self.cross(self.decoder(x), memory)))
        return residual
