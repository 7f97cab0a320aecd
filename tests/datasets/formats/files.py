"""Small files of every format, as bytes."""

from __future__ import annotations

import io
import struct

import h5py
import laspy
import numpy as np
import trimesh
from pypcd4 import pypcd4

from common.keys import rng

CLOUD = rng("cloud").random((40, 3)).astype(np.float32)
MESH = trimesh.creation.icosphere(subdivisions=1)


def text(header="", separator=" ", points=CLOUD):
    rows = [separator.join(f"{v:.7f}" for v in row) for row in points]
    return (header + "\n".join(rows) + "\n").encode()


def ply(points=CLOUD, count=None, order="binary_little_endian"):
    head = f"ply\nformat {order} 1.0\nelement vertex {len(points) if count is None else count}\n"
    head += "property float x\nproperty float y\nproperty float z\nend_header\n"
    return head.encode() + (text(points=points) if order == "ascii" else np.asarray(points, "<f4").tobytes())


def pcd(encoding=pypcd4.Encoding.BINARY):
    buffer = io.BytesIO()
    pypcd4.PointCloud.from_xyz_points(CLOUD).save(buffer, encoding)
    return buffer.getvalue()


def pcd_text(points=CLOUD, data="ascii", **lines):
    """Return a PCD file whose header has the given lines; None leaves one out."""
    count = len(points)
    entries = {"VERSION": ".7", "FIELDS": "x y z", "SIZE": "4 4 4", "TYPE": "F F F", "COUNT": "1 1 1"}
    entries |= {"WIDTH": count, "HEIGHT": 1, "VIEWPOINT": "0 0 0 1 0 0 0", "POINTS": count} | lines
    head = "# .PCD\n" + "".join(f"{k} {v}\n" for k, v in entries.items() if v is not None) + f"DATA {data}\n"
    return head.encode() + (text(points=points) if data == "ascii" else np.asarray(points, "<f4").tobytes())


def las(points=CLOUD):
    buffer = io.BytesIO()
    written = laspy.create(point_format=2, file_version="1.2")
    written.header.scales = [1e-6] * 3
    written.x, written.y, written.z = np.asarray(points, float).T
    written.red = np.arange(len(points), dtype=np.uint16)
    written.write(buffer)
    return buffer.getvalue()


def npy(array=CLOUD, pickled=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def npy_header(shape, content=b"", descr="'<f8'"):
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **(arrays or {"label": np.arange(4), "points": CLOUD}))
    return buffer.getvalue()


def hdf5(write):
    """Return an HDF5 file that `write(handle)` fills."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as handle:
        write(handle)
    return buffer.getvalue()


def exported(**how):
    data = MESH.export(**how)
    return data.encode() if isinstance(data, str) else data


GOOD_CLOUDS = {
    "ascii.pcd": pcd(pypcd4.Encoding.ASCII),
    "binary.pcd": pcd(),
    "compressed.pcd": pcd(pypcd4.Encoding.BINARY_COMPRESSED),
    "binary.ply": ply(),
    "big.ply": ply(order="binary_big_endian").split(b"end_header\n")[0]
    + b"end_header\n"
    + CLOUD.astype(">f4").tobytes(),
    "ascii.ply": ply(order="ascii"),
    "spaces.xyz": text("# x y z\n"),
    "commas.txt": text(separator=", ", points=np.hstack([CLOUD, CLOUD])),
    "semicolons.csv": text("x;y;z\n", ";"),
    "counted.pts": text("40\n"),
    "cloud.asc": text(separator="\t"),
    "cloud.npy": npy(),
    "cloud.npz": npz(),
    "cloud.las": las(),
}
"""Files that hold `CLOUD`."""
GOOD_MESHES = {
    "mesh.ply": exported(file_type="ply"),
    "mesh_ascii.ply": exported(file_type="ply", encoding="ascii"),
    "mesh.obj": exported(file_type="obj"),
    "mesh.off": exported(file_type="off"),
    "mesh.stl": exported(file_type="stl"),
    "mesh_ascii.stl": exported(file_type="stl_ascii"),
}
"""Files that hold `MESH`."""
