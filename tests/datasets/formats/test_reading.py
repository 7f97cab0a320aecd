"""Every format against what was written, and hostile files."""

import os

import numpy as np
import pytest

from bench.cli import main
from common.errors import InputError
from datasets import formats
from datasets.formats import reading
from tests.datasets.formats.files import CLOUD, GOOD_CLOUDS, GOOD_MESHES, MESH, npy
from tests.datasets.formats.hostile import corpus


@pytest.mark.parametrize("name", GOOD_CLOUDS)
def test_a_cloud_is_read_as_it_was_written(tmp_path, name):
    (tmp_path / name).write_bytes(GOOD_CLOUDS[name])
    cloud = formats.read(tmp_path / name)
    assert cloud.triangles is None and cloud.points.dtype == np.float64
    np.testing.assert_allclose(cloud.points, CLOUD, atol=2e-6)


@pytest.mark.parametrize("name", GOOD_MESHES)
def test_a_mesh_is_read_as_it_was_written(tmp_path, name):
    (tmp_path / name).write_bytes(GOOD_MESHES[name])
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
        ("a.txt", "a,b,c\n1,2,3\n", "has columns a, b, c, none x, y, z; name three of them x y z"),
        ("a.txt", "airplane_0001\nairplane_0002\n", "begins with 'airplane_0001', not with rows of numbers"),
        ("a.csv", "1,2,3\n", "has 1 point, at least 3 are needed"),
        ("a.xyz", "1 2 3\n4 5 6\n", "has 2 points, at least 3 are needed"),
        ("a.xyz", "1 2\n3 4\n5 6\n", "has 2 columns, not x, y, z"),
        ("a.xyz", "1 2 3\n4 nan 6\n7 8 9\n", "not finite"),
        ("a.txt", "1 2 3\n4 1e30 6\n7 8 9\n", "beyond 1e+12"),
        ("a.txt", "1 2 3\n1 two 3\n", "line 2: 'two' is no number"),
        ("a.off", "PLY\n1 2 3\n", "header is 'PLY', not 'OFF'"),
        ("a.blend", "x", "suffix '.blend' is none of .ply"),
        ("a.las", "LASF", "is no LAS file: its header is incomplete"),
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
    assert points.points.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert points.remarks == ("left out 2 of 5 rows of NaN (nothing was measured there)",)
    file.write_text("nan nan nan\n1 2 3\n")
    with pytest.raises(InputError, match="has 1 point, at least 3 are needed"):
        formats.read(file)


def test_a_folder_is_told_from_a_file_without_a_suffix(tmp_path):
    with pytest.raises(InputError, match="is a folder; give one file in it"):
        formats.read(tmp_path)


def test_a_file_that_is_no_regular_one_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.ply")
    with pytest.raises(InputError, match=r"pipe\.ply: not a regular file"):
        formats.read(tmp_path / "pipe.ply")


def outcome(file):
    """Return the points of a hostile file, or the line that refuses it."""
    try:
        return formats.read_fields(file, ["data"])["data"] if file.suffix == ".h5" else formats.read(file).points
    except InputError as error:
        return str(error)


def test_hostile_files_load_or_are_one_line_with_their_name(tmp_path, capfd):
    folder = tmp_path / "hostile"
    folder.mkdir()
    (tmp_path / "good.npy").write_bytes(npy())
    files, refused = corpus(folder, 64), 0
    for file in files:
        result = outcome(file)
        if isinstance(result, str):
            refused += 1
            assert file.name in result and "\n" not in result and result.isprintable()
            if file.suffix != ".h5" and refused % 8 == 0:
                assert main.main(["pair", str(file), str(tmp_path / "good.npy")]) == 2
                error = capfd.readouterr().err
                assert error.count("\n") == 1 and file.name in error
        else:
            assert result.dtype.kind == "S" or np.isfinite(result).all()
    assert refused > 0.75 * len(files)
    assert capfd.readouterr() == ("", "")


def test_bad_files_are_left_out_and_counted_only_if_asked(tmp_path):
    np.save(tmp_path / "good.npy", CLOUD)
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    files = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"bad\.npy: .*or give --skip-bad"):
        formats.read_all(files, skip_bad=False)
    clouds, bad, other = formats.read_all(files, skip_bad=True)
    assert clouds[0] is None and len(clouds[1].points) == 40 and other == []
    assert formats.skipped_remark(bad)[0].startswith("1 file is left out, the first because of: ")


def test_text_without_numbers_is_left_out_of_many_files_but_refused_alone(tmp_path):
    (tmp_path / "m0_info.txt").write_text("mid: 0\nsource: web\nscale: 0.9\n")
    np.save(tmp_path / "m0.npy", CLOUD)
    clouds, bad, other = formats.read_all(sorted(tmp_path.iterdir()), skip_bad=False)
    assert len(clouds[0].points) == 40 and clouds[1] is None and bad == [] and "m0_info.txt" in other[0]
    with pytest.raises(InputError, match=r"m0_info\.txt: begins with 'mid: 0'"):
        formats.read(tmp_path / "m0_info.txt")


def test_hidden_files_are_not_visible(tmp_path):
    files = [tmp_path / name for name in ("._0.xyz", "__MACOSX/0.xyz", ".cache/0.xyz", "a/0.xyz", "0.xyz")]
    assert reading.visible(files, tmp_path) == [tmp_path / "0.xyz", tmp_path / "a/0.xyz"]


def test_progress_is_shown_if_reading_takes_long(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "a.npy", CLOUD)
    monkeypatch.setattr(reading, "QUIET_S", 0.0)
    formats.read_all([tmp_path / "a.npy"] * 3, skip_bad=False)
    assert "0 of 3 files" in capsys.readouterr().err
    monkeypatch.setattr(reading, "QUIET_S", 60.0)
    formats.read_all([tmp_path / "a.npy"] * 3, skip_bad=False)
    assert capsys.readouterr().err == ""
