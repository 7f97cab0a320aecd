"""Measure by simulation how often the 95 % intervals contain the true value: `python -m docs.scripts.make_coverage`.

The tables of `docs/metrics.md` are its output. Beside each interval is the one that would ignore repeated objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import statistics
from common.keys import rng

Array = NDArray[np.float64]
PROBLEMS, FRAMES = 400, 21
"""Problems and objects of a group of `icl_nuim`."""


class Covered(NamedTuple):
    """Shares of simulations in which the interval contains the true value, is below it, and is above it."""

    inside: float
    below: float
    above: float


class Case(NamedTuple):
    """Simulation: a function that draws values (n,) and their objects (n,), the true value, the interval, repetitions."""

    name: str
    draw: Callable[[np.random.Generator], tuple[Array, NDArray[np.intp]]]
    truth: float
    interval: Callable[[Array, NDArray[np.intp]], tuple[float, float]]
    times: int = 2000

    def measure(self, clustered: bool = True) -> Covered:
        """Return the coverage; without `clustered` every value counts as an object."""
        counts = np.zeros(3)
        for i in range(self.times):
            values, objects = self.draw(rng("coverage", self.name, i))
            low, high = self.interval(values, objects if clustered else np.arange(len(values)))
            counts += (low <= self.truth <= high, high < self.truth, low > self.truth)
        return Covered(*map(float, counts / self.times))


def frames_of(draw: np.random.Generator, n: int = PROBLEMS) -> NDArray[np.intp]:
    """Draw the frame of each problem (n,)."""
    return draw.integers(FRAMES, size=n)


def successes(n: int, recall: float, correlation: float) -> Callable[..., tuple[Array, NDArray[np.intp]]]:
    """Return a function that draws successes (n,): independent, or with a beta-distributed recall of each frame."""

    def draw(random: np.random.Generator) -> tuple[Array, NDArray[np.intp]]:
        if not correlation:
            return (random.random(n) < recall).astype(float), np.arange(n)
        size, frame = (1 - correlation) / correlation, frames_of(random, n)
        own = random.beta(recall * size, (1 - recall) * size, size=FRAMES)
        return (random.random(n) < own[frame]).astype(float), frame

    return draw


def errors(n: int, gross: float, spread: float = 0.0) -> Callable[..., tuple[Array, NDArray[np.intp]]]:
    """Return a function that draws errors (n,) with mean 0.02; a share `gross` is uniform from 0.5 to 1.2 instead.

    With `spread` the errors of a frame have a common gamma-distributed factor with this standard deviation and mean 1.
    """

    def draw(random: np.random.Generator) -> tuple[Array, NDArray[np.intp]]:
        values = random.gamma(2, 0.01, size=n)
        wrong = random.random(n) < gross
        values[wrong] = random.uniform(0.5, 1.2, size=wrong.sum())
        if not spread:
            return values, np.arange(n)
        frame = frames_of(random, n)
        return values * random.gamma(1 / spread**2, spread**2, size=FRAMES)[frame], frame

    return draw


def mean_of(values: Array, objects: NDArray[np.intp]) -> tuple[float, float]:
    """Return the interval of the mean, with resamples that depend on the values."""
    return statistics.bootstrap_mean(values, float(values.sum()), cluster=objects)


def cases() -> Iterator[Case]:
    """Yield the simulations in the order of the table."""
    for n, recall in ((20, 0.8), (100, 0.8), (100, 0.98)):
        yield Case(f"recall {recall:g}, {n} objects", successes(n, recall, 0.0), recall, statistics.share_interval)
    for recall, correlation in ((0.5, 0.2), (0.8, 0.2), (0.8, 0.6), (0.95, 0.2), (0.95, 0.6)):
        name = f"recall {recall:g}, {PROBLEMS} problems of {FRAMES} frames, intraclass correlation {correlation:g}"
        yield Case(name, successes(PROBLEMS, recall, correlation), recall, statistics.share_interval)
    for n, gross in ((10, 0.0), (40, 0.0), (100, 0.0), (100, 0.02), (100, 0.1), (400, 0.02)):
        truth = 0.02 * (1 - gross) + 0.85 * gross
        yield Case(f"mean, {n} objects, {gross:.0%} gross failures", errors(n, gross), truth, mean_of)
    frames = f"{PROBLEMS} problems of {FRAMES} frames"
    yield Case(f"mean, {frames}", errors(PROBLEMS, 0.0, 0.7), 0.02, mean_of)
    median = float(np.median(errors(2_000_000, 0.02)(rng("coverage", "median"))[0]))
    for n in (20, 100):
        yield Case(f"median, {n} objects, 2% gross failures", errors(n, 0.02), median, statistics.bootstrap_median)
    many = rng("coverage", "median of frames")
    factor = many.gamma(1 / 0.7**2, 0.7**2, size=2_000_000)
    clustered = float(np.median(many.gamma(2, 0.01, size=2_000_000) * factor))
    yield Case(f"median, {frames}", errors(PROBLEMS, 0.0, 0.7), clustered, statistics.bootstrap_median)


def table() -> str:
    """Return the coverage of every case as a Markdown table."""
    lines = [
        "| simulation | covered | interval below | interval above | covered if objects are ignored |",
        "|---|--:|--:|--:|--:|",
    ]
    for case in cases():
        inside, below, above = case.measure()
        ignored = f"{case.measure(clustered=False).inside:.3f}" if "frames" in case.name else "–"
        lines.append(f"| {case.name} | {inside:.3f} | {below:.3f} | {above:.3f} | {ignored} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
