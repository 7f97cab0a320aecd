"""`bench.py pair` on two files."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.cli import main
from bench.pair import figure
from bench.pair.clouds import open_scans
from bench.pair.command import _fitting, describe_scans
from bench.pair.files import write_moved
from datasets import formats
from datasets.formats import Faces
from datasets.formats.reading import READERS
from tests.bench.pair.synthetic_pair import T, shell

PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture
def surfaces(tmp_path, monkeypatch):
    """Points of one surface at two poses."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("a.xyz", np.column_stack([shell(), np.arange(900)]), header="x y z label")
    np.savetxt("b.xyz", shell(key=1) @ T[:3, :3].T + T[:3, 3])
    return tmp_path


def call(*arguments, expect=0):
    assert main.main(["pair", *map(str, arguments), "--plugins", str(PLUGINS)]) == expect


def test_a_second_call_leaves_nothing_of_the_first_and_no_file_of_others_is_touched(files, capsys):
    cloud = np.loadtxt("a.xyz")
    np.savetxt("a.xyz", np.vstack([np.full((5, 3), np.nan), cloud]))
    call("a.xyz", "b.ply", "--methods", "good", "identity", "--points", 100, "--out", "o")
    assert "a.xyz: left out 5 of 905 rows of NaN (nothing was measured there)" in capsys.readouterr().out
    (files / "o" / "poses" / "mine.txt").write_text("mine")
    call("a.xyz", "b.ply", "--methods", "bad_exit", "identity", "--points", 100, "--out", "o")
    assert sorted(f.name for f in (files / "o" / "poses").iterdir()) == ["identity.txt", "mine.txt"]
    assert [f.name for f in (files / "o" / "aligned").iterdir()] == ["identity.ply"]
    call("a.xyz", "b.ply", "--methods", "bad_exit", "--points", 100, "--out", "o", "--truth", "o/poses/identity.txt")
    assert not (files / "o" / "aligned.ply").exists() and (files / "o" / "poses" / "identity.txt").exists()


def test_a_pair_is_registered_compared_and_written(files, capsys):
    methods = ["good", "good+icp", "identity", "bad_exit", "bad_reflection"]
    call("a.xyz", "b.ply", "--methods", *methods, "--points", 400, "--truth", "truth.txt", "--timeout", 20)
    output = capsys.readouterr().out
    for expected in (
        "multiplied by 0.001",
        "900 points: ",
        "apart",
        "agreement",
        "perhaps",
        "fewer than two independent families of methods agree",
        "aligned.ply is not written",
        "T_target_source, grade",
    ):
        assert expected in output
    folder = files / "pairs" / "a-b"
    content = json.loads((folder / "poses.json").read_text())
    rows = {row["method"]: row for row in content["methods"]}
    assert [rows[m]["status"] for m in methods] == ["ok", "ok", "ok", "crash", "invalid"]
    assert rows["bad_exit"]["T_target_source"] is None and "exit code 3" in rows["bad_exit"]["message"]
    assert (
        rows["good+icp"]["rmse"] < 0.1
        and rows["good+icp"]["overlap"] > 0.95
        and content["candidate"].startswith("good")
    )
    assert content["best"] is None and content["grade"] != "consensus" and 0 < content["probability"] < 1
    assert content["methods"][0]["method"] == content["candidate"] and content["methods"][-1]["T_target_source"] is None
    assert rows["identity"]["overlap"] < rows["good+icp"]["overlap"] and rows["good"]["confidence"] == "confidence 0.5"
    pose = np.loadtxt(folder / "poses" / "good-icp.txt")
    np.testing.assert_allclose(pose, rows["good+icp"]["T_target_source"], rtol=1e-9)
    assert not (folder / "aligned.ply").exists()
    html = (folder / "report.html").read_text()
    assert "Plotly.newPlot" in html and "plotly.js v" in html and 'src="' not in html.replace("<script>", "")[:3000]
    assert (folder / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert len((folder / "agreement.csv").read_text().splitlines()) == 1 + 3


def test_a_consensus_is_starred_and_its_whole_cloud_written(surfaces, capsys):
    call("a.xyz", "b.xyz", "--methods", "good+icp", "pca+icp", "bad_exit", "--points", 400, "--out", "o")
    output = capsys.readouterr().out
    content = json.loads((surfaces / "o" / "poses.json").read_text())
    assert content["grade"] == "consensus" and content["best"] == content["candidate"] and content["reasons"] == []
    assert "Grade: consensus. 2 independent families" in output and "probability that it is right" in output
    aligned = formats.read(surfaces / "o" / "aligned.ply")
    moved = aligned.points
    assert aligned.columns["label"].tolist() == list(range(900))
    assert len(moved) == 900 and np.abs(moved - (shell() @ T[:3, :3].T + T[:3, 3])).max() < 0.2
    pose = np.loadtxt(surfaces / "o" / "poses" / f"{content['best'].replace('+', '-')}.txt")
    html = (surfaces / "o" / "report.html").read_text()
    for value in pose.ravel()[:12]:  # the matrix is printed and shown
        assert f"{value:.6f}" in output and f"{value:.6f}" in html
    call("a.xyz", "b.xyz", "--methods", "good+icp", "bad_exit", "--points", 400, "--out", "o")
    assert not (surfaces / "o" / "aligned.ply").exists(), "that of the earlier consensus is removed"


def test_a_moved_file_keeps_attributes_and_faces_and_its_normals_turn(tmp_path):
    columns = {"nx": np.ones(900, np.float32), "ny": np.zeros(900, np.float32), "nz": np.zeros(900, np.float32)}
    columns |= {"red": np.arange(900).astype(np.uint8), "label": np.arange(900)}
    faces = Faces(np.array([3, 4]), np.array([0, 1, 2, 3, 4, 5, 6]))
    write_moved(tmp_path / "moved.ply", formats.Geometry(shell(), None, columns, faces), T)
    moved = formats.read(tmp_path / "moved.ply")
    np.testing.assert_allclose(moved.points, shell() @ T[:3, :3].T + T[:3, 3], atol=1e-9)
    normals = np.column_stack([moved.columns[name] for name in ("nx", "ny", "nz")])
    np.testing.assert_allclose(normals, np.tile(T[:3, 0], (900, 1)), atol=1e-6)
    np.testing.assert_array_equal(moved.columns["red"], columns["red"])
    np.testing.assert_array_equal(moved.columns["label"], columns["label"])
    assert moved.faces.sizes.tolist() == [3, 4] and moved.faces.corners.tolist() == faces.corners.tolist()


def test_what_was_taken_and_a_doubtful_truth_are_printed(surfaces, capsys):
    np.savez("a.npz", colors=np.zeros((900, 3), np.uint8), points=shell().T)
    inverted = np.linalg.inv(T)
    Path("truth.txt").write_text("\n".join(" ".join(f"{v:.3f}" for v in row) for row in inverted[:3]))
    call("a.npz", "b.xyz", "--methods", "identity", "--points", 400, "--out", "o", "--truth", "truth.txt")
    output = capsys.readouterr().out
    for expected in (
        "a.npz: took `points` (3 x 900) of 2 members",
        "a.npz: the array 3 x 900 is read as 900 x 3",
        "--truth: its rotation is rounded; the nearest one is used",
        "does it map the target into the source?",
    ):
        assert expected in output


def test_the_overlap_with_a_much_larger_cloud_is_no_merit(surfaces, capsys):
    np.savetxt("large.xyz", 7 * shell(key=1))
    call("a.xyz", "large.xyz", "--methods", "identity", "--points", 400, "--out", "o")
    output = capsys.readouterr().out
    assert "times as large as the other, so their overlap says little" in output and "overlap 1" not in output


@pytest.mark.parametrize(("methods", "stars"), [(["good+icp", "pca+icp"], 1), (["good+icp", "identity"], 0)])
def test_only_a_consensus_has_a_star(surfaces, monkeypatch, methods, stars):
    captions = []
    drawn = figure._caption
    monkeypatch.setattr(figure, "_caption", lambda *args: captions.append(drawn(*args)) or captions[-1])
    call("a.xyz", "b.xyz", "--methods", *methods, "--points", 400, "--out", "o")
    assert len(captions) == 3 and sum("★" in caption for caption in captions) == stars


def test_a_pair_without_any_pose_is_reported(files, capsys):
    call("a.xyz", "b.ply", "--methods", "bad_give_up", "--out", "none")
    assert "No method found a pose." in capsys.readouterr().out and (files / "none" / "report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.xyz", "c.ply"], "c.ply: no such file"),
        (["a.abc", "b.ply"], "suffix '.abc' is none of"),
        ([".", "b.ply"], ".: is a folder; give one file in it"),
        (["a.xyz", "b.ply", "--methods", "icpp"], "did you mean icp"),
        (["a.xyz", "b.ply", "--scale", "-1"], "--scale: must be above 0"),
        (["a.xyz", "b.ply", "--scale", "0"], "--scale: must be above 0"),
        (["a.xyz", "b.ply", "--methods", "icp+"], "a method is missing beside a +"),
        (["a.xyz", "b.ply", "--points", "1"], "--points: must be at least 10"),
        (["a.xyz", "b.ply", "--truth", "a.xyz"], "--truth a.xyz: no 4 x 4 matrix"),
        (["same.xyz", "b.ply"], "all its points are the same"),
    ],
)
def test_bad_input_is_one_line(files, capsys, arguments, message):
    np.savetxt("same.xyz", np.ones((20, 3)))
    call(*arguments, expect=2)
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_same_names_in_another_folder_keep_the_earlier_results(surfaces, capsys):
    (surfaces / "other").mkdir()
    np.savetxt("other/a.xyz", shell(key=2))
    options = ["b.xyz", "--methods", "identity", "--points", 100]
    call("a.xyz", *options)
    written = {file: file.read_bytes() for file in (surfaces / "pairs").rglob("*") if file.is_file()}
    assert "these are written to" not in capsys.readouterr().out
    call("other/a.xyz", *options)
    assert "pairs/a-b has the results of a.xyz and b.xyz; these are written to pairs/a-b-2\n" in capsys.readouterr().out
    assert all(file.read_bytes() == content for file, content in written.items())
    content = json.loads((surfaces / "pairs" / "a-b-2" / "poses.json").read_text())
    assert content["source"] == "other/a.xyz" and content["source_uri"] == (surfaces / "other" / "a.xyz").as_uri()
    call("other/a.xyz", *options, "--out", "pairs/a-b", expect=2)
    output = capsys.readouterr()
    assert output.err == (
        "bench.py: --out pairs/a-b: has the results of a.xyz and b.xyz; give another folder, or remove it\n"
    )
    assert not output.out and sorted(f.name for f in (surfaces / "pairs").iterdir()) == ["a-b", "a-b-2"]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("a.xyz", "a.xyz: is a file; give another folder"),
        ("a.xyz/o", "a.xyz/o: a part of this path is a file and not a folder; use another path"),
        ("taken", "taken/poses: is a file; give another folder"),
        ("o" * 300, "the name is too long; use a shorter one"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_before_the_first_method(surfaces, capsys, out, message):
    (surfaces / "taken").mkdir()
    (surfaces / "taken" / "poses").touch()
    call("a.xyz", "b.xyz", "--methods", "identity", "--points", 100, "--out", out, expect=2)
    output = capsys.readouterr()
    assert message in output.err and output.err.count("\n") == 1 and "1 of 1" not in output.out


def test_a_name_that_is_not_utf_8_is_registered_and_shown_with_a_replacement(surfaces, capsys):
    name = os.fsdecode(b"int\xe9.xyz")
    try:
        Path("a.xyz").rename(name)
    except OSError:
        pytest.skip("the file system has UTF-8 names only")
    truth = Path(name).with_suffix(".txt")
    np.savetxt(truth, T)
    call(name, "b.xyz", "--methods", "identity", "--points", 100, "--truth", truth)
    assert "int\ufffd.xyz: 900 points" in capsys.readouterr().out
    folder = surfaces / "pairs" / "int--b"
    content = json.loads((folder / "poses.json").read_text(encoding="utf-8"))
    assert content["source"] == "int\ufffd.xyz" and content["source_uri"].endswith("/int%E9.xyz")
    assert "int\ufffd.xyz on b.xyz" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "picture.png").is_file() and (folder / "table.csv").is_file()


def test_lengths_are_printed_with_three_significant_digits(tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", 0.05 * shell())
    scans = replace(open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 400, None), size=0.1977, spacing=0.001436)
    assert describe_scans(scans)[1] == (
        "size about 0.198 (perhaps metres); distance between neighbours 0.00144; points within 0.00287 count as overlapping"
    )


def test_help_names_every_suffix_that_can_be_read(capsys):
    with pytest.raises(SystemExit):
        main.main(["pair", "--help"])
    words = capsys.readouterr().out.split()
    assert [suffix for suffix in READERS if suffix[1:] not in words] == []


@pytest.mark.parametrize(
    ("width", "count", "needed"), [(20, 3, 26), (26, 3, 26), (35, 4, 35), (79, 4, 35), (80, 5, 80)]
)
def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(width, count, needed):
    needs = {0: 10, 1: 4, 3: 6, 4: 7, 6: 43}
    assert _fitting(needs, width) == ([0, 1, 3, 4, 6][:count], needed)
