"""Steps that geometric methods share: clouds at unit scale, normals, FPFH features, mutual matches, and a checked pose.

Every radius is a fraction of the pair's scale, so that an object in millimetres, a unit object and a room in metres are
treated alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, unknown
from common.kinds import DataKind
from common.text import counted
from methods.core.base import Cloud, LogUniform, Method, NoSolution, Pose, rigid
from methods.geometry import fpfh
from methods.geometry.open3d_bridge import open3d, point_cloud
from methods.geometry.settings import FeatureSettings, feature_settings, voxel_means
from methods.geometry.viewpoint import viewpoint

if TYPE_CHECKING:
    from methods.geometry.learned_matches import Described

Points = NDArray[np.float64]
Matches = NDArray[np.intp]
Normals = NDArray[np.float64]
Row = Sequence[float]

FEATURES = ("fpfh", "learned")
"""Local features by which points are matched."""
ORIENTATIONS = ("outward", "tangent_plane", "viewpoint", "none")
"""Ways to orient normals, see `normals`."""
SETTINGS = ("normal_radius", "feature_radius", "feature_neighbours", "orientation")
"""Parameters of `FeatureMethod` that replace a value of `FeatureSettings`."""
_ROUNDING = 4 * float(np.finfo(np.float32).eps)
"""Relative rounding error of coordinates in float32."""
QUANTILE = 0.95
"""Quantile of the distances from the centroid that defines the scale: few far outliers do not change it."""


class UnitPair(NamedTuple):
    """Two clouds (N, 3) and (M, 3), each centred on its centroid and divided by a common scale."""

    source: Points
    target: Points
    source_centre: Points
    target_centre: Points
    scale: float

    def to_unit(self, T: Pose) -> Pose:
        """Convert a pose (4, 4) between the original clouds to one between the unit clouds."""
        moved = T[:3, :3] @ self.source_centre + T[:3, 3] - self.target_centre
        return rigid(T[:3, :3], moved / self.scale)

    def to_original(self, T: NDArray[Any]) -> Pose:
        """Convert a pose (4, 4) between the unit clouds to one between the original clouds.

        Raises:
            NoSolution: the pose is not finite, or its rotation is not one (to 1e-6).
        """
        T = np.array(T, dtype=np.float64)
        rows = T.ravel().tolist()
        if not all(map(math.isfinite, rows)):
            raise NoSolution("the solver's pose is not finite")
        if not _is_rotation(rows[:3], rows[4:7], rows[8:11]):
            raise NoSolution("the solver's rotation is not a rotation")
        T[:3, 3] = self.scale * T[:3, 3] + self.target_centre - T[:3, :3] @ self.source_centre
        T[3] = 0, 0, 0, 1
        return T


def _is_rotation(first: Row, second: Row, third: Row) -> bool:
    """Return whether the rows of a matrix are orthonormal and right-handed, to 1e-6.

    Two are checked for length and angle, the third against their cross product.
    """
    (a, b, c), (d, e, f), (g, h, i) = first, second, third
    unit = (a * a + b * b + c * c - 1, d * d + e * e + f * f - 1, a * d + b * e + c * f)
    cross = (b * f - c * e - g, c * d - a * f - h, a * e - b * d - i)
    return max(map(abs, unit + cross)) <= 1e-6


def unit_pair(source: Cloud, target: Cloud) -> UnitPair:
    """Check two clouds and bring both to unit scale, in few operations because some methods take only 4 ms.

    The scale is the mean over the clouds of the 95 % quantile of the distances from the centroid: invariant to rotation, and
    about 0.87 for objects whose farthest point is at 1.

    Raises:
        NoSolution: a cloud does not determine a pose: wrong shape, not finite, fewer than 3 points, all equal, or all on a
            line (to float32 rounding).
    """
    n, _ = _size(source, "source"), _size(target, "target")
    points = np.concatenate((source, target), dtype=np.float64)
    clouds = points[:n], points[n:]
    centres = _to_centroid(clouds[0], "source"), _to_centroid(clouds[1], "target")
    squares = np.einsum("ij,ij->i", points, points)
    parts = squares[:n], squares[n:]
    for name, cloud, centre, part in zip(("source", "target"), clouds, centres, parts, strict=True):
        _refuse_degenerate(name, cloud, centre, part)
    scale = (radius(parts[0]) + radius(parts[1])) / 2
    points /= scale
    return UnitPair(*clouds, *centres, scale)


def _size(cloud: Cloud, name: str) -> int:
    """Return the number of points of a cloud; raise `NoSolution` for a wrong shape or too few points."""
    shape = np.shape(cloud)
    if len(shape) != 2 or shape[1] != 3:
        raise NoSolution(f"the {name} has shape {shape}, not (N, 3)")
    if shape[0] < 3:
        raise NoSolution(f"the {name} has {counted(shape[0], 'point')}; a pose needs 3")
    return shape[0]


def _to_centroid(cloud: Points, name: str) -> Points:
    """Centre a cloud (N, 3) in place; return its centroid (3,)."""
    centre = np.einsum("ij->j", cloud) / len(cloud)
    if not all(map(math.isfinite, centre.tolist())):
        raise NoSolution(f"the {name} has coordinates that are not finite")
    cloud -= centre
    return centre


def _refuse_degenerate(name: str, cloud: Points, centre: Points, squares: Points) -> None:
    """Raise `NoSolution` if a centred cloud (N, 3), with squared distances (N,) from its centroid, determines no pose."""
    rounding = _ROUNDING * (math.sqrt(squares.max()) + max(map(abs, centre.tolist())))
    first, second = _deviations(cloud.T @ cloud / len(cloud))
    if first <= rounding:
        raise NoSolution(f"all points of the {name} are equal")
    if second <= max(rounding, 1e-6 * first):
        raise NoSolution(f"all points of the {name} lie on a line")


def _deviations(covariance: Points) -> tuple[float, float]:
    """Estimate the largest and the middle standard deviation of a cloud from the characteristic polynomial's coefficients."""
    (a, b, c), (_, d, e), (_, _, f) = covariance.tolist()
    trace, minors = a + d + f, (a * d - b * b) + (a * f - c * c) + (d * f - e * e)
    return math.sqrt(trace), math.sqrt(max(minors, 0.0) / trace) if trace else 0.0


def radius(squares: Points) -> float:
    """Compute the quantile of distances from their squares (N,), which are reordered; in a fifth of the time of np.quantile."""
    position = QUANTILE * (len(squares) - 1)
    low = int(position)
    squares.partition((low, low + 1))
    below, above = map(math.sqrt, squares[low : low + 2].tolist())
    return below + (above - below) * (position - low)


def nearest_rotation(R: NDArray[Any]) -> Points:
    """Return the rotation (3, 3) nearest to a matrix that is a rotation up to a library's rounding."""
    U, _, Vt = np.linalg.svd(np.asarray(R, dtype=np.float64))
    return np.asarray(U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt)


def normals(points: Points, radius: float, orientation: str) -> Normals:
    """Estimate the unit normals (N, 3) of a centred cloud, from at most 30 neighbours within the radius.

    Args:
        points: (N, 3).
        radius: neighbourhood, in the unit of the points.
        orientation: "outward" points each away from the centroid (correct for whole objects, and consistent between the two
            clouds, which FPFH needs); "tangent_plane" makes neighbours agree along a spanning tree, then flips all
            together so that most point outward; "viewpoint" points each towards the estimated viewpoint of a scan; "none"
            keeps the signs of the eigenvectors.
    """
    o3d = open3d()
    cloud = point_cloud(points)
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamHybrid(radius, 30))
    if orientation == "tangent_plane":
        cloud.orient_normals_consistent_tangent_plane(min(12, len(points) - 1))
    n = np.asarray(cloud.normals).copy()
    outward = np.einsum("ij,ij->i", n, points)
    if orientation == "tangent_plane":
        return n if outward.sum() >= 0 else -n
    if orientation == "outward":
        n[outward < 0] *= -1
    if orientation == "viewpoint":
        n[np.einsum("ij,ij->i", n, viewpoint(points, n) - points) < 0] *= -1
    return n


def require_positive(method: Method, *but: str) -> None:
    """Raise `InputError` for a numeric parameter, except those named in `but`, that is not finite and above 0."""
    for field in fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        if field.name not in but and isinstance(value, int | float) and not 0 < value < np.inf:
            name = type(method).__name__.lower()
            raise InputError(f"{name}[{field.name}={value}]: not above 0; the default is {field.default}")


class FeatureMethod(Method):
    """Base of the methods on matches of local features. Radii are fractions of the pair's scale.

    A setting that is None follows from the kind of the data and the resolution of the clouds (`methods.geometry.settings`).

    Parameters:
        features: "fpfh", or "learned" for the descriptor that was trained on `rooms`; it has no parameters, and clouds are not
            thinned for it unless `voxel` is given. `sc2_pcr`, `turbo_reg` and `mac` also take "both", the matches of both.
        voxel: edge of the cells whose means replace the points; 0 keeps all points, as for objects.
        normal_radius: neighbourhood of the normals; .2 for objects.
        feature_radius: neighbourhood of the FPFH features (Rusu 2009); .5 for objects.
        feature_neighbours: maximum number of neighbours of FPFH within that radius; 100 for objects.
        orientation: of the normals, see `normals`; outward for objects.
    """

    environment = {"OPENBLAS_NUM_THREADS": "1"}  # products are computed on threads that would wait for those of BLAS
    search = {
        "normal_radius": LogUniform(0.08, 0.5),
        "feature_radius": LogUniform(0.2, 1.0),
        "feature_neighbours": (50, 100, 200, 400),
        "orientation": ("outward", "tangent_plane", "none"),
    }

    object_distance: ClassVar[float] = 0.06
    """Maximum error of a correct match of whole objects."""

    known_features: ClassVar[tuple[str, ...]] = FEATURES
    """Values of `features`."""

    features: str = "fpfh"
    voxel: float | None = None
    normal_radius: float | None = None
    feature_radius: float | None = None
    feature_neighbours: int | None = None
    orientation: str | None = None

    def __post_init__(self) -> None:
        require_positive(self, "voxel")
        if self.voxel is not None and not 0 <= self.voxel < np.inf:
            raise InputError(f"{type(self).__name__.lower()}[voxel={self.voxel}]: not 0 or above; 0 keeps all points")
        if self.orientation not in (None, *ORIENTATIONS):
            raise unknown("orientation", self.orientation, ORIENTATIONS)
        if self.features not in self.known_features:
            raise unknown("features", self.features, self.known_features)

    @property
    def learned(self) -> bool:
        """Whether the learned descriptor is used, alone or beside FPFH."""
        return self.features != "fpfh"

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load the weights of learned features, or the kernel of FPFH, which builds it on first use; see `Method.setup`."""
        if self.features != "learned":
            self.note(features=fpfh.implementation())
        if self.learned:
            from methods.geometry.learned_matches import LearnedMatcher

            self.state["matcher"] = LearnedMatcher.load()
            self.note(**self.state["matcher"].provenance)

    def prepared(self, source: Cloud, target: Cloud) -> tuple[UnitPair, FeatureSettings]:
        """Return the pair at unit scale, thinned as the settings require, and the settings.

        Raises:
            NoSolution: a cloud does not determine a pose, see `unit_pair`, or fewer than 3 of its cells are occupied.
        """
        pair = unit_pair(source, target)
        given = {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}
        settings = replace(feature_settings(self.data_kind, pair.source, pair.target, self.voxel), **given)
        if self.learned and self.voxel is None:
            return pair, settings
        return self.thinned(pair, settings.voxel), settings

    def thinned(self, pair: UnitPair, voxel: float) -> UnitPair:
        """Return a pair with the means of the points in cells of edge `voxel`, or as it is if that is 0.

        Raises:
            NoSolution: fewer than 3 of a cloud's cells are occupied.
        """
        if voxel == 0:
            return pair
        with self.stage("thinning"):
            clouds = [voxel_means(cloud, voxel) for cloud in (pair.source, pair.target)]
        if min(map(len, clouds)) < 3:
            raise NoSolution(f"fewer than 3 cells of {voxel:.3g} contain points; a pose needs 3")
        return pair._replace(source=clouds[0], target=clouds[1])

    def inlier_distance(self, given: float | None, settings: FeatureSettings) -> float:
        """Return the maximum error of a correct match: the given one, else that of objects or of the settings."""
        if given is not None:
            return given
        return self.object_distance if self.data_kind == DataKind.OBJECTS else settings.distance

    def matches(
        self,
        pair: UnitPair,
        settings: FeatureSettings,
        mutual: bool = True,
        described: tuple[Described, Described] | None = None,
    ) -> Matches:
        """Return index pairs (K, 2), K >= 3, of source points and their nearest target points in feature space.

        Args:
            pair: clouds at unit scale.
            settings: of normals and features.
            mutual: whether each must be the nearest to the other; else every source point has a match.
            described: the learned descriptors of both clouds, if they are computed already.

        Raises:
            NoSolution: fewer than 3 matches.
        """
        if self.learned:
            matches = self._learned_matches(described or self.described(pair))
        else:
            matches = self.fpfh_matches(pair, settings, mutual)
        self.note(matches=len(matches))
        if len(matches) < 3:
            raise NoSolution(f"{len(matches)} {'mutual ' * mutual}matches of {self.features} features; a pose needs 3")
        return matches

    def described(self, pair: UnitPair) -> tuple[Described, Described]:
        """Return the learned descriptors of both clouds."""
        with self.stage("features"):
            both: tuple[Described, Described] = self.state["matcher"].describe_both(pair.source, pair.target)
        return both

    def _learned_matches(self, described: tuple[Described, Described]) -> Matches:
        """Return index pairs (K, 2) of points whose learned descriptors are each other's nearest.

        One-way matches are not used: with this descriptor, mutual ones are right more often, and enough.
        """
        with self.stage("matching"):
            matches: Matches = self.state["matcher"].mutual(*described)
        return matches

    def fpfh_matches(self, pair: UnitPair, settings: FeatureSettings, mutual: bool) -> Matches:
        """Return index pairs (K, 2) of points whose FPFH features are nearest, see `matches`."""
        clouds = pair.source, pair.target
        with self.stage("normals"):
            directions = [normals(c, settings.normal_radius, settings.orientation) for c in clouds]
        with self.stage("features"):
            about = settings.feature_radius, settings.feature_neighbours
            source, target = (fpfh.describe(c, n, *about) for c, n in zip(clouds, directions, strict=True))
        with self.stage("matching"):
            return fpfh.matches(source, target, mutual)

    def matched_points(
        self,
        pair: UnitPair,
        settings: FeatureSettings,
        limit: int,
        mutual: bool = True,
        described: tuple[Described, Described] | None = None,
    ) -> tuple[Points, Points]:
        """Return the matched points (K, 3) of both clouds, evenly subsampled to at most `limit` matches; see `matches`."""
        matches = self.matches(pair, settings, mutual, described)
        if len(matches) > limit:
            matches = matches[np.linspace(0, len(matches) - 1, limit).astype(np.intp)]
        return pair.source[matches[:, 0]], pair.target[matches[:, 1]]
