"""TEASER++ as a method."""

from __future__ import annotations

import numpy as np
import pytest

from methods import teaser as teaser_module
from methods.base import Unavailable
from methods.teaser import Teaser
from tests.methods.clouds import turned_pair


@pytest.fixture(scope="module")
def teaser() -> Teaser:
    method = Teaser()
    try:
        method.setup("cpu", 0, "shapes40")
    except Unavailable as reason:
        pytest.skip(f"TEASER++ cannot be had here: {reason}")
    return method


@pytest.mark.parametrize("degrees", [20, 179])
def test_it_maps_source_into_target_and_repeats_bit_for_bit(teaser: Teaser, degrees: float) -> None:
    source, target, truth = turned_pair(degrees)
    teaser.begin(1)
    T = teaser.register(source, target)
    assert np.abs(T - truth).max() < 1e-3
    assert teaser.scratch.notes["clique"] >= 3
    assert set(teaser.scratch.stages) == {"normals", "features", "matching", "solve"}
    assert teaser.register(source, target).tobytes() == T.tobytes()


def test_scale_changes_nothing_but_the_translation(teaser: Teaser) -> None:
    a, b = (teaser.register(*turned_pair(40, scale=s)[:2]) for s in (1.0, 1000.0))
    assert np.allclose(a[:3, :3], b[:3, :3], atol=1e-4)
    assert np.allclose(1000 * a[:3, 3], b[:3, 3], atol=0.5)


def test_the_cap_on_matches_is_obeyed(teaser: Teaser) -> None:
    source, target, truth = turned_pair(40)
    capped = Teaser(limit=50)
    assert np.abs(capped.register(source, target) - truth).max() < 1e-2
    assert capped.scratch.notes["clique"] <= 50 < capped.scratch.notes["matches"]
    assert capped.scratch.notes["confidence"] == capped.scratch.notes["clique"] / 50


def test_without_the_kernel_the_library_finds_a_clique_of_the_same_size(
    teaser: Teaser, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, _ = turned_pair(40, n=300)
    results = []
    for _ in range(2):
        teaser.begin(0)
        results.append((teaser.register(source, target), teaser.scratch.notes["clique"]))
        monkeypatch.setattr(teaser_module, "largest_clique", lambda *_: None)
    assert results[0][1] == results[1][1] and np.abs(results[0][0] - results[1][0]).max() < 1e-3
