"""Open3D, imported lazily and configured for a benchmark: a fixed number of threads, no output."""

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
    """Import Open3D and limit it to BENCH_THREADS threads (default 1).

    Its Linux wheel needs libusb-1.0.so.0, which minimal systems lack, so the copy in `libusb-package` is loaded first.
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
    """Build an Open3D point cloud of points (N, 3), with optional normals (N, 3)."""
    o3d = open3d()
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(np.asarray(points, dtype=np.float64)))
    if normals is not None:
        cloud.normals = o3d.utility.Vector3dVector(np.asarray(normals, dtype=np.float64))
    return cloud


def pairs(matches: NDArray[np.intp]) -> Any:
    """Convert index pairs (K, 2) to Open3D's type."""
    return open3d().utility.Vector2iVector(np.ascontiguousarray(matches, dtype=np.int32))
