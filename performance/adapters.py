"""Measure the overhead of the adapters: each method beside a direct call of its library on the same clouds.

    python -m performance.adapters [ROUNDS [METHOD …]]

Both alternate in one process; printed are medians and their ratio. The direct call receives what the adapter passes on:
clouds at unit scale, the same initial pose if the method takes one, and matches if it starts from matches. The solver of
`ransac10k` has no library; its direct call differs in the features and matches. Times are of the processor.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.base import Method
from methods.core.registry import MethodRegistry
from methods.geometry.features import UnitPair, normals, unit_pair
from methods.geometry.open3d_bridge import open3d, pairs, point_cloud
from methods.geometry.ransac import ransac
from methods.geometry.settings import OBJECTS
from methods.native import teaser

POINTS = (1024, 4096)
Call = Callable[[], object]


def bare(method: Method, name: str, problem: Problem) -> Call:
    """Return the direct library calls of a method, from clouds at unit scale to the pose."""
    pair = unit_pair(problem.source, problem.target)
    return BARE[name](method, pair)


class FeatureSettings(Protocol):
    """Parameters of FPFH features, as in `FeatureMethod`."""

    @property
    def normal_radius(self) -> float: ...
    @property
    def feature_radius(self) -> float: ...
    @property
    def feature_neighbours(self) -> int: ...
    @property
    def orientation(self) -> str: ...


def fpfh(by: FeatureSettings, pair: UnitPair) -> tuple[list[Any], list[Any]]:
    """Return Open3D clouds with normals, and their FPFH features."""
    search = open3d().geometry.KDTreeSearchParamHybrid(by.feature_radius, by.feature_neighbours)
    clouds = [point_cloud(c, normals(c, by.normal_radius, by.orientation)) for c in (pair.source, pair.target)]
    return clouds, [open3d().pipelines.registration.compute_fpfh_feature(cloud, search) for cloud in clouds]


def _matches(pair: UnitPair) -> tuple[list[Any], NDArray[np.int32]]:
    """Return Open3D clouds with normals, and index pairs (K, 2) of their mutual FPFH matches."""
    clouds, features = fpfh(OBJECTS, pair)
    return clouds, np.asarray(open3d().pipelines.registration.correspondences_from_features(*features, True, 0.0))


def _bare_fgr(method: Method, pair: UnitPair) -> Call:
    registration = open3d().pipelines.registration
    option = registration.FastGlobalRegistrationOption(
        use_absolute_scale=True, decrease_mu=True, maximum_correspondence_distance=method.object_distance
    )

    def run_open3d() -> object:
        clouds, index_pairs = _matches(pair)
        return registration.registration_fgr_based_on_correspondence(*clouds, pairs(index_pairs), option)

    return run_open3d


def _bare_ransac(method: Method, pair: UnitPair) -> Call:
    def run_open3d() -> object:
        index_pairs = _matches(pair)[1][: method.limit]
        p, q = pair.source[index_pairs[:, 0]], pair.target[index_pairs[:, 1]]
        return ransac(p, q, method.iterations, method.object_distance, method.edge_ratio, np.random.default_rng(0))

    return run_open3d


def _bare_teaser(method: Method, pair: UnitPair) -> Call:
    def run_open3d() -> object:
        index_pairs = _matches(pair)[1][: method.limit]
        p, q = pair.source[index_pairs[:, 0]], pair.target[index_pairs[:, 1]]
        return teaser.solve(p, q, method.object_distance, method.clique_seconds)

    return run_open3d


def _bare_cpd(method: Method, pair: UnitPair) -> Call:
    from pycpd import RigidRegistration

    T = pair.to_unit(np.eye(4))
    p, q = (c[np.linspace(0, len(c) - 1, method.limit).astype(int)] for c in (pair.source, pair.target))
    options = {"w": method.outliers, "max_iterations": method.iterations, "tolerance": method.tolerance}
    return lambda: RigidRegistration(X=q, Y=p @ T[:3, :3].T + T[:3, 3], scale=False, **options).register()


def _bare_gicp(method: Method, pair: UnitPair) -> Call:
    import small_gicp

    return lambda: small_gicp.align(
        pair.target,
        pair.source,
        pair.to_unit(np.eye(4)),
        registration_type=method.kind_of,
        voxel_resolution=5 * method.voxel,
        downsampling_resolution=method.voxel,
        max_correspondence_distance=method.distance,
        max_iterations=method.iterations,
    )


def _bare_kiss(method: Method, pair: UnitPair) -> Call:
    import kiss_matcher

    config = kiss_matcher.KISSMatcherConfig(
        voxel_size=method.voxel, normal_r_gain=method.normal_gain, fpfh_r_gain=method.feature_gain
    )
    clouds = [c.astype(np.float32) for c in (pair.source, pair.target)]
    return lambda: kiss_matcher.KISSMatcher(config).estimate(*clouds)


def _bare_fricp(method: Method, pair: UnitPair) -> Call:
    import fricp_cpp

    native = fricp_cpp.native
    return lambda: native.register_(pair.source, pair.target, native.Method.RICP, init=pair.to_unit(np.eye(4)))


BARE = {
    "fgr": _bare_fgr,
    "ransac10k": _bare_ransac,
    "teaser": _bare_teaser,
    "small_gicp": _bare_gicp,
    "kiss_matcher": _bare_kiss,
    "fricp": _bare_fricp,
    "cpd": _bare_cpd,
}


def timed(call: Call) -> float:
    """Return the milliseconds of processor time of a call."""
    start = time.process_time()
    call()
    return 1e3 * (time.process_time() - start)


def compared(name: str, points: int, rounds: int) -> tuple[float, float, float]:
    """Return median milliseconds of the adapter and of the direct call, which alternate, and the median ratio of a round."""
    method = MethodRegistry().spec(name).build()
    problem = make_problem(
        DataRegistry.at().spec("shapes40").objects(), ProblemKey("shapes40", "noisy", points, 3, angles=(0.0, 20.0))
    )

    def ours() -> float:
        method.begin(0)  # done by the harness outside the measured time
        return timed(lambda: method.register(problem.source, problem.target))

    theirs = bare(method, name, problem)
    ours(), theirs()
    times = np.array([(ours(), timed(theirs)) for _ in range(rounds)])
    return (*np.median(times, axis=0), float(np.median(times[:, 0] / times[:, 1])))


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    if hasattr(
        os, "sched_setaffinity"
    ):  # one processor, as in a run: some libraries start one thread per visible processor
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| method | points | adapter ms | library ms | ratio |\n|---|---:|---:|---:|---:|")
    for name in sys.argv[2:] or BARE:
        if reason := MethodRegistry().spec(name).unavailable():
            print(f"| {name} | {reason} |")
            continue
        for points in POINTS:
            ours, theirs, ratio = compared(name, points, rounds)
            print(f"| {name} | {points} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
