"""Two files of one's own: found, registered, compared, written."""

import json
import re

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.cli import main
from bench.isolation.protocol import Limits
from bench.pair import agreement, clouds
from bench.pair.files import write_ply
from bench.pair.register import register_all
from bench.pair.result import read_truth
from common.errors import InputError
from common.keys import rng
from datasets import formats
from tests.bench.command_line import PLUGINS
from tests.catalog import open_data

T = np.eye(4)
T[:3, :3] = Rotation.from_rotvec((0.4, -0.9, 0.3)).as_matrix()
T[:3, 3] = (3.0, -1.0, 2.0)


def blob(n=900, key=0):
    cloud = rng("pair", key).normal(size=(n, 3)) * (1.0, 0.5, 0.2)
    return cloud + 0.3 * cloud**2


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A cloud in millimetres, and the same moved, in metres, far from the origin as on a map."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("a.xyz", 1000 * blob())
    write_ply(tmp_path / "b.ply", blob() @ T[:3, :3].T + T[:3, 3] + (5e5, 4e6, 100))
    truth = T.copy()
    truth[:3, 3] += (5e5, 4e6, 100)
    np.savetxt("truth.txt", truth)
    return tmp_path


def call(*arguments, expect=0):
    assert main.main(["pair", *map(str, arguments), "--plugins", str(PLUGINS)]) == expect


def test_a_second_pair_leaves_nothing_of_the_first_and_no_file_of_others_is_touched(files, capsys):
    cloud = np.loadtxt("a.xyz")
    np.savetxt("holes.xyz", np.vstack([np.full((5, 3), np.nan), cloud]))
    call("holes.xyz", "b.ply", "--methods", "good", "identity", "--points", 100, "--out", "o")
    assert "holes.xyz: rows of NaN, where a scanner saw nothing, are left out (5)" in capsys.readouterr().out
    (files / "o" / "poses" / "mine.txt").write_text("mine")
    call("a.xyz", "b.ply", "--methods", "bad_exit", "identity", "--points", 100, "--out", "o")
    assert sorted(f.name for f in (files / "o" / "poses").iterdir()) == ["identity.txt", "mine.txt"]
    assert [f.name for f in (files / "o" / "aligned").iterdir()] == ["identity.ply"]
    call("a.xyz", "b.ply", "--methods", "bad_exit", "--points", 100, "--out", "o", "--truth", "o/poses/identity.txt")
    assert not (files / "o" / "aligned.ply").exists() and (files / "o" / "poses" / "identity.txt").exists()


def test_a_pair_is_registered_compared_and_written(files, capsys):
    methods = ["good", "good+icp", "identity", "bad_exit", "bad_reflection"]
    call("a.xyz", "b.ply", "--methods", *methods, "--points", 400, "--truth", "truth.txt", "--timeout", 20)
    said = capsys.readouterr().out
    for expected in (
        "multiplied by 0.001",
        "900 points: ",
        "apart",
        "agreement",
        "perhaps",
        "No two different methods",
    ):
        assert expected in said
    folder = files / "pairs" / "a-b"
    told = json.loads((folder / "poses.json").read_text())
    rows = {row["method"]: row for row in told["methods"]}
    assert [rows[m]["status"] for m in methods] == ["ok", "ok", "ok", "crash", "invalid"]
    assert rows["bad_exit"]["T_target_source"] is None and "exit code 3" in rows["bad_exit"]["message"]
    assert rows["good+icp"]["rmse"] < 0.1 and rows["good+icp"]["overlap"] > 0.95 and told["best"].startswith("good")
    assert rows["identity"]["overlap"] < rows["good+icp"]["overlap"] and rows["good"]["confidence"] == "confidence 0.5"
    pose = np.loadtxt(folder / "poses" / "good-icp.txt")
    np.testing.assert_allclose(pose, rows["good+icp"]["T_target_source"], rtol=1e-9)
    moved = formats.read(folder / "aligned.ply").points
    assert len(moved) == 900 and np.abs(moved - formats.read(files / "b.ply").points).max() < 0.5
    html = (folder / "report.html").read_text()
    assert "Plotly.newPlot" in html and "plotly.js v" in html and 'src="' not in html.replace("<script>", "")[:3000]
    assert (folder / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert len((folder / "agreement.csv").read_text().splitlines()) == 1 + 3


def test_no_method_with_a_pose_is_told_and_not_a_crash(files, capsys):
    call("a.xyz", "b.ply", "--methods", "bad_give_up", "--out", "none")
    assert "No method found a pose." in capsys.readouterr().out and (files / "none" / "report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a.xyz", "c.ply"], "c.ply: no such file"),
        (["a.abc", "b.ply"], "suffix '.abc' is none of"),
        ([".", "b.ply"], ".: is a folder; give one file in it"),
        (["a.xyz", "b.ply", "--methods", "icpp"], "did you mean icp"),
        (["a.xyz", "b.ply", "--scale", "-1"], "--scale: must be above 0"),
        (["a.xyz", "b.ply", "--scale", "0"], "--scale: must be above 0"),
        (["a.xyz", "b.ply", "--methods", "icp+"], "nothing stands beside a +"),
        (["a.xyz", "b.ply", "--points", "1"], "--points: must be at least 10"),
        (["a.xyz", "b.ply", "--truth", "a.xyz"], "--truth a.xyz: no 4 x 4 matrix"),
        (["same.xyz", "b.ply"], "all its points are the same"),
    ],
)
def test_bad_input_is_one_line(files, capsys, arguments, says):
    np.savetxt("same.xyz", np.ones((20, 3)))
    call(*arguments, expect=2)
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_learned_method_without_weights_tells_a_command_that_works(files):
    scans = clouds.open_scans((files / "a.xyz", files / "b.ply"), 400, None)
    (answer,) = register_all(scans, ["dcp"], Limits(20, 8), "cpu", 1, None)
    assert answer.status == "skipped"
    command = re.search(r"bench\.py train (.*)", answer.message)[1]
    dataset = main._parser(train=True)[0].parse_args(["train", *command.split()]).dataset
    assert open_data(dataset).name == dataset


def test_a_size_of_which_two_units_are_likely_is_told_as_such():
    said = [clouds.guessed_unit(size) for size in (0.3, 1.8, 150, 1300)]
    assert said[2] == "perhaps metres if it is a building, millimetres if an object"
    assert said[0] == "perhaps metres" and said[3] == "perhaps millimetres"


def test_thinning_spreads_evenly_and_moves_nothing():
    dense, sparse = rng("a").random((20_000, 3)), rng("b").random((500, 3)) + np.eye(3)[0]
    both = np.concatenate([dense, sparse])
    few = clouds.thinned(both, 1000, "x")
    assert 700 < len(few) <= 1000 and {tuple(p) for p in few} <= {tuple(p) for p in both}
    share = (few[:, 0] > 1).mean()
    assert share > 0.25  # 500 of 20 500 points fill half the space
    np.testing.assert_array_equal(few, clouds.thinned(both, 1000, "x"))
    assert clouds.thinned(sparse, 1000, "x") is sparse


def test_millions_of_points_take_seconds(tmp_path):
    cloud = rng("many").random((2_000_000, 3))
    np.save(tmp_path / "a.npy", cloud)
    np.save(tmp_path / "b.npy", cloud[:100])
    scans = clouds.open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 2000, None)
    assert 1500 < len(scans.source.thin) <= 2000 and len(scans.target.thin) == 100
    assert any("2000000 points" in note for note in scans.notes)


@pytest.mark.parametrize(
    ("source", "target", "factor"), [(1, 1, 1), (1, 3, 1), (1, 20, 1), (900, 1, 1e-3), (1, 1200, 1e3), (130, 1, 1e-2)]
)
def test_units_are_told_apart_only_where_sizes_are_far_apart(source, target, factor):
    assert clouds.unit_factor(source, target) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("times", "factor", "told"), [(1, None, 0), (2.5, None, 0), (25.4, None, 1), (1 / 3.28, None, 1), (25.4, 1.0, 0)]
)
def test_other_ratios_of_sizes_are_told_but_nothing_is_scaled(tmp_path, times, factor, told):
    cloud = rng("inches").random((300, 3))
    np.save(tmp_path / "a.npy", cloud)
    np.save(tmp_path / "b.npy", cloud * times)
    scans = clouds.open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 300, factor)
    said = [note for note in scans.notes if "another unit" in note]
    assert scans.factor == 1 and len(said) == told
    assert not told or "--scale FACTOR" in said[0]


def test_a_mesh_is_sampled_of_its_surface(tmp_path):
    (tmp_path / "m.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n")
    scans = clouds.open_scans((tmp_path / "m.off", tmp_path / "m.off"), 300, None)
    assert scans.source.is_mesh and 200 < len(scans.source.thin) <= 300 and len(scans.source.whole) == 4
    assert "m.off is a mesh" in scans.notes[0]


def test_consensus_counts_different_methods_not_refinements():
    near, far = np.eye(4), T
    poses = np.array([far, far, far, near, near])
    agree = agreement.agreement(poses, blob())
    fits = [agreement.Fit(0.9, 0.1)] * 3 + [agreement.Fit(0.5, 0.1), agreement.Fit(0.6, 0.1)]
    group = agreement.consensus(["a", "a+b", "a[x=1]", "c", "d"], agree.distance, fits, 0.1)
    assert group.members == (3, 4) and group.independent == 2 and group.best == 4
    assert agree.angle_deg[0, 3] == pytest.approx(np.degrees(np.linalg.norm((0.4, -0.9, 0.3))))
    assert agreement.consensus([], np.zeros((0, 0)), [], 0.1) is None
    level = agreement.consensus(
        ["a", "b", "c"],
        np.zeros((3, 3)),
        [agreement.Fit(0.999, 2.0), agreement.Fit(0.995, 1.0), agreement.Fit(0.8, 0.1)],
        0.1,
    )
    assert level.best == 1, "a few points more do not make up for a worse fit"


def test_fits_against_brute_force():
    source, target = blob(80, 1), blob(90, 2)
    found = agreement.fits(T[None], source, target, 2.0)[0]
    moved = source @ T[:3, :3].T + T[:3, 3]
    nearest = np.linalg.norm(moved[:, None] - target[None], axis=2).min(axis=1)
    assert found.share == (nearest < 2).mean() > 0 and found.residual == pytest.approx(np.median(nearest[nearest < 2]))


@pytest.mark.parametrize("form", ["text", "rows", "field"])
def test_truth_is_read_from_text_and_json(tmp_path, form):
    file = tmp_path / ("t.txt" if form == "text" else "t.json")
    content = {"rows": T.tolist(), "field": {"T_target_source": T.ravel().tolist()}}
    if form == "text":
        np.savetxt(file, T, delimiter=",")
    else:
        file.write_text(json.dumps(content[form]))
    np.testing.assert_allclose(read_truth(file), T)
    file.write_text(json.dumps((2 * T).tolist()) if form != "text" else " ".join(map(str, (2 * T).ravel())))
    with pytest.raises(InputError, match="rigid"):
        read_truth(file)
