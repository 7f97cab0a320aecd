"""Hostile files of every format: cut, with flipped bits, headers that lie, bombs, wrong encodings, links out of the file."""

from __future__ import annotations

import io
import itertools
import os
import re
import zipfile
from pathlib import Path

import h5py
import numpy as np

from common.keys import rng
from datasets.formats import READERS
from tests.datasets.formats import files

LIES = (b"1099511627776", b"-5", b"1000000000", b"0", b"999", b"nan", b"")
"""What replaces a number of a header."""
GOOD = files.GOOD_CLOUDS | files.GOOD_MESHES


def cut(content, draw):
    return content[: draw.integers(len(content))]


def flipped(content, draw):
    data = bytearray(content)
    for place in draw.integers(min(len(data), 2000), size=8):
        data[place] ^= 1 << draw.integers(8)
    return bytes(data)


def header_characters(content, draw):
    data = bytearray(content)
    for place in draw.integers(min(len(data), 300), size=6):
        data[place] = draw.choice(list(b"0123456789 -\nFUI.e,;#\0\xff"))
    return bytes(data)


def lying_number(content, draw):
    """Replace one number of the first 500 bytes."""
    numbers = list(re.finditer(rb"\d+", content[:500])) or list(re.finditer(rb"", content[:500]))
    place = numbers[draw.integers(len(numbers))]
    return content[: place.start()] + LIES[draw.integers(len(LIES))] + content[place.end() :]


def other_size(content, draw):
    """Overwrite four bytes of a binary header by a large number."""
    place = int(draw.integers(4, min(len(content), 260)))
    return content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :]


def wrong_encoding(content, draw):
    return [content.decode("latin-1").encode("utf-16"), b"\0" + content, content[::-1], b"\xff\xfe" + content][
        draw.integers(4)
    ]


def repeated(content, draw):
    return content * int(draw.integers(2, 4))


DAMAGES = (cut, flipped, header_characters, lying_number, other_size, wrong_encoding, repeated)


def zip_with_declared_size(size):
    """Return an .npz whose directory declares another size of its member."""
    data = bytearray(files.npz(points=files.CLOUD))
    directory = data.rfind(b"PK\x01\x02")
    for place in (22, directory + 24):
        data[place : place + 4] = size.to_bytes(4, "little")
    return bytes(data)


def zeros_npz(megabytes):
    """Return an .npz of zeros that unpacks to many megabytes."""
    buffer, rows = io.BytesIO(), megabytes * 1_000_000 // 24
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as out,
    ):
        out.write(files.npy_header((rows, 3)))
        for _ in range(megabytes):
            out.write(bytes(1_000_000))
    return buffer.getvalue()


BOMBS = {
    "vertices_2_40.ply": files.ply(count=2**40),
    "vertices_2_40_ascii.ply": files.ply(count=2**40, order="ascii"),
    "vertices_negative.ply": files.ply(count=-5),
    "vertices_more.ply": files.ply(count=300),
    "vertices_fewer.ply": files.ply(count=10),
    "list_4e9.ply": files.ply().replace(
        b"end_header", b"element face 1\nproperty list uint int vertex_indices\nend_header"
    )
    + (4_000_000_000).to_bytes(4, "little"),
    "points_2_40.pcd": files.pcd_text(data="binary", WIDTH=2**40, POINTS=2**40),
    "count_1e9.pcd": files.pcd_text(data="binary", COUNT="1 1 1000000000"),
    "size_4e9.pcd": files.pcd_text(data="binary", SIZE="4 4 4000000000"),
    "lzf.pcd": files.pcd_text(data="binary_compressed")[:-480] + b"\xe0\x01\0\0\xff\xff\xff\xff" + b"\x1f" * 472,
    "faces_1e9.off": b"OFF\n1000000000 1000000000 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    "far_face.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 1000000000\n",
    "triangles_4e9.stl": bytes(80) + (4_000_000_000).to_bytes(4, "little") + bytes(500),
    "huge.npy": files.npy_header((10**12, 3), bytes(480)),
    "negative.npy": files.npy_header((-5, 3), bytes(480)),
    "code.npy": files.npy_header("(__import__('os').system('false'), 3)", bytes(480)),
    "pickle.npy": files.npy(np.array([[1, 2, object]], dtype=object), pickled=True),
    "member_4e9.npz": zip_with_declared_size(4_000_000_000),
    "member_short.npz": zip_with_declared_size(100),
    "zeros.npz": zeros_npz(20),
    "points_4e9.las": files.las()[:107] + b"\xff\xff\xff\xff" + files.las()[111:],
    "records_4e9.las": files.las()[:100] + b"\xff\xff\xff\xff" + files.las()[104:],
    "record_of_0.las": files.las()[:105] + b"\0\0" + files.las()[107:],
    "long_line.xyz": b"1 2 3\n" * 3 + b"1 " * 300_000,
    "no_break.xyz": b"1" * 3_000_000,
    "brackets.txt": b"[" * 100_000,
}
"""Fixed files by name."""


def hdf5_files(folder):
    """Write HDF5 files that refer to other files or declare more than they hold."""
    secret = folder / "secret.h5"
    data = np.zeros((4, 8, 3), np.float32)
    secret.write_bytes(files.hdf5(lambda f: f.create_dataset("data", data=data)))

    def virtual(handle):
        layout = h5py.VirtualLayout(shape=data.shape, dtype="f4")
        layout[:] = h5py.VirtualSource(str(secret), "data", shape=data.shape)
        handle.create_virtual_dataset("data", layout)

    writers = {
        "link": lambda f: f.__setitem__("data", h5py.ExternalLink(str(secret), "/data")),
        "soft": lambda f: f.__setitem__("data", h5py.SoftLink("/data")),
        "raw": lambda f: f.create_dataset("data", shape=(4, 8, 3), dtype="<f4", external=[(str(secret), 0, 384)]),
        "virtual": virtual,
        "declared": lambda f: f.create_dataset("data", shape=(10**6, 2048, 3), dtype="f4", chunks=(1, 2048, 3)),
        "empty": lambda f: f.create_dataset("data", shape=(4, 8, 3), dtype="f4"),
        "text": lambda f: f.create_dataset("data", data=np.array([b"abc"] * 4)),
        "chunks": lambda f: f.create_dataset(
            "data", shape=(10**5, 2048, 3), dtype="f4", chunks=True, compression="gzip"
        ),
    }
    for name, write in writers.items():
        (folder / f"{name}.h5").write_bytes(files.hdf5(write))
    good = files.hdf5(lambda f: f.create_dataset("data", data=data))
    for number, damage in enumerate((cut, flipped, cut, flipped, repeated)):
        (folder / f"damaged_{number}.h5").write_bytes(damage(good, rng("hdf5", number)))
    secret.unlink()


def special_files(folder):
    """Make files that are no regular ones, or sparse."""
    (folder / "zero.xyz").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.ply")
    (folder / "folder.ply").mkdir()
    with (folder / "sparse.npy").open("wb") as handle:
        handle.write(files.npy_header((10**10, 3)))
        handle.truncate(240 * 10**9)
    (folder / "empty.off").touch()


def corpus(folder: Path, count: int) -> list[Path]:
    """Write `count` hostile files to an empty folder; the same ones for the same count."""
    hdf5_files(folder)
    special_files(folder)
    for name, content in BOMBS.items():
        (folder / name).write_bytes(content)
    left = count - len(list(folder.iterdir()))
    suffixes = sorted(READERS)
    kinds = list(itertools.product(range(count), (*DAMAGES, None)))
    for number, (seed, damage) in enumerate(kinds[: max(left, 0)]):
        draw = rng("hostile", number)
        name = list(GOOD)[(number * 7 + seed) % len(GOOD)]
        content, suffix = GOOD[name], Path(name).suffix
        if damage is None:
            suffix = suffixes[draw.integers(len(suffixes))]
        stem = f"{number:03}_{damage.__name__ if damage else 'wrong_suffix'}_{Path(name).stem}"
        (folder / f"{stem}{suffix}").write_bytes(damage(content, draw) if damage else content)
    return sorted(folder.iterdir())[:count]
