"""Random numbers from keys: the same key gives the same numbers on every machine, in any order."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError

FEW = 8
"""Number of normal numbers up to which they are computed one by one."""
KeyPart = str | int | float | bool | None


class Random(np.random.Generator):
    """NumPy generator whose uniform and normal numbers have the same bits on every processor.

    NumPy's `random`, `integers`, `permutation` and `choice` (without weights) already have this property. Its `normal` uses
    the C library's logarithm and exponential, and a compiler may fuse the product and the sum in its `uniform`.
    """

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draw uniform numbers low + (high - low) u, with u from `random`, of `size` or the broadcast shape of the bounds."""
        if size is None and not (isinstance(low, float | int) and isinstance(high, float | int)):
            size = np.broadcast_shapes(np.shape(low), np.shape(high)) or None
        return low + (high - low) * self.random(size)

    def standard_normal(self, size: Any = None) -> Any:  # type: ignore[override]
        """Draw standard normal numbers by the Box-Muller transform: n of them use 2 ceil(n / 2) numbers from `random`."""
        n = size if isinstance(size, int) else int(np.prod(() if size is None else size))
        half = (n + 1) // 2
        uniform = self.random(2 * half)
        if n <= FEW:
            few = uniform.tolist()
            numbers = np.array(_box_muller(few[:half], few[half:])[:n])
            return numbers[0] if size is None else numbers.reshape(size)
        u, v = uniform[:half], uniform[half:]
        radius = np.sqrt(-2 * portable.log(1 - u))
        sine, cosine = portable.sin_cos(2 * np.pi * v)
        many: NDArray[np.float64] = np.concatenate([radius * cosine, radius * sine])[:n]
        return many.reshape(size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw normal numbers loc + scale z, with z from `standard_normal`."""
        return loc + scale * self.standard_normal(size)


def _box_muller(u: list[float], v: list[float]) -> list[float]:
    """Return as many normal numbers from uniform ones as there are: of few numbers, arithmetic of floats takes less time."""
    radius = [math.sqrt(-2 * portable.log(1 - x)) for x in u]
    waves = [portable.sin_cos(2 * math.pi * y) for y in v]
    pairs = [(r * sine, r * cosine) for r, (sine, cosine) in zip(radius, waves, strict=True)]
    return [cosine for _, cosine in pairs] + [sine for sine, _ in pairs]


def digest(*key: KeyPart) -> str:
    """Return the SHA-256 of a key as 64 hex digits. Parts keep their type: 1 and "1" differ.

    >>> digest("a", 1)[:16], digest("a", "1")[:16]
    ('2657442bb4a48d62', 'b343590635d7675b')
    """
    return _sha256(key).hexdigest()


def _sha256(key: tuple[KeyPart, ...]) -> hashlib._Hash:
    return hashlib.sha256(json.dumps(key).encode())


def seed_of(*key: KeyPart) -> int:
    """Return a 63-bit seed for a key.

    >>> seed_of("modelnet40", "test", 7)
    235257336830015661
    """
    return int(digest(*key)[:16], 16) >> 1


def check_seed(seed: int) -> None:
    """Refuse a seed that does not fit into 64 bits, the size of whole numbers in the results database.

    Raises:
        InputError: it does not fit.
    """
    if not -(2**63) <= seed < 2**63:
        raise InputError("--seed: must fit into 64 bits: -2^63 to 2^63 - 1")


def rng(*key: KeyPart) -> Random:
    """Return a random generator for a key.

    >>> rng("modelnet40", "test", 7, "pose").integers(100, size=3).tolist()
    [26, 6, 33]
    """
    sha256 = _sha256(key).digest()
    # NumPy would split the integer of the digest into the same words, in twice the time.
    words = np.frombuffer(sha256[::-1], "<u4")
    return Random(np.random.PCG64(words if words[-1] else int.from_bytes(sha256)))
