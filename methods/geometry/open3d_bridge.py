"""Open3D, imported late and set up for a benchmark: one declared thread count, seeded, silent."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


@functools.cache
def open3d() -> Any:
    """The Open3D module with BENCH_THREADS threads (default 1).

    Its Linux wheel needs libusb-1.0.so.0, which bare machines lack, so the copy in `libusb-package` is loaded first.
    Open3D's threads are TBB's: OMP_NUM_THREADS does not reach them.
    """
    if sys.platform == "linux":
        import libusb_package

        ctypes.CDLL(str(libusb_package.get_library_path()), mode=ctypes.RTLD_GLOBAL)
    import open3d as o3d

    o3d.utility.set_max_threads(max(1, int(os.environ.get("BENCH_THREADS", "1"))))
    o3d.utility.set_verbosity_level(o3d.utility.VerbosityLevel.Error)
    return o3d


def point_cloud(points: NDArray[Any], normals: NDArray[Any] | None = None) -> Any:
    """An Open3D point cloud of points (N, 3), with normals (N, 3) if given."""
    o3d = open3d()
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(np.asarray(points, dtype=np.float64)))
    if normals is not None:
        cloud.normals = o3d.utility.Vector3dVector(np.asarray(normals, dtype=np.float64))
    return cloud


def pairs(matches: NDArray[np.intp]) -> Any:
    """Index pairs (K, 2) as Open3D wants them."""
    return open3d().utility.Vector2iVector(np.ascontiguousarray(matches, dtype=np.int32))
