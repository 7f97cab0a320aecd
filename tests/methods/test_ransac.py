"""RANSAC as a method."""

from __future__ import annotations

from methods.ransac import Ransac
from tests.methods.clouds import solve, turned_pair


def test_the_two_ransacs_do_all_their_iterations() -> None:
    assert {k: v["iterations"] for k, v in Ransac.variants.items()} == {"ransac10k": 10_000, "ransac10m": 10_000_000}
    source, target, _ = turned_pair(30)
    method = Ransac(iterations=30_001)
    solve(method, source, target)
    assert method.scratch.notes["iterations"] == 30_001
    assert set(method.scratch.stages) == {"normals", "features", "matching", "solve"}
