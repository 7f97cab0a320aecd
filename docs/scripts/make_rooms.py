"""Write docs/rooms.png, a room of each kind, and print statistics of `rooms` beside those of real fragments.

`python -m docs.scripts.make_rooms [DATA_SET …]`, such as `"fragments[path=3dmatch/7-scenes-redkitchen]"`, below $BENCH_DATA.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bench.report import style
from common.keys import rng
from datasets.base import Pair, PairSet
from datasets.indoor.camera import Camera, render
from datasets.indoor.fragments import paths
from datasets.indoor.layout import KINDS, furnished
from datasets.poses import move
from datasets.registry import DataRegistry
from datasets.rooms import scene_name
from docs.scripts.pictures import save
from methods.geometry.features import FeatureMethod, unit_pair
from methods.geometry.patches import thinned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
VOXEL, NEAR = 0.025, 0.1
"""Grid to which clouds are thinned before they are compared, and the radius of neighbourhoods and of correct matches."""
BINS = (0.1, 0.3, 0.5, 0.7, 0.9)
MOST_PAIRS = 45
SHOWN = (13, 1, 2, 0, 11, 3)
"""Numbers of the test rooms in the picture: one of each kind, whose first view is not of a bare wall."""


def surface(cloud: NDArray[Any]) -> tuple[float, float, float, float]:
    """Return points, median spacing (mm), share of planar points, and median distance (mm) to their planes."""
    points = thinned(np.asarray(cloud, dtype=np.float64), VOXEL)
    tree = cKDTree(points)
    sample = points[:: max(1, len(points) // 400)]
    spacing = np.median(tree.query(sample, 2)[0][:, 1])
    spreads = []
    for rows in tree.query_ball_point(sample, NEAR):
        if len(rows) >= 8:
            spreads.append(np.linalg.eigvalsh(np.cov(points[rows].T)).clip(0))
    eigenvalues = np.array(spreads)
    planar = eigenvalues[:, 0] < 0.02 * eigenvalues.sum(axis=1)
    return len(points), 1000 * spacing, planar.mean(), 1000 * np.median(np.sqrt(eigenvalues[planar, 0]))


def normal_noise(pair: Pair) -> float:
    """Return the median angle in degrees between the normals of planar points of the source and of their partners."""
    source, target = (thinned(np.asarray(c, dtype=np.float64), VOXEL) for c in (pair.source, pair.target))
    source = move(pair.T_target_source, source)
    trees = cKDTree(source), cKDTree(target)
    angles = []
    for point in source[:: max(1, len(source) // 150)]:
        rows = [tree.query_ball_point(point, NEAR) for tree in trees]
        if min(map(len, rows)) < 12:
            continue
        fits = [np.linalg.eigh(np.cov(cloud[r].T)) for cloud, r in zip((source, target), rows, strict=True)]
        if all(values[0] < 0.02 * values.sum() for values, _ in fits):
            cosine = abs(fits[0][1][:, 0] @ fits[1][1][:, 0])
            angles.append(np.degrees(np.arccos(min(cosine, 1.0))))
    return float(np.median(angles)) if angles else float("nan")


def fpfh_inliers(pair: Pair, points: int = 3000) -> float:
    """Return the share of mutual FPFH matches within 10 cm at the true pose."""
    draw = np.random.default_rng(0)
    clouds = [c[draw.permutation(len(c))[:points]] for c in (pair.source, pair.target)]
    unit = unit_pair(*clouds)
    method = FeatureMethod(normal_radius=0.1 / unit.scale, feature_radius=0.25 / unit.scale, orientation="none")
    rows = method.matches(unit)
    moved = move(pair.T_target_source, clouds[0][rows[:, 0]])
    return float((np.linalg.norm(moved - clouds[1][rows[:, 1]], axis=1) < NEAR).mean())


def statistics(dataset: PairSet) -> list[str]:
    """Return the cells of a row of the table."""
    pairs = [dataset.pair(dataset.pick(k, 0)) for k in range(min(len(dataset), MOST_PAIRS))]
    values = np.array([surface(pair.source) for pair in pairs])
    count, spacing, planar, rough = np.median(values, axis=0)
    overlap, inliers = np.array([(pair.overlap, fpfh_inliers(pair)) for pair in pairs]).T
    noise = np.nanmedian([normal_noise(pair) for pair in pairs])
    bins = [inliers[(overlap >= a) & (overlap < b)] for a, b in pairwise(BINS)]
    shares = [f"{b.mean():.3f} ({len(b)})" if len(b) else "–" for b in bins]
    return [f"{count:.0f}", f"{spacing:.1f}", f"{planar:.2f}", f"{rough:.1f}", f"{noise:.1f}", *shares]


def draw_rooms() -> Figure:
    """Draw a test room of each kind: the first view of its camera, and the pair of middle overlap at the true pose."""
    from matplotlib.figure import Figure

    camera = Camera(width=480, height=360, focal=438.75)
    rooms = DataRegistry.at(None).spec("rooms").open()
    assert isinstance(rooms, PairSet)
    figure = Figure(figsize=(style.figure_width(), 8.2), layout="constrained")
    cells = figure.subplots(4, 3)
    for number, k in enumerate(SHOWN):
        draw, name = rng("rooms", "test", k, 0), scene_name("test", k)
        room = furnished(draw, KINDS[name.split("_")[0]])
        view = render(room.triangles, paths(draw, room, 1)[0].pose(0.0), camera)
        above, below = cells[number // 3 * 2 : number // 3 * 2 + 2, number % 3]
        above.imshow(np.where(np.isfinite(view.depth), 0.7 * view.cosine + 0.4 / (0.3 + view.depth), 0), cmap="gray")
        pair = rooms.pair(3 * k + 1)
        draw_pair(below, pair)
        above.set_title(name)
        below.set_title(f"overlap {pair.overlap:.2f}")
    for axes in cells.ravel():
        axes.axis("off")
    return figure


def draw_pair(axes: Any, pair: Pair) -> None:
    """Draw source and target of a pair at the true pose, seen from above and behind the target's camera, shaded by normals."""
    target = np.asarray(pair.target, dtype=np.float64)
    source = move(pair.T_target_source, np.asarray(pair.source, dtype=np.float64))
    points = np.concatenate([target, source])
    colours = np.repeat([to_rgb("#5b7fa6"), to_rgb(style.SOURCE)], [len(target), len(source)], axis=0)
    near = points[cKDTree(points).query(points, 12)[1]]
    normals = np.linalg.svd(near - near.mean(axis=1, keepdims=True), full_matrices=False)[2][:, 2]
    away = points - [target[:, 0].mean(), -1.2, -1.3]
    tilt = 0.35
    y = np.cos(tilt) * away[:, 1] - np.sin(tilt) * away[:, 2]
    z = np.sin(tilt) * away[:, 1] + np.cos(tilt) * away[:, 2]
    light = 0.35 + 0.65 * np.abs(normals @ [0.3, 0.75, 0.59])
    order = np.argsort(-z)
    order = order[z[order] > 0.5]
    flat = np.column_stack([away[:, 0], -y])[order] / z[order, None]
    axes.scatter(*flat.T, c=(colours * light[:, None])[order], s=4 / z[order], linewidths=0)
    low, high = np.quantile(flat, [0.005, 0.995], axis=0)
    middle, reach = (low + high) / 2, (high - low).max() * 0.53
    axes.set(
        xlim=middle[0] + np.array([-1, 1]) * reach, ylim=middle[1] + np.array([-0.75, 0.75]) * reach, aspect="equal"
    )


def main() -> None:
    """Draw the picture and print the table."""
    save(draw_rooms, (), ROOT / "docs" / "rooms.png")
    shares = " | ".join(f"{a:g} to {b:g}" for a, b in pairwise(BINS))
    print(f"| data set | points | spacing, mm | planar | off plane, mm | normals, ° | {shares} |")
    print("|---|" + "---|" * 9)
    for text in ["rooms", *sys.argv[1:]]:
        dataset = DataRegistry.at(None).spec(text).open()
        assert isinstance(dataset, PairSet)
        print(f"| `{text}` | " + " | ".join(statistics(dataset)) + " |", flush=True)


if __name__ == "__main__":
    main()
