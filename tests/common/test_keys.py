"""Random numbers and digests of keys: the documented transforms of NumPy's uniform numbers."""

import hashlib
import math

import numpy as np
import pytest

from common.errors import InputError
from common.keys import FEW, check_seed, digest, rng, seed_of


def uniform_numbers(key, count):
    """The numbers that NumPy's `random` gives a generator of the key."""
    return np.random.Generator.random(rng(key), count)


@pytest.mark.parametrize("size", [None, 1, FEW - 1, FEW, FEW + 1, 40, (3, 5), (2, 2), ()])
def test_normal_numbers_are_those_of_box_and_muller(size):
    count = int(np.prod(() if size is None else size))
    half = (count + 1) // 2
    u, v = uniform_numbers("normal", 2 * half).reshape(2, half)
    radius = [math.sqrt(-2 * math.log(1 - x)) for x in u]
    expected = [r * math.cos(2 * math.pi * y) for r, y in zip(radius, v, strict=True)]
    expected += [r * math.sin(2 * math.pi * y) for r, y in zip(radius, v, strict=True)]
    shape = () if size is None else (size,) if isinstance(size, int) else size
    plain = np.array(expected[:count]).reshape(shape)
    assert rng("normal").standard_normal(size) == pytest.approx(plain, abs=1e-14)
    assert rng("normal").normal(size=size) == pytest.approx(plain, abs=1e-14)
    assert rng("normal").normal(3, 0.5, size) == pytest.approx(3 + 0.5 * plain, abs=1e-14)


def test_uniform_numbers_are_between_their_bounds():
    assert rng("uniform").uniform() == uniform_numbers("uniform", None)
    assert rng("uniform").uniform(-2, 6) == -2 + 8 * uniform_numbers("uniform", None)
    u = uniform_numbers("uniform", 12)
    assert rng("uniform").uniform(size=12).tolist() == u.tolist()
    assert rng("uniform").uniform(5.0, size=(3, 4)) == pytest.approx(5 - 4 * u.reshape(3, 4))
    low, high = np.array([[0.0], [1], [2]]), np.array([3.0, 4, 5, 6])
    assert rng("uniform").uniform(low, high) == pytest.approx(low + (high - low) * u.reshape(3, 4))


def test_a_generator_is_seeded_with_the_digest_of_its_key():
    """As docs/protocol.md says: PCG64 of the SHA-256 of the key's JSON as an integer."""
    sha256 = hashlib.sha256(b'["a", 1]').digest()
    expected = np.random.Generator(np.random.PCG64(int.from_bytes(sha256, "big"))).random(3)
    assert rng("a", 1).random(3).tolist() == expected.tolist()


def test_a_seed_has_64_bits():
    for seed in (-(2**63), -1, 0, 2**63 - 1):
        check_seed(seed)
    for seed in (-(2**63) - 1, 2**63):
        with pytest.raises(InputError, match="--seed: must fit into 64 bits"):
            check_seed(seed)


def test_a_seed_is_the_first_63_bits_of_the_digest_of_its_key():
    for key in (("a", 1), ("b", None, True, 0.5)):
        assert seed_of(*key) == int(f"{int(digest(*key), 16):0256b}"[:63], 2) < 2**63
