"""The true pose, in the forms in which people have it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.pair.agreement import Fit
from bench.pair.clouds import open_scans
from bench.pair.truth import inverse_remark, read_truth
from common.errors import InputError
from datasets.poses import inverse
from tests.bench.pair.synthetic_pair import T, shell


def rows(matrix, row="{}", start="", between="\n", end="", digits=9):
    return start + between.join(row.format(" ".join(f"{v:.{digits}f}" for v in r)) for r in matrix) + end


FORMS = {
    "plain.txt": rows(T),
    "three_rows.txt": rows(T[:3]),
    "one_row.txt": rows(T[:3], between=" "),
    "commas.txt": "\n".join(",".join(f"{v:.12f}" for v in r) for r in T),
    "brackets.txt": rows(T, "[{}]", "[", "\n ", "]"),
    "numpy.txt": f"T = np.{T!r}",
    "matlab.txt": rows(T, between="; ", start="[", end="];"),
    "comment.txt": "# from 3 to 7\n" + rows(T),
    "rows.json": json.dumps(T.tolist()),
    "field.json": json.dumps({"T_target_source": T.ravel().tolist()}),
    "fields.json": json.dumps({"pose": [1], "transformation": T.tolist(), "T_target_source": T.tolist(), "other": 1}),
    "marks.txt": "\n".join(
        f"{line} {mark} 7" for line, mark in zip(rows(T).split("\n"), ("#", "//", "%", "#"), strict=True)
    ),
    "big_endian.txt": (rows(T), "utf-16-be", b"\xfe\xff"),
    "little_endian.txt": (rows(T), "utf-16-le", b"\xff\xfe"),
    "mark.txt": (rows(T), "utf-8", b"\xef\xbb\xbf"),
}
"""Texts, or text, encoding and the bytes before it."""


@pytest.mark.parametrize("name", FORMS)
def test_truth_is_read_from_text_and_json(tmp_path, name):
    form = FORMS[name]
    text, encoding, start = (form, "utf-8", b"") if isinstance(form, str) else form
    (tmp_path / name).write_bytes(start + text.encode(encoding))
    truth = read_truth(tmp_path / name)
    np.testing.assert_allclose(truth.matrix, T, atol=1e-6)
    assert truth.remarks == ()


@pytest.mark.parametrize("matrix", [T, T[:3], T[None]])
def test_truth_is_read_from_numpy_files(tmp_path, matrix):
    np.save(tmp_path / "t.npy", matrix)
    np.testing.assert_allclose(read_truth(tmp_path / "t.npy").matrix, T, atol=1e-12)


def test_rounded_digits_become_the_nearest_rotation_and_that_is_reported(tmp_path):
    (tmp_path / "t.txt").write_text(rows(T, digits=3))
    truth = read_truth(tmp_path / "t.txt")
    R = truth.matrix[:3, :3]
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    assert np.abs(truth.matrix - T).max() < 1e-3 and "the nearest one is used" in truth.remarks[0]


@pytest.mark.parametrize(("error", "remarks"), [(0.9e-6, 0), (1.6e-6, 1), (0.99e-2, 1), (1.01e-2, None)])
def test_a_rotation_is_replaced_by_the_nearest_within_a_hundredth_and_reported_above_a_millionth(
    tmp_path, error, remarks
):
    """The largest change of an entry decides; a stretch along one axis changes only its entry of the diagonal."""
    np.save(tmp_path / "t.npy", np.diag([1 + error, 1, 1, 1]))
    if remarks is None:
        with pytest.raises(InputError, match=r"t\.npy: the matrix is not rigid"):
            read_truth(tmp_path / "t.npy")
    else:
        truth = read_truth(tmp_path / "t.npy")
        np.testing.assert_allclose(truth.matrix, np.eye(4), atol=1e-12)
        assert len(truth.remarks) == remarks and all(f"by up to {error:.1g}" in remark for remark in truth.remarks)


def test_a_file_that_is_too_large_for_a_matrix_is_not_read(tmp_path):
    for size, refused in ((1_000_000, False), (1_000_001, True)):
        text = rows(T)
        (tmp_path / "t.txt").write_text(text + " " * (size - len(text)))
        if refused:
            with pytest.raises(InputError, match=r"no 4 x 4 matrix \(1000001 bytes\)"):
                read_truth(tmp_path / "t.txt")
        else:
            np.testing.assert_allclose(read_truth(tmp_path / "t.txt").matrix, T, atol=1e-6)


REFUSED = {
    "scaled.txt": (rows(0.98 * T[:3]), "it scales by 0.98; divide by that"),
    "scaled_and_rounded.txt": (rows(2 * T[:3], digits=2), "it scales by 2; divide by that"),
    "stretched.txt": (rows(T[:3] * (1, 1, 1.1, 1)), "not rigid: R"),
    "transposed.txt": (rows(T.T), "the translation is in the last row; transpose"),
    "transposed_along_x.txt": (
        rows((np.eye(4) + np.outer(np.eye(4)[0], (0, 0, 0, 2))).T),
        "the translation is in the last row",
    ),
    "reflected.txt": (rows(np.diag([1, 1, -1, 1])), "is a reflection"),
    "skewed.txt": (rows(T + np.eye(4)[:, ::-1] * 0.5), "not rigid"),
    "last_row.txt": (rows(T + np.outer([0, 0, 0, 1], [0, 0, 0, 1])), "not rigid"),
    "nan.json": (json.dumps((T * np.nan).tolist()), "not finite"),
    "fewer.txt": ("1 0 0 0 1 0 0 0 1", "no 4 x 4 matrix (9 numbers)"),
    "word.txt": ("rotation 1 0 0", "no 4 x 4 matrix (the word 'rotation')"),
    "bad.json": ("{", "no 4 x 4 matrix"),
    "other.json": ('{"R": 1}', "no 4 x 4 matrix (its fields are R); give 16 numbers"),
    "empty.json": (
        "{}",
        "(its fields are none); give 16 numbers, or 12, as text or .npy, or JSON with T_target_source,",
    ),
    "one.txt": ("1", "no 4 x 4 matrix (1 number)"),
    "binary.npy": ("x", "no 4 x 4 matrix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_rigid_matrix_is_one_line(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as error:
        read_truth(tmp_path / name)
    assert message in str(error.value) and name in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_single_number_that_is_not_finite_is_refused(tmp_path, value):
    for number in range(16):
        matrix = T.copy()
        matrix.ravel()[number] = value
        (tmp_path / "t.json").write_text(json.dumps(matrix.tolist()))
        with pytest.raises(InputError, match=r"t\.json: the matrix is not (finite|rigid: its last row)"):
            read_truth(tmp_path / "t.json")


def test_a_missing_file_and_a_folder_are_named_as_such(tmp_path):
    for file, message in (
        (tmp_path / "nope.json", "nope.json: no such file; check the path"),
        (tmp_path, "(Is a directory)"),
    ):
        with pytest.raises(InputError) as error:
            read_truth(file)
        assert message in str(error.value) and "Errno" not in str(error.value)


def test_the_inverse_is_suggested_only_if_the_clouds_fit_by_it(tmp_path):
    np.save(tmp_path / "a.npy", shell())
    np.save(tmp_path / "b.npy", shell(key=1) @ T[:3, :3].T + T[:3, 3])
    scans = open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 400, None)
    assert inverse_remark(scans, T) == []
    assert "does it map the target into the source?" in inverse_remark(scans, inverse(T))[0]


@pytest.mark.parametrize(
    ("overlaps", "residuals", "suggested"),
    [((0.3, 0.51), (1.0, 0.49), True), ((0.3, 0.49), (1.0, 0.49), False), ((0.3, 0.51), (1.0, 0.51), False)],
)
def test_the_inverse_must_gain_a_fifth_of_overlap_and_halve_the_residual(monkeypatch, overlaps, residuals, suggested):
    found = [Fit(o, o, r, r) for o, r in zip(overlaps, residuals, strict=True)]
    calls = []
    monkeypatch.setattr("bench.pair.truth.fits", lambda poses, *clouds: calls.append((poses, *clouds)) or found)
    cloud = SimpleNamespace(thin=0)
    scans = SimpleNamespace(source=cloud, target=cloud, near=0.5)
    remarks = inverse_remark(scans, T)
    np.testing.assert_allclose(calls[0][0], [T, np.linalg.inv(T)], atol=1e-12)
    text = f"--truth: by its inverse the clouds overlap {overlaps[1]:.0%}, by the matrix itself {overlaps[0]:.0%};"
    assert bool(remarks) == suggested and all(remark.startswith(text) for remark in remarks)
