"""HDF5 files: only what the file itself holds is read."""

import numpy as np
import pytest

from common.errors import InputError, MalformedFile
from datasets import formats
from datasets.formats import hdf5
from tests.datasets.formats import files, hostile

REFUSED = {
    "link": "field 'data' is a link to .*, which is not followed",
    "soft": "field 'data' is a link to /data, which is not followed",
    "raw": "field 'data' takes its data from other files",
    "virtual": "field 'data' takes its data from other files",
    "declared": r"field 'data' declares 1000000 x 2048 x 3 values, but holds 0 bytes",
    "chunks": "field 'data' declares",
    "empty": "field 'data' declares 4 x 8 x 3 values, but holds 0 bytes",
    "damaged_0": "not a complete HDF5 file",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("hdf5")
    hostile.hdf5_files(top)
    return top


@pytest.mark.parametrize("name", REFUSED)
def test_links_other_files_and_declared_sizes_are_refused(folder, name):
    with pytest.raises(InputError, match=rf"{name}\.h5: {REFUSED[name]}"):
        formats.read_fields(folder / f"{name}.h5", ["data"])


def test_texts_and_missing_fields(tmp_path):
    (tmp_path / "a.h5").write_bytes(files.hdf5(lambda f: f.create_dataset("names", data=["a", "bc"])))
    assert formats.read_fields(tmp_path / "a.h5", ["names"], ["other"])["names"].tolist() == ["a", "bc"]
    with pytest.raises(InputError, match=r"a\.h5: no field 'data' \(it has names\)"):
        formats.read_fields(tmp_path / "a.h5", ["data"])
    for missing in ("b.h5", ""):
        with pytest.raises(InputError, match=r"no such file, or not a regular one; check the path"):
            formats.read_fields(tmp_path / missing, ["names"])


def test_arrays_of_four_times_the_file_are_read_beyond_the_bytes_that_always_are(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5, "MIN_BYTES", 5000)
    for count, refused in ((5000, False), (5001, False), (100_000, True)):
        file = tmp_path / f"{count}.h5"
        zeros = {"data": np.zeros(count, "u1"), "compression": "gzip", "chunks": (count,)}
        file.write_bytes(files.hdf5(lambda f, zeros=zeros: f.create_dataset("data", **zeros)))
        size = file.stat().st_size
        assert (count > 4 * size) == refused and count < 40 * size
        if refused:
            with pytest.raises(MalformedFile, match=r"declares 0\.0 GB of arrays, more than the"):
                hdf5.read_hdf5(file, "data")
        else:
            assert hdf5.read_hdf5(file, "data")["data"].shape == (count,)
    assert hdf5.read_hdf5(file, "other")["#names"].tolist() == ["data"]
    monkeypatch.undo()
    zeros = {"shape": (1000, 3000), "dtype": "u1", "data": np.zeros((1000, 3000), "u1"), "compression": "gzip"}
    file.write_bytes(files.hdf5(lambda f: f.create_dataset("data", chunks=(1000, 3000), **zeros)))
    assert file.stat().st_size < 3_000_000 / 400 and not hdf5.read_hdf5(file, "data")["data"].any()


def test_numbers_of_all_kinds_and_texts_are_read_and_groups_left_out(tmp_path):
    arrays = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in ("?", "i1", "u8", "f2", "f8", "S3")}

    def write(handle):
        for name, array in arrays.items():
            handle[name] = array
        handle.create_group("group")["inner"] = [1]
        handle["c8"] = np.ones(3, np.complex64)

    (tmp_path / "a.h5").write_bytes(files.hdf5(write))
    read = hdf5.read_hdf5(tmp_path / "a.h5", *arrays, "group", "missing")
    assert set(read) == {*arrays, "#names"}
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and np.array_equal(read[name], array)
    with pytest.raises(MalformedFile, match="field 'c8' holds complex64 values, not numbers or text"):
        hdf5.read_hdf5(tmp_path / "a.h5", "c8")
