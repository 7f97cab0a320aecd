import hashlib
import shutil

import h5py
import numpy as np
import pytest

from common.errors import InputError
from common.keys import rng
from datasets.modelnet40 import CATEGORIES, ModelNet40, read_off
from datasets.problems import ProblemKey, make_problem

CUBE = """8 12 0
-1 -1 -1
1 -1 -1
1 1 -1
-1 1 -1
-1 -1 1
1 -1 1
1 1 1
-1 1 1
3 0 1 2
3 0 2 3
3 4 5 6
3 4 6 7
3 0 1 5
3 0 5 4
3 2 3 7
3 2 7 6
3 0 3 7
3 0 7 4
3 1 2 6
3 1 6 5
"""


@pytest.fixture
def points_folder(tmp_path):
    folder = tmp_path / "modelnet40" / "modelnet40_ply_hdf5_2048"
    folder.mkdir(parents=True)
    for split, n in (("train", 60), ("test", 40)):
        with h5py.File(folder / f"ply_data_{split}0.h5", "w") as file:
            file["data"] = rng(split).uniform(-0.5, 0.5, (n, 64, 3)).astype(np.float32)
            file["label"] = (np.arange(n) % 40).astype(np.uint8).reshape(-1, 1)
        (folder / f"{split}_files.txt").write_text(f"data/modelnet40_ply_hdf5_2048/ply_data_{split}0.h5\n")
    return folder


def test_hdf5_is_read_with_its_split_and_labels(points_folder, tmp_path):
    dataset = ModelNet40(tmp_path)
    assert dataset.fixed_points == 64
    assert len(dataset.labels("train")) == 60 and len(dataset.labels("test")) == 40
    shape = dataset.shape("test", 3)
    assert shape.category == "bench" == CATEGORIES[3]
    with h5py.File(points_folder / "ply_data_test0.h5") as file:
        np.testing.assert_array_equal(np.sort(shape.samples(64, 1, rng(0))[0], 0), np.sort(file["data"][3], 0))
    assert make_problem(dataset, ProblemKey("modelnet40", "noisy", 64, 0)).source.shape == (64, 3)


def rewrite(folder, **fields):
    with h5py.File(folder / "ply_data_test0.h5", "w") as file:
        for name, value in fields.items():
            file[name] = value


GOOD = {"data": np.zeros((4, 64, 3), np.float32), "label": np.zeros((4, 1), np.uint8)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": np.zeros((4, 64, 2), np.float32)}, "field 'data' is float32 (4, 64, 2)"),
        ({"data": np.zeros((4, 64, 3), np.int32)}, "field 'data' is int32"),
        ({"data": np.full((4, 64, 3), np.nan, np.float32)}, "non-finite"),
        ({"label": np.zeros((3, 1), np.uint8)}, "field 'label' is uint8 of 3 rows for 4 shapes"),
        ({"label": np.full((4, 1), 77, np.uint8)}, "field 'label' holds 77 to 77"),
        ({"label": None}, "no field 'label'"),
    ],
)
def test_wrong_fields_name_file_field_and_fix(points_folder, tmp_path, change, says):
    rewrite(points_folder, **{k: v for k, v in (GOOD | change).items() if v is not None})
    with pytest.raises(InputError) as error:
        ModelNet40(tmp_path).labels("test")
    message = str(error.value)
    assert "ply_data_test0.h5" in message and says in message and "unpack the archive again" in message


def test_truncated_and_missing_files(points_folder, tmp_path):
    file = points_folder / "ply_data_test0.h5"
    file.write_bytes(file.read_bytes()[:700])
    with pytest.raises(InputError, match=r"ply_data_test0\.h5: not a complete HDF5 file"):
        ModelNet40(tmp_path).labels("test")
    file.unlink()
    with pytest.raises(InputError, match=r"ply_data_test0\.h5: missing, but test_files\.txt lists it"):
        ModelNet40(tmp_path).labels("test")


def test_missing_data_says_where_to_get_it_and_where_to_put_it(tmp_path):
    with pytest.raises(InputError, match=r"get modelnet40_ply_hdf5_2048\.zip .* unpack it as DATA/modelnet40/"):
        ModelNet40(tmp_path).labels("test")


@pytest.mark.parametrize("header", ["OFF\n", "OFF", "OFF # a comment\n# another\n", "OFF "])
def test_off_headers_of_the_archive_are_read(tmp_path, header):
    file = tmp_path / "cube.off"
    file.write_text(header + CUBE)
    triangles = read_off(file)
    assert triangles.shape == (12, 3, 3)
    np.testing.assert_allclose(np.linalg.norm(triangles, axis=2), 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("PLY\n" + CUBE, "header is 'PLY'"),
        ("OFF\n" + CUBE[:60], "header declares 8 vertices and 12 faces, but"),
        ("OFF\n" + CUBE.replace("3 1 6 5", "3 1 6 99"), "a face refers to vertex 99"),
        ("OFF\n" + CUBE.replace("1 1 1\n", "nan 1 1\n", 1), "not finite"),
        ("OFF\n3 1 0\n0 0 0\n0 0 0\n0 0 0\n3 0 1 2\n", "no area"),
    ],
)
def test_broken_off_files_are_one_line(tmp_path, text, says):
    file = tmp_path / "broken.off"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_off(file)
    assert "broken.off" in str(error.value) and says in str(error.value) and "fix or remove" in str(error.value)
    assert "\n" not in str(error.value)


def test_meshes_give_as_many_points_as_asked(tmp_path):
    for category in ("chair", "table"):
        for split in ("train", "test"):
            folder = tmp_path / "ModelNet40" / category / split
            folder.mkdir(parents=True)
            (folder / f"{category}_0001.off").write_text("OFF\n" + CUBE)
    dataset = ModelNet40(tmp_path)
    assert dataset.fixed_points is None and len(dataset.labels("test")) == 2
    problem = make_problem(dataset, ProblemKey("modelnet40", "resampled", 3000, 0))
    assert problem.source.shape == (3000, 3) and problem.tags["category"] in ("chair", "table")


def test_shapes_are_read_once_and_then_come_from_the_cache(points_folder, tmp_path, monkeypatch):
    first = ModelNet40(tmp_path)
    assert first.prepare().startswith("60 train shapes of 64 points")
    monkeypatch.setattr("datasets.modelnet40._read_hdf5", None)  # not called again
    again = ModelNet40(tmp_path)
    np.testing.assert_array_equal(again.shape("test", 3).cloud, first.shape("test", 3).cloud)


def test_a_layout_can_be_asked_for(points_folder, tmp_path):
    assert ModelNet40(tmp_path, layout="points").archives[0].file == "modelnet40_ply_hdf5_2048.zip"
    with pytest.raises(InputError, match="not found below"):
        ModelNet40(tmp_path, layout="meshes").labels("test")
    with pytest.raises(ValueError, match="layout must be any, points or meshes"):
        ModelNet40(tmp_path, layout="point")


def test_which_copy_is_on_disk_is_told(points_folder, tmp_path):
    """The SHA-256 is that of `sha256sum ply_data_test*.h5 | sha256sum`."""
    sums = [f"{hashlib.sha256((points_folder / f).read_bytes()).hexdigest()}  {f}\n" for f in ("ply_data_test0.h5",)]
    expected = hashlib.sha256("".join(sums).encode()).hexdigest()
    held = ModelNet40(tmp_path).contents("test")
    assert held == {"split": "test", "shapes": 40, "points": 64, "sha256": expected}
    assert f"; 40 test shapes of 64 points (SHA-256 {expected})" in ModelNet40(tmp_path).prepare()
    shutil.copy(points_folder / "ply_data_train0.h5", points_folder / "ply_data_test0.h5")
    assert ModelNet40(tmp_path).contents("test")["sha256"] != expected
