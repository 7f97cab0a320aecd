"""Base classes of data sets: sources of objects (`DataSet`) and of real pairs (`PairSet`).

The registry finds a subclass by its file, in this folder or in a `--plugins` folder, and names it after the file.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng as rng_of
from common.kinds import DataKind
from common.text import counted
from datasets.download import Archive

Points = NDArray[np.float64]


class NotEnoughPoints(ValueError):
    """An object has too few distinct points. The problem is `skipped` with this reason."""


class Shape(ABC):
    """Object with a name, a category, a rotational symmetry and a surface.

    `symmetry` is a name that `datasets.symmetry` defines ("C1", "C4", "Dinf", …); None where it is unknown.
    """

    name: str
    category: str
    symmetry: str | None

    @property
    def symmetry_frame(self) -> NDArray[np.float64]:
        """Pose (4, 4), in the object's frame, of the frame that `symmetry` refers to; the identity by default."""
        return np.eye(4)

    @abstractmethod
    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        """Draw `count` independent samples, (points, 3) float64 each, that share no point.

        Raises:
            NotEnoughPoints: the object is a fixed point set and has fewer than points x count.
        """


@dataclass(frozen=True, eq=False)
class PointShape(Shape):
    """Object given by fixed points (P, 3). Samples are disjoint subsets; no point is repeated."""

    name: str
    category: str
    cloud: NDArray[Any]
    symmetry: str | None = None

    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        """Draw disjoint random subsets of the points."""
        available = len(self.cloud)
        if points * count > available:
            raise NotEnoughPoints(f"{self.name} has {available} fixed points; {count} x {points} are needed")
        order = rng.permutation(available)[: points * count].reshape(count, points)
        return [np.asarray(self.cloud[rows], dtype=np.float64) for rows in order]


@dataclass(frozen=True, eq=False)
class MeshShape(Shape):
    """Object given by triangles (T, 3, 3); samples are uniform by area, of any size."""

    name: str
    category: str
    triangles: Points
    symmetry: str | None = None
    _cumulative: list[NDArray[np.float64]] = field(default_factory=list, repr=False)

    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        """Draw points uniformly by area."""
        if not self._cumulative:
            self._cumulative.append(triangle_areas(self.triangles).cumsum())
        both = sample_triangles(self.triangles, self._cumulative[0], points * count, rng)
        return list(both.reshape(count, points, 3))


def triangle_areas(triangles: Points) -> NDArray[np.float64]:
    """Compute the areas (T,) of triangles (T, 3, 3)."""
    first, second, third = np.ascontiguousarray(triangles.transpose(1, 2, 0))
    (x, y, z), (u, v, w) = second - first, third - first
    squares = np.square(y * w - z * v)
    squares += np.square(z * u - x * w)
    squares += np.square(x * v - y * u)
    return np.asarray(0.5 * np.sqrt(squares, out=squares))


def sample_triangles(triangles: Points, cumulative: NDArray[np.float64], n: int, rng: np.random.Generator) -> Points:
    """Draw n points (n, 3), uniform by area, on triangles (T, 3, 3) with cumulative areas (T,)."""
    u = rng.random((3, n))
    rows = np.minimum(np.searchsorted(cumulative, u[0] * cumulative[-1], side="right"), len(triangles) - 1)
    a, b, c = np.ascontiguousarray(triangles[rows].transpose(1, 2, 0))  # long rows take less time
    root, second = np.sqrt(u[1]), u[2]
    return np.asarray(((1 - root) * a + root * (1 - second) * b + root * second * c).T)


def centred_in_unit_sphere(triangles: Points) -> Points:
    """Move triangles (T, 3, 3) so that the surface's centroid is 0, and scale them so that the farthest vertex is at 1.

    The result is a view of an array (3, 3, T), in which `triangle_areas` takes less time.
    """
    corners = np.array(triangles.transpose(1, 2, 0), dtype=np.float64, order="C")
    areas = triangle_areas(corners.transpose(2, 0, 1))
    area = portable.total(areas) if len(areas) else 0.0
    if not area > 0:
        raise ValueError("the surface has no area")
    weighted = corners[0] + corners[1]
    weighted += corners[2]
    weighted /= 3
    weighted *= areas
    corners -= (weighted.cumsum(axis=1)[:, -1] / area)[:, None]
    squares = np.square(corners)
    farthest = (squares[:, 0] + squares[:, 1] + squares[:, 2]).max()
    corners /= np.sqrt(farthest)
    return corners.transpose(2, 0, 1)


class Data(ABC):
    """Common base of data sets of objects and of pairs.

    Annotated fields of a subclass are its parameters (`folder[path=scans]`), each with a default value; `root`, the folder given
    by `--data`, is not a parameter. Files are read when first needed and then cached (`cached_property`).

    Class attributes: `licence`, `where` (how to get the data), `kind` (of the clouds; methods adapt their settings to it).
    """

    licence: ClassVar[str] = ""
    where: ClassVar[str] = ""
    kind: ClassVar[DataKind] = DataKind.OBJECTS
    name: str = ""
    """Name in the registry."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ != __name__:  # fields of the base classes below are not parameters
            dataclass(init=False, eq=False, repr=False)(cls)

    def __init__(self, root: Path | None = None, **parameters: Any) -> None:
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(self)  # type: ignore[arg-type]
        if surplus := set(parameters) - {f.name for f in fields}:
            raise TypeError(f"{type(self).__name__} has no parameter {', '.join(sorted(surplus))}")
        self.root = root
        for parameter in fields:
            setattr(self, parameter.name, parameters.get(parameter.name, parameter.default))
        self.check()

    def check(self) -> None:  # noqa: B027 - most data sets have nothing to check
        """Raise ValueError if a parameter is out of range."""

    @property
    def domain(self) -> str:
        """Name of the kind of data, by which learned methods choose their weights."""
        return self.name

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Archives that `bench.py data` can download."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the data that a run prints, such as the number of skipped files."""
        return ()

    def contents(self, split: str) -> dict[str, Any]:
        """Identify the copy of the data on disk, for data sets with several versions: counts and SHA-256, as JSON values."""
        return {}

    @abstractmethod
    def prepare(self) -> str:
        """Read everything once to check and cache it; return a summary in words."""

    def place(self, path: str) -> Path:
        """Return the path of a file or folder given as a parameter: below the data root, else below the current folder.

        Raises:
            InputError: it exists in neither.
        """
        root = self.root or Path("data")
        for candidate in (root / path, Path(path)):
            if path and candidate.exists():
                return candidate
        raise InputError(
            f"{self.name}: path '{path}' is neither below {root} nor below the current folder; {self.where}"
        )


class DataSet(Data):
    """Source of objects in a train and a test split.

    `categories` are names in the order of their labels; `fixed_points` is the number of points that every object has, None
    if objects are surfaces, which can be sampled at any number of points.
    """

    categories: tuple[str, ...]
    fixed_points: int | None = None

    def prepare(self) -> str:
        """Read both splits and return their sizes."""
        counts = {split: self.labels(split) for split in ("train", "test")}
        return ", ".join(
            "endless " + split + " objects" if k is None else counted(len(k), f"{split} object")
            for split, k in counts.items()
        )

    @abstractmethod
    def labels(self, split: str) -> NDArray[np.integer[Any]] | None:
        """Return the labels (n,) of the objects of a split; None if it is endless (label = index mod categories)."""

    @abstractmethod
    def shape(self, split: str, index: int) -> Shape:
        """Return the object with an index in a split."""

    def point_counts(self, split: str) -> NDArray[np.integer[Any]] | None:
        """Return the number of fixed points (n,) of each object of a split; None if all objects have `fixed_points` or more."""
        return None

    def points_for(self, requested: int, needed: int) -> tuple[int | None, str]:
        """Return the points of the smallest object that can be used, and a remark on those that are left out.

        Args:
            requested: points of a cloud.
            needed: points of an object for both clouds.
        """
        return self.fixed_points, ""

    def pick(self, split: str, number: int, seed: int, labels: tuple[int, ...] | None = None, least: int = 0) -> int:
        """Return the index of the object of problem `number`, in a seeded order over the objects of some labels.

        Finite splits are permuted (and repeated when used up); endless ones cycle through the categories. Objects of fewer than
        `least` fixed points are left out.
        """
        chosen = labels if labels is not None else tuple(range(len(self.categories)))
        known = self.labels(split)
        if known is None:
            cycle, position = divmod(number, len(chosen))
            return (_first_cycle(split, seed) + cycle) * len(self.categories) + chosen[position]
        order = self._order(split, seed, chosen, least)
        return int(order[number % len(order)])

    def _order(self, split: str, seed: int, labels: tuple[int, ...], least: int) -> NDArray[np.integer[Any]]:
        """Return the seeded order of a finite split's objects of some labels; computed once."""
        orders: dict[Any, NDArray[np.integer[Any]]] = self.__dict__.setdefault("_orders", {})
        key = (split, seed, labels, least)
        if key not in orders:
            known, counts = self.labels(split), self.point_counts(split)
            assert known is not None
            usable = np.isin(known, labels) & (True if counts is None else counts >= least)
            rows = np.flatnonzero(usable)
            if not len(rows):
                few = f" of {least} points or more" if counts is not None else ""
                raise InputError(
                    f"{self.name or type(self).__name__}: no {split} object of these categories{few}; choose another condition"
                )
            orders[key] = rng_of("order", split, seed).permutation(rows)
        return orders[key]


@lru_cache
def _first_cycle(split: str, seed: int) -> int:
    """Return the number of the first cycle through the categories of an endless split."""
    return int(rng_of("pick", split, seed).integers(2**20))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two real scans and their true relative pose.

    Attributes:
        name, scene: name of the pair, and of its scene, which is its category.
        source, target: (N, 3) and (M, 3), each in its own frame; in metres unless the data set says otherwise.
        T_target_source: (4, 4) float64, maps source points into the target's frame.
        overlap: share of the source that the target also shows (`fragments`: of the target); NaN where it is unknown.
        information: (6, 6) matrix of `gt.info`, None where it is missing.
        source_pose, symmetry, evaluation, origin: fields of an exported problem (see `datasets.problems.Problem`).
    """

    name: str
    scene: str
    source: NDArray[Any]
    target: NDArray[Any]
    T_target_source: NDArray[np.float64]
    overlap: float = float("nan")
    information: NDArray[np.float64] | None = None
    source_pose: NDArray[np.float64] = field(default_factory=lambda: np.eye(4))
    symmetry: str | None = None
    evaluation: NDArray[np.float32] | None = None
    origin: tuple[str, int] | None = None


class PairSet(Data):
    """Source of real pairs with given poses. Its only condition is `real`; a run uses no pair twice."""

    shuffled: ClassVar[bool] = True
    """Whether pairs come in a seeded order, so that the first few cover all scenes, or in the order of the file."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of pairs."""

    @abstractmethod
    def pair(self, row: int) -> Pair:
        """Return the pair of a row, 0 <= row < len."""

    def pick(self, number: int, seed: int) -> int:
        """Return the row of the pair of problem `number`."""
        if not self.shuffled:
            return number
        orders: dict[int, NDArray[np.intp]] = self.__dict__.setdefault("_orders", {})
        if seed not in orders:
            orders[seed] = rng_of("pairs", seed).permutation(len(self))
        return int(orders[seed][number])

    def prepare(self) -> str:
        """Find all pairs and return their number in words."""
        return counted(len(self), "pair")
