"""Count how often the estimated symmetry is correct, where the ground truth is known.

`python -m performance.symmetry_estimate 3 1024`: the number of shapes of each category and the number of points.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from common.keys import rng
from datasets.shapes40 import Shapes40
from datasets.symmetry import rotations, turn
from datasets.symmetry_estimate import estimate

Array = NDArray[np.float64]
FIRST = 20
"""Test shapes of a category below this number were inspected when the limits were set."""
TOLERANCE_DEG = 8.0
VERDICTS = ("correct", "smaller", "larger", "other")


def main(count: int, points: int) -> None:
    """Print the wrong estimates, and a table: how many are the true group, a subgroup, a supergroup, or neither."""
    data = Shapes40()
    table: dict[str, Counter[str]] = {}
    spent: list[float] = []
    for index in range(40 * FIRST, 40 * (FIRST + count)):
        shape = data.shape("test", index)
        cloud = shape.samples(points, 1, rng("symmetry estimate", index, points))[0]
        start = time.process_time()
        estimated = estimate(cloud)
        spent.append(time.process_time() - start)
        assert shape.symmetry is not None
        result = verdict(shape.symmetry, estimated.name, estimated.frame[:3, :3])
        table.setdefault(kind(shape.symmetry), Counter())[result] += 1
        if result != "correct":
            print(f"{shape.name}: {shape.symmetry}, estimated {estimated.name}")
    print_table(table)
    print(f"{1e3 * np.median(spent):.0f} ms of CPU per shape (median), {1e3 * max(spent):.0f} at most")


def print_table(table: dict[str, Counter[str]]) -> None:
    """Print one line per class, and one for all."""
    print(f"| true group | shapes | {' | '.join(VERDICTS)} |")
    print(f"|---{'|---:' * (1 + len(VERDICTS))}|")
    for name, counts in [*sorted(table.items()), ("all", sum(table.values(), Counter()))]:
        print(f"| {name} | {counts.total()} | {' | '.join(str(counts[v]) for v in VERDICTS)} |")


def kind(symmetry: str) -> str:
    """Return the class of a group: C1, C2, Cn (2 < n < inf), Cinf, Dn (n may be inf) or O."""
    name = symmetry.rstrip("xyz")
    return name if name in ("C1", "C2", "Cinf", "O") else f"{name[0]}n"


def verdict(true: str, estimated: str, frame: Array) -> str:
    """Compare the estimated group, axes included, with the true one: equal, a subgroup, a supergroup or neither."""
    a, b = elements(true), frame @ elements(estimated) @ frame.T
    within, around = covers(a, b), covers(b, a)
    return VERDICTS[0 if within and around else 1 if within else 2 if around else 3]


def elements(name: str) -> Array:
    """Return the rotations (n, 3, 3) of a group; a continuous axis is sampled by 72 turns."""
    axis, discrete = rotations(name)
    return (
        discrete
        if axis is None
        else (turn(axis, np.radians(np.arange(0, 360, 5.0)))[:, None] @ discrete).reshape(-1, 3, 3)
    )


def covers(one: Array, other: Array) -> bool:
    """Return whether each rotation of the second has one of the first within the tolerance."""
    cosine = (np.einsum("aij,bij->ab", other, one).max(axis=1) - 1) / 2
    return bool((cosine > np.cos(np.radians(TOLERANCE_DEG))).all())


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [3, 1024][len(given) :]))
