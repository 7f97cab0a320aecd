"""Randomness from keys: the same key gives the same numbers on every machine, in any order."""

from __future__ import annotations

import hashlib
import json

import numpy as np

KeyPart = str | int | float | bool | None


def digest(*key: KeyPart) -> str:
    """SHA-256 of a key, as 64 hex digits. Parts keep their type: 1 and "1" differ."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def seed_of(*key: KeyPart) -> int:
    """A 63-bit seed for a key."""
    return int(digest(*key)[:16], 16) >> 1


def rng(*key: KeyPart) -> np.random.Generator:
    """A NumPy generator for a key, such as `rng("modelnet40", "test", 7, "pose")`."""
    return np.random.Generator(np.random.PCG64(int(digest(*key), 16)))
