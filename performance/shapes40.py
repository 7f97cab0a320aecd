"""Measure the speed of the embedded data set on one core: `python -m performance.shapes40 [shapes of each category]`."""

from __future__ import annotations

import sys
import time

import numpy as np

from datasets.shapes40 import Shapes40


def seconds_per_shape(data: Shapes40, label: int, count: int) -> float:
    """Return the CPU seconds to build one shape of a category and sample 1024 points, the mean over `count` shapes."""
    rng = np.random.default_rng(0)
    start = time.process_time()
    for number in range(count):
        data.shape("train", number * len(data.categories) + label).samples(1024, 1, rng)
    return (time.process_time() - start) / count


def main(count: int) -> None:
    """Print milliseconds per shape of each category, and shapes per second over all categories."""
    data = Shapes40()
    seconds_per_shape(data, 0, 20)
    spent = [seconds_per_shape(data, label, count) for label in range(len(data.categories))]
    for name, seconds in zip(data.categories, spent, strict=True):
        print(f"{name:12s} {1e3 * seconds:6.2f} ms")
    rate = len(spent) / sum(spent)
    print(
        f"{rate:.0f} shapes per second on one core, including a sample of 1024 points each, mean over {len(spent)} categories"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
