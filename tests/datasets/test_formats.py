"""Every format against what was written, and a corpus of damaged files."""

import laspy
import numpy as np
import pytest
import torch
import trimesh
from pypcd4 import pypcd4

from common.errors import InputError
from common.keys import rng
from datasets import formats

CLOUD = rng("cloud").random((40, 3)).astype(np.float32)
MESH = trimesh.creation.icosphere(subdivisions=1)


def las(file, points):
    written = laspy.create(point_format=0, file_version="1.2")
    written.header.scales = [1e-6] * 3
    written.x, written.y, written.z = np.asarray(points, float).T
    written.write(file)


def pcd(encoding):
    return lambda file: pypcd4.PointCloud.from_xyz_points(CLOUD).save(file, encoding)


def write_with(mesh, **how):
    def write(file):
        data = mesh.export(**how)
        file.write_bytes(data.encode() if isinstance(data, str) else data)

    return write


CLOUDS = {
    "ascii.pcd": pcd(pypcd4.Encoding.ASCII),
    "binary.pcd": pcd(pypcd4.Encoding.BINARY),
    "compressed.pcd": pcd(pypcd4.Encoding.BINARY_COMPRESSED),
    "cloud.ply": lambda file: trimesh.PointCloud(CLOUD).export(file),
    "spaces.xyz": lambda file: np.savetxt(file, CLOUD, header="x y z"),
    "commas.txt": lambda file: np.savetxt(file, np.hstack([CLOUD, CLOUD]), delimiter=","),
    "cloud.npy": lambda file: np.save(file, CLOUD),
    "cloud.npz": lambda file: np.savez_compressed(file, label=np.arange(4), points=CLOUD),
    "cloud.las": lambda file: las(file, CLOUD),
    "array.pth": lambda file: torch.save(CLOUD, file),
    "tensor.pth": lambda file: torch.save(torch.from_numpy(CLOUD), file),
}
MESHES = {
    "binary.ply": write_with(MESH, file_type="ply"),
    "ascii.ply": write_with(MESH, file_type="ply", encoding="ascii"),
    "mesh.obj": write_with(MESH, file_type="obj"),
    "mesh.off": write_with(MESH, file_type="off"),
    "binary.stl": write_with(MESH, file_type="stl"),
    "ascii.stl": write_with(MESH, file_type="stl_ascii"),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_is_read_as_it_was_written(tmp_path, name):
    CLOUDS[name](tmp_path / name)
    points = formats.read(tmp_path / name)
    assert points.triangles is None and points.points.dtype == np.float64
    np.testing.assert_allclose(points.points, CLOUD, atol=2e-6)


class Harmful:
    """Object that creates a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_code_in_a_file_of_torch_does_not_run(tmp_path):
    torch.save({"points": Harmful(tmp_path / "ran")}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match=r"bad\.pth: cannot be read"):
        formats.read(tmp_path / "bad.pth")
    assert not (tmp_path / "ran").exists()
    torch.save({"points": torch.zeros(3, 3)}, tmp_path / "dict.pth")
    with pytest.raises(InputError, match="holds dict, not an array of points"):
        formats.read(tmp_path / "dict.pth")


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh_is_read_as_it_was_written(tmp_path, name):
    MESHES[name](tmp_path / name)
    np.testing.assert_allclose(formats.read(tmp_path / name).triangles, MESH.triangles, atol=1e-5)


def test_an_obj_of_several_objects_and_unknown_materials_is_one_mesh(tmp_path):
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    file = tmp_path / "two.obj"
    file.write_text(f"mtllib lost.mtl\n{corners}o a\nusemtl red\nf 1 2 3\no b\nusemtl blue\nf 1 2 3 4\n")
    assert formats.read(file).triangles.shape == (3, 3, 3)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.xyz", "", "is empty; fix or remove it"),
        ("a.pcd", "", "is empty; fix or remove it"),
        ("a.xyz", "# x y z\n", "has 0 points, at least 3 are needed"),
        ("a.txt", "x,y,z\n1,2,3\n", "begins with 'x,y,z', not numbers (a line of column names must begin with #)"),
        ("a.txt", '\ufeff"x";"y";"z"\n1;2;3\n', 'begins with \'"x";"y";"z"\', not numbers'),
        ("a.csv", "1,2,3\n", "convert the file, or name text in columns x y z .xyz"),
        ("a.xyz", "1 2 3\n4 5 6\n", "has 2 points, at least 3 are needed"),
        ("a.xyz", "1 2\n3 4\n5 6\n", "not numbers (points, 3)"),
        ("a.xyz", "1 2 3\n4 nan 6\n7 8 9\n", "not finite"),
        ("a.txt", "1 2 3\n4 1e30 6\n7 8 9\n", "beyond 1e+12"),
        ("a.txt", "1 two three\n", "cannot be read"),
        ("a.off", "PLY\n1 2 3\n", "header is 'PLY', not 'OFF'"),
        ("a.blend", "x", "suffix '.blend' is none of .ply"),
        ("a.las", "LASF", "cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / name)
    assert name in str(error.value) and says in str(error.value) and "\n" not in str(error.value)


def test_rows_of_a_cloud_that_a_camera_left_empty_are_no_points(tmp_path):
    file = tmp_path / "organised.xyz"
    file.write_text("nan nan nan\n1 2 3\n4 5 6\nnan nan nan\n7 8 9\n")
    points = formats.read(file)
    assert points.points.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]] and points.unseen == 2
    file.write_text("nan nan nan\n1 2 3\n")
    with pytest.raises(InputError, match="has 1 points, at least 3 are needed"):
        formats.read(file)


def test_a_folder_is_told_from_a_file_without_a_suffix(tmp_path):
    with pytest.raises(InputError, match="is a folder; give one file in it"):
        formats.read(tmp_path)


def test_pickles_are_not_opened(tmp_path):
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"evil\.npy: cannot be read"):
        formats.read(tmp_path / "evil.npy")


def test_counts_beyond_the_file_are_refused_before_room_is_made(tmp_path):
    las(tmp_path / "bomb.las", CLOUD)
    data = bytearray((tmp_path / "bomb.las").read_bytes())
    data[107:111] = (4_000_000_000).to_bytes(4, "little")  # the number of points in a LAS 1.2 header
    (tmp_path / "bomb.las").write_bytes(data)
    with pytest.raises(InputError, match="header announces 4000000000 points"):
        formats.read(tmp_path / "bomb.las")


def damaged(content, draw):
    """A content cut short, with flipped bits, or with other characters in its header."""
    how, data = draw.integers(3), bytearray(content)
    if how == 0:
        return bytes(data[: draw.integers(len(data))])
    for _ in range(6):
        place = draw.integers(len(data) if how == 1 else min(len(data), 300))
        data[place] = data[place] ^ (1 << draw.integers(8)) if how == 1 else draw.choice(list(b"0123456789 -\nFUI.e"))
    return bytes(data)


def corpus(folder):
    """225 files: each good one damaged twelve times, and under three wrong names."""
    for name, write in (CLOUDS | MESHES).items():
        good = folder / name
        write(good)
        content, stem = good.read_bytes(), name.replace(".", "_")
        good.unlink()
        draw = rng("corpus", name)
        for number in range(12):
            (folder / f"{stem}_{number}{good.suffix}").write_bytes(damaged(content, draw))
        for suffix in draw.choice([s for s in formats.READERS if s != good.suffix], 3, replace=False):
            (folder / f"{stem}_as{suffix}").write_bytes(content)
    return sorted(folder.iterdir())


def test_hostile_files_load_or_are_one_line_with_their_name(tmp_path, capfd):
    files, refused = corpus(tmp_path), 0
    assert len(files) >= 200
    for file in files:
        try:
            points = formats.read(file)
            assert np.isfinite(points.points).all() and len(points.points) >= 3
        except InputError as error:
            refused += 1
            assert file.name in str(error) and "\n" not in str(error)
    assert refused > len(files) / 2
    assert capfd.readouterr() == ("", "")


def test_bad_files_are_left_out_and_counted_only_if_asked(tmp_path):
    np.save(tmp_path / "good.npy", CLOUD)
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    files = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"bad\.npy: .*or give --skip-bad"):
        formats.read_all(files, skip_bad=False)
    clouds, bad = formats.read_all(files, skip_bad=True)
    assert clouds[0] is None and len(clouds[1].points) == 40
    assert formats.skipped_remark(bad)[0].startswith("1 files are left out, the first because of: ")
