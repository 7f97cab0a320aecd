"""What a data set is: a source of objects (`DataSet`) or of real pairs (`PairSet`).

A subclass in a file of this folder (or of a `--plugins` folder) is found by its file and named after it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng as rng_of
from datasets.download import Archive

Points = NDArray[np.float64]


class NotEnoughPoints(ValueError):
    """The object cannot give that many distinct points. The problem is `skipped` with this reason."""


class Shape(ABC):
    """One object: name, category, rotational symmetry in its own frame, and its surface.

    `symmetry` is a name `datasets.symmetry` understands ("C1", "C4", "Dinf", …); None where it is not known.
    """

    name: str
    category: str
    symmetry: str | None

    @property
    def symmetry_frame(self) -> NDArray[np.float64]:
        """The pose (4, 4) in the object's own frame of the frame in which `symmetry` is meant; mostly the same."""
        return np.eye(4)

    @abstractmethod
    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        """`count` independent samples, (points, 3) float64 each, that share no point.

        Raises:
            NotEnoughPoints: the object is a fixed point set and has fewer than points x count.
        """


@dataclass(frozen=True, eq=False)
class PointShape(Shape):
    """An object known only by fixed points (P, 3). Samples are disjoint subsets; no point is ever repeated."""

    name: str
    category: str
    cloud: NDArray[Any]
    symmetry: str | None = None

    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        have = len(self.cloud)
        if points * count > have:
            raise NotEnoughPoints(f"{self.name} has {have} fixed points; {count} x {points} distinct ones were asked")
        order = rng.permutation(have)[: points * count].reshape(count, points)
        return [np.asarray(self.cloud[rows], dtype=np.float64) for rows in order]


@dataclass(frozen=True, eq=False)
class MeshShape(Shape):
    """An object known by its triangles (T, 3, 3); samples are area-uniform and without end."""

    name: str
    category: str
    triangles: Points
    symmetry: str | None = None
    _cumulative: list[NDArray[np.float64]] = field(default_factory=list, repr=False)

    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        if not self._cumulative:
            self._cumulative.append(np.cumsum(triangle_areas(self.triangles)))
        both = sample_triangles(self.triangles, self._cumulative[0], points * count, rng)
        return list(both.reshape(count, points, 3))


def triangle_areas(triangles: Points) -> NDArray[np.float64]:
    """Areas (T,) of triangles (T, 3, 3)."""
    cross = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    return 0.5 * portable.norm(cross)


def sample_triangles(triangles: Points, cumulative: NDArray[np.float64], n: int, rng: np.random.Generator) -> Points:
    """n area-uniform points (n, 3) on triangles (T, 3, 3) with cumulative areas (T,)."""
    u = rng.random((3, n))
    chosen = triangles[np.searchsorted(cumulative, u[0] * cumulative[-1], side="right").clip(max=len(triangles) - 1)]
    root = np.sqrt(u[1])[:, None]
    second = u[2][:, None]
    return (1 - root) * chosen[:, 0] + root * (1 - second) * chosen[:, 1] + root * second * chosen[:, 2]


def centred_in_unit_sphere(triangles: Points) -> Points:
    """Triangles (T, 3, 3) moved so that the surface's centroid is 0 and scaled so that the farthest vertex is at 1."""
    areas = triangle_areas(triangles)
    whole = portable.total(areas) if len(areas) else 0.0
    if not whole > 0:
        raise ValueError("the surface has no area")
    centres = (triangles[:, 0] + triangles[:, 1] + triangles[:, 2]) / 3
    moved = triangles - portable.total(areas[:, None] * centres) / whole
    return moved / portable.norm(moved).max()


class Data(ABC):
    """What data sets of objects and of pairs have in common.

    Annotated fields of a subclass are its parameters (`folder[path=scans]`), each with a default value; `root`, the folder given
    by `--data`, is none of them. Nothing is read before it is needed, and then kept (`cached_property`).

    Class attributes: `licence`, `where` (how to get it).
    """

    licence: ClassVar[str] = ""
    where: ClassVar[str] = ""
    name: str = ""
    """What the registry knows it as."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ != __name__:  # what the bases below declare are no parameters
            dataclass(init=False, eq=False, repr=False)(cls)

    def __init__(self, root: Path | None = None, **parameters: Any) -> None:
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(self)  # type: ignore[arg-type]
        if strange := set(parameters) - {f.name for f in fields}:
            raise TypeError(f"{type(self).__name__} has no parameter {', '.join(sorted(strange))}")
        self.root = root
        for one in fields:
            setattr(self, one.name, parameters.get(one.name, one.default))
        self.check()

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Raise ValueError if a parameter is out of range."""

    @property
    def domain(self) -> str:
        """What the data are about, for learned methods to choose their weights by."""
        return self.name

    @property
    def archives(self) -> tuple[Archive, ...]:
        """What `bench.py data` can fetch of it."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a run says of the data: files left out, and the like."""
        return ()

    def contents(self, split: str) -> dict[str, Any]:
        """What copy of the data is on disk, for sets of which there are several: counts and SHA-256; plain JSON values."""
        return {}

    @abstractmethod
    def prepare(self) -> str:
        """Read everything once, so that it is checked and cached; returns what there is, in words."""

    def place(self, path: str) -> Path:
        """A file or folder given as a parameter: below the data root, else below the current folder.

        Raises:
            InputError: it is in neither.
        """
        root = self.root or Path("data")
        for found in (root / path, Path(path)):
            if path and found.exists():
                return found
        raise InputError(
            f"{self.name}: path '{path}' is neither below {root} nor below the current folder; {self.where}"
        )


class DataSet(Data):
    """A source of objects in a train and a test split.

    `categories` are names in the order of their labels; `fixed_points` is the most points an object has, None if it has
    a surface and so gives as many as asked.
    """

    categories: tuple[str, ...]
    fixed_points: int | None = None

    def prepare(self) -> str:
        """Read both splits."""
        counts = {split: self.labels(split) for split in ("train", "test")}
        return ", ".join(f"{'endless' if k is None else len(k)} {split} objects" for split, k in counts.items())

    @abstractmethod
    def labels(self, split: str) -> NDArray[np.integer[Any]] | None:
        """Label (n,) of each object of "train" or "test"; None if objects are without end (label = index mod categories)."""

    @abstractmethod
    def shape(self, split: str, index: int) -> Shape:
        """The object with that index in the split."""

    def pick(self, split: str, number: int, seed: int, labels: tuple[int, ...] | None = None) -> int:
        """The index of the object of problem `number`: a seeded order over the objects, restricted to some labels.

        Finite splits are permuted (and started again when used up); endless ones go through the categories in turn.
        """
        kinds = labels if labels is not None else tuple(range(len(self.categories)))
        known = self.labels(split)
        if known is None:
            turn, place = divmod(number, len(kinds))
            first = int(rng_of("pick", split, seed).integers(2**20))
            return (first + turn) * len(self.categories) + kinds[place]
        order = self._order(split, seed, kinds)
        return int(order[number % len(order)])

    def _order(self, split: str, seed: int, kinds: tuple[int, ...]) -> NDArray[np.integer[Any]]:
        """The seeded order of a finite split's objects of some labels, kept."""
        kept: dict[Any, NDArray[np.integer[Any]]] = self.__dict__.setdefault("_orders", {})
        key = (split, seed, kinds)
        if key not in kept:
            known = self.labels(split)
            assert known is not None
            rows = np.flatnonzero(np.isin(known, kinds))
            if not len(rows):
                raise InputError(f"{type(self).__name__}: no {split} object of the categories asked for")
            kept[key] = rng_of("order", split, seed).permutation(rows)
        return kept[key]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two real scans and the truth.

    Attributes:
        name, scene: what it is called, and what it is counted under (the category).
        source, target: (N, 3) and (M, 3), each in its own frame; in metres unless the data set says otherwise.
        T_target_source: (4, 4) float64, maps source points into the target's frame.
        overlap: share of the source that the target shows too; NaN where it is not known.
        information: (6, 6) matrix of `gt.info`, None where there is none.
        source_pose, symmetry, evaluation, origin: what an exported problem kept of its own (see `datasets.problems`).
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
    """A source of real pairs, which have their own poses. Its one condition is `real`; no pair comes twice in a run."""

    shuffled: ClassVar[bool] = True
    """Whether pairs come in a seeded order, so that the first few are of all scenes, or in that of the file."""

    @abstractmethod
    def __len__(self) -> int:
        """How many pairs there are."""

    @abstractmethod
    def pair(self, row: int) -> Pair:
        """The pair with that row, 0 <= row < len."""

    def pick(self, number: int, seed: int) -> int:
        """The row of the pair of problem `number`."""
        if not self.shuffled:
            return number
        orders: dict[int, NDArray[np.intp]] = self.__dict__.setdefault("_orders", {})
        if seed not in orders:
            orders[seed] = rng_of("pairs", seed).permutation(len(self))
        return int(orders[seed][number])

    def prepare(self) -> str:
        """Find all pairs."""
        return f"{len(self)} pairs"
