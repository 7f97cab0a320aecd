"""NumPy arrays: the right member, the right axis."""

import numpy as np
import pytest

from common.errors import InputError, MalformedFile
from common.keys import rng
from datasets import formats
from datasets.formats import arrays
from tests.datasets.formats import hostile

POINTS = rng("arrays").normal(size=(200, 3)).astype(np.float32)
COLOURS = rng("colours").integers(0, 256, (200, 3)).astype(np.uint8)
FIELDS = np.dtype([(n, "f4") for n in ("X", "Y", "Z", "intensity")])
STRUCTURED = np.zeros(200, FIELDS)
for k, axis in enumerate("XYZ"):
    STRUCTURED[axis] = POINTS[:, k]

ARRAYS = {
    "table": (POINTS, ()),
    "wide": (np.hstack([POINTS, POINTS]), ("columns 1, 2, 3 of 6 are x, y, z",)),
    "transposed": (POINTS.T, ("the array 3 x 200 is read as 200 x 3",)),
    "homogeneous": (np.vstack([POINTS.T, np.ones(200)]), ("the array 4 x 200 is read as 200 x 3",)),
    "batch": (POINTS[None], ("the array 1 x 200 x 3 is read as 200 x 3",)),
    "opencv": (POINTS[:, None], ("the array 200 x 1 x 3 is read as 200 x 3",)),
    "organised": (POINTS.reshape(20, 10, 3), ("the array 20 x 10 x 3 is read as 200 x 3",)),
    "structured": (STRUCTURED, ("fields X, Y, Z of 4 are x, y, z",)),
    "fortran": (np.asfortranarray(POINTS), ()),
    "big_endian": (POINTS.astype(">f8"), ()),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_points_is_read_and_a_change_of_shape_is_remarked(tmp_path, name):
    array, remarks = ARRAYS[name]
    np.save(tmp_path / "a.npy", array)
    cloud = formats.read(tmp_path / "a.npy")
    np.testing.assert_allclose(cloud.points, POINTS)
    assert cloud.remarks == remarks


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.eye(4), "holds a 4 x 4 matrix, such as a pose"),
        (np.eye(4)[:3], "holds a 3 x 4 matrix, such as a pose"),
        (np.ones((60, 80)), "holds an array 60 x 80, which may be an image"),
        (np.ones((50, 50)), "holds an array 50 x 50, which may be an image"),
        (np.ones((3, 7)), "holds an array 3 x 7, which may be"),
        (np.ones((2, 500, 3)), "holds an array 2 x 500 x 3, which may be an image or several clouds"),
        (np.ones((100, 33)), "features"),
        (COLOURS, "holds bytes, such as colours or labels (200 x 3)"),
        (POINTS[:, :2], "holds an array 200 x 2"),
        (POINTS + 1j, "holds complex64 values"),
        (np.array(["a", "b"]), "holds <U1 values"),
        (POINTS[:, 0], "holds an array 200,"),
        (np.zeros(9, [("a", "f4"), ("b", "f4")]), "has fields a, b, none x, y, z"),
    ],
)
def test_what_is_no_cloud_is_refused(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.npy")
    assert message in str(error.value)


MEMBERS = {
    "colours first": ({"colors": COLOURS, "points": POINTS}, "took `points` (200 x 3) of 2 members"),
    "pose first": ({"pose": np.eye(4), "xyz": POINTS}, "took `xyz` (200 x 3) of 2 members"),
    "unnamed": ({"label": np.arange(4), "arr_1": POINTS}, "took `arr_1` (200 x 3) of 2 members"),
    "features": ({"feats": np.ones((200, 32)), "data": POINTS}, "took `data` (200 x 3) of 2 members"),
    "normals": ({"normals": POINTS, "data": POINTS}, "took `data` (200 x 3) of 2 members"),
    "structured": ({"label": np.arange(200), "data": STRUCTURED[["X", "Y", "Z"]]}, "took `data` (200) of 2 members"),
    "other colours": ({"colors": np.ones((200, 4)), "points": POINTS}, "took `points` (200 x 3) of 2 members"),
    "few colours": ({"colors": COLOURS[:9], "points": POINTS}, "took `points` (200 x 3) of 2 members"),
    "names": ({"points": POINTS, "color": np.full((200, 3), "red")}, "took `points` (200 x 3) of 2 members"),
    "wide": ({"labels": np.ones((200, 21)), "data": POINTS}, "took `data` (200 x 3) of 2 members"),
    "axes": (
        {"x": POINTS[:, 0], "y": POINTS[:, 1], "z": POINTS[:, 2], "t": POINTS[:, 0]},
        "members `x`, `y`, `z` of 4",
    ),
    "case": ({"RGB": COLOURS, "Pos": POINTS}, "took `Pos` (200 x 3) of 2 members"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_the_member_with_the_points_is_taken_by_its_name_and_shape(tmp_path, name):
    members, remark = MEMBERS[name]
    np.savez(tmp_path / "a.npz", **members)
    cloud = formats.read(tmp_path / "a.npz")
    np.testing.assert_allclose(cloud.points, POINTS)
    assert remark in cloud.remarks[0]
    columns = {
        "colours first": {"blue": COLOURS[:, 2]},
        "case": {"red": COLOURS[:, 0]},
        "normals": {"ny": POINTS[:, 1]},
    }
    for column, values in columns.get(name, {}).items():
        np.testing.assert_array_equal(cloud.columns[column], values)
    assert len(cloud.columns) == 3 * (name in columns)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"source": POINTS, "target": POINTS}, "of which several may be points; save one of them as `points`"),
        ({"depth": np.ones((60, 80))}, "none of them points (N, 3)"),
        ({"pose": np.eye(4)}, "none of them points (N, 3)"),
        ({"points": np.eye(4)}, "member `points` holds a 4 x 4 matrix"),
        ({"points": np.array([None])}, "Python objects (pickle)"),
    ],
)
def test_ambiguous_members_are_refused(tmp_path, members, message):
    np.savez(tmp_path / "a.npz", **members)
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.npz")
    assert message in str(error.value)


def test_declared_sizes_are_compared_with_the_file_before_room_is_made(tmp_path):
    (tmp_path / "a.npz").write_bytes(hostile.zip_with_declared_size(4_000_000_000))
    with pytest.raises(InputError, match=r"member `points\.npy` unpacks to 4\.0 GB, at most 0\.4 GB are read"):
        formats.read(tmp_path / "a.npz")
    (tmp_path / "a.npy").write_bytes(hostile.BOMBS["huge.npy"])
    with pytest.raises(InputError, match="declares an array 1000000000000 x 3 of 24000000000000 bytes, but holds 480"):
        formats.read(tmp_path / "a.npy")


def test_a_member_may_unpack_to_the_limit_and_one_member_is_not_remarked(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", points=POINTS)
    size = 200 * 12 + 128  # a header is padded to 128 bytes
    monkeypatch.setattr(arrays, "MAX_UNPACKED", size)
    assert arrays.read_npz(tmp_path / "a.npz").remarks == ()
    monkeypatch.setattr(arrays, "MAX_UNPACKED", size - 1)
    with pytest.raises(MalformedFile, match="unpacks to"):
        arrays.read_npz(tmp_path / "a.npz")
