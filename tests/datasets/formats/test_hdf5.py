"""HDF5 files: only what the file itself holds is read."""

import pytest

from common.errors import InputError
from datasets import formats
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
