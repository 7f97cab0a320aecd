"""Features of two clouds that know of each other: one Transformer block (Vaswani et al. 2017), as DCP and PRNet use it."""

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
        """What each row of x takes from the rows of memory: (B, N, width)."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(x), keys, values))
        together = _plain if self.training else F.scaled_dot_product_attention
        taken: Tensor = self.out(together(q, k, v).transpose(1, 2).flatten(2))
        return taken


def _plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q kᵀ / √d) v, with every step in memory: on the CPU its gradient takes under half of the fused one's time."""
    return (q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2)).softmax(dim=-1).to(v.dtype) @ v


class Step(nn.Module):
    """One residual step: x + f(norm(x)), f an attention on x itself or on a memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """(B, N, width) to (B, N, width)."""
        y = self.norm(x)
        return x + self.attention(y, y if memory is None else memory)


class Forward(nn.Module):
    """The residual point-wise step: x + W₂ relu(W₁ norm(x))."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, width) to (B, N, width)."""
        return x + self.layers(x)


class Transformer(nn.Module):
    """φ(x, y): an encoder block on the other cloud's features y, then a decoder block on x that looks at them.

    Args:
        width: features a point.
        heads: of each attention.
        inner: width of the point-wise layers.
    """

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.encoder, self.decoder, self.cross = (Step(width, heads) for _ in range(3))
        self.encoded, self.decoded = Forward(width, inner), Forward(width, inner)
        self.memory, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """What x (B, N, width) gains from y (B, M, width): (B, N, width)."""
        memory = self.memory(self.encoded(self.encoder(y)))
        changed: Tensor = self.norm(self.decoded(self.cross(self.decoder(x), memory)))
        return changed
