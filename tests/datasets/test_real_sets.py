"""Data sets of real scans and of one's own files, on scenes made here whose truth is known."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import trimesh
from PIL import Image
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.errors import InputError
from common.keys import rng
from common.kinds import DataKind
from datasets import icl_nuim
from datasets.fragment_layouts import OFFICIAL_PAIRS, SceneFiles, find_scenes
from datasets.fragments import Scene, _sample, connected, read_log
from datasets.icl_nuim_pairs import read_trajectory
from datasets.information import information_of, standard_order
from datasets.poses import move, sample_pose
from datasets.problems import ProblemKey, make_problem
from datasets.registry import DataRegistry
from datasets.scans import check_overlaps, check_rigid, overlaps
from datasets.stanford import read_conf
from tests.catalog import open_data


def room(draw, n=4000):
    """A bumpy floor with two walls, (n, 3): no rotation maps it onto itself."""
    u, v = draw.uniform(0, 2, (2, n))
    which = draw.integers(3, size=n)[:, None]
    floor = np.column_stack([u, v, 0.1 * np.sin(5 * u) * np.cos(3 * v)])
    walls = np.column_stack([u, 0 * u, v]), np.column_stack([0 * u, v / 2, u / 2])
    return np.where(which == 0, floor, np.where(which == 1, *walls))


def residual(problem):
    """Median distance of the source, moved by the truth, to the target."""
    return np.median(cKDTree(problem.target).query(move(problem.T_target_source, problem.source))[0])


def real(dataset, index=0, points=10**6):
    return make_problem(dataset, ProblemKey("set", "real", points, index, sampler="none"))


def all_of(dataset):
    """Every problem of a set of pairs."""
    return [real(dataset, index) for index in range(len(dataset))]


# Fragments


def block(i, j, n, matrix):
    return f"{i}\t {j}\t {n}\t\n" + "".join("".join(f" {x:.8e}\t" for x in row) + "\n" for row in matrix)


@pytest.fixture
def scene(tmp_path):
    """Four fragments of a room, three quarters of it each, with all six pairs."""
    folder, draw = tmp_path / "rooms" / "kitchen", rng("scene")
    folder.mkdir(parents=True)
    world = room(draw)
    poses = [sample_pose("haar", draw) for _ in range(4)]  # fragment into world
    for i, pose in enumerate(poses):
        seen = world[world[:, 0] < 1.5] if i % 2 else world[world[:, 0] > 0.5]
        trimesh.PointCloud(move(np.linalg.inv(pose), seen)).export(folder / f"cloud_bin_{i}.ply")
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    (folder / "gt.log").write_text("".join(block(i, j, 4, np.linalg.inv(poses[i]) @ poses[j]) for i, j in pairs))
    (folder / "gt.info").write_text("".join(block(i, j, 4, (10 * i + j) * np.eye(6)) for i, j in pairs[:4]))
    return folder


def fragments(scene, **parameters):
    text = ",".join(f"{k}={v}" for k, v in ({"path": "rooms", "adjacent": "true"} | parameters).items())
    return open_data(f"fragments[{text}]", scene.parent.parent)


def test_the_truth_maps_fragment_j_into_i(scene):
    dataset = fragments(scene)
    assert len(dataset) == 6
    problems = [real(dataset, i) for i in range(6)]
    assert {p.tags["object"] for p in problems} == {f"kitchen/{p}" for p in ("1-0", "2-0", "3-0", "2-1", "3-1", "3-2")}
    for problem in problems:
        distance = cKDTree(move(problem.T_target_source, problem.source)).query(problem.target)[0]
        assert (distance < 1e-5).mean() == pytest.approx(problem.tags["overlap"], abs=0.06)
        assert problem.tags["overlap"] > 0.35 and problem.tags["category"] == "kitchen"
    by_name = {p.tags["object"]: p for p in problems}
    assert by_name["kitchen/3-1"].tags["overlap"] == pytest.approx(1, abs=0.01)
    np.testing.assert_array_equal(by_name["kitchen/2-1"].information, 12 * np.eye(6))
    assert by_name["kitchen/3-2"].information is None


def test_the_overlap_is_the_share_of_the_target_or_of_the_source(scene):
    cloud = trimesh.load(scene / "cloud_bin_0.ply").vertices
    trimesh.PointCloud(np.vstack([cloud, np.asarray(cloud) + 100])).export(scene / "cloud_bin_0.ply")  # half is alone
    shares = {}
    for share in ("target", "source"):
        dataset = fragments(scene, share=share)
        shares[share] = {p.tags["object"]: p.tags["overlap"] for p in all_of(dataset)}
    target, source = shares["target"], shares["source"]
    assert target["kitchen/2-0"] == pytest.approx(source["kitchen/2-0"] / 2, abs=0.05)
    assert target["kitchen/3-1"] == pytest.approx(source["kitchen/3-1"], abs=0.02)
    assert source["kitchen/1-0"] < 0.5
    with pytest.raises(InputError, match="share must be target or source"):
        fragments(scene, share="both")


def test_a_range_of_overlaps_selects(scene):
    overlaps = [p.tags["overlap"] for p in all_of(fragments(scene))]
    assert len(fragments(scene, max_overlap=0.9)) == sum(o < 0.9 for o in overlaps) < 6
    with pytest.raises(InputError, match="min_overlap and max_overlap rise"):
        fragments(scene, min_overlap=0.5, max_overlap=0.4)
    with pytest.raises(InputError, match=r"overlap 0\.1 or more and below 0\.11"):
        len(fragments(scene, min_overlap=0.1, max_overlap=0.11))


@pytest.mark.parametrize(
    ("clouds", "truth"),
    [
        ("{s}", "{s}-evaluation"),
        ("fragments/{s}", "gt_result/{s}-evaluation"),
        ("data/indoor/test/{s}", "configs/benchmarks/3DMatch/{s}"),
        ("data/test/{s}", "metadata/benchmarks/3DMatch/{s}"),
    ],
)
def test_the_layouts_in_which_3dmatch_is_distributed(scene, tmp_path, clouds, truth):
    top, expected = tmp_path / "data2", real(fragments(scene))
    for folder, files in ((clouds, "cloud_bin_*"), (truth, "gt.*")):
        for name in ("kitchen", "hotel"):
            place = top / folder.format(s=name)
            place.mkdir(parents=True, exist_ok=True)
            for file in scene.glob(files):
                (place / file.name).write_bytes(file.read_bytes())
    dataset = open_data("fragments[adjacent=true]", top)  # no folder 3dmatch: the data root itself
    assert len(dataset) == 12 and {s.name for s in dataset.scenes} == {"kitchen", "hotel"}
    same = [p for p in all_of(dataset) if p.tags["object"] == expected.tags["object"]]
    assert len(same) == 1 and same[0].sha256() == expected.sha256()


def test_without_fragments_or_poses_the_layout_is_named(scene, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no cloud_bin_.*expected is a folder a scene.*gt_result"):
        len(open_data("fragments", tmp_path / "empty"))
    (scene / "gt.log").unlink()
    with pytest.raises(InputError, match=r"kitchen/gt\.log: missing, .*expected is"):
        len(fragments(scene))


def test_an_official_list_is_taken_as_it_is_and_others_are_measured(scene, tmp_path):
    blocks = (scene / "gt.log").read_text().splitlines(keepends=True)
    low = scene.parent / "benchmarks" / "3DLoMatch" / "kitchen"
    measured = fragments(scene, benchmark="3dlomatch", adjacent="true", near=0.001, share="source")
    with pytest.raises(InputError, match=r"no pair with overlap 0\.1 or more and below 0\.3"):
        len(measured)
    low.mkdir(parents=True)
    (low / "gt.log").write_text("".join(blocks[5:10]))  # the pair of 2 and 0, whatever its overlap
    listed = fragments(scene, benchmark="3dlomatch")
    assert len(listed) == 1 and real(listed).tags["object"] == "kitchen/2-0" and listed.remarks == ()
    own = fragments(scene, benchmark="3dmatch", adjacent="false")
    assert len(own) == 3 and "no official 3DMatch list for kitchen" in own.remarks[0]


def test_poses_of_unlisted_pairs_are_composed(scene):
    listed = {(i, j): m for i, j, m in read_log(scene / "gt.log", 4)}
    chain = {pair: listed[pair] for pair in ((0, 1), (1, 2), (2, 3))}
    composed = connected(chain)
    assert composed.keys() == listed.keys() and all(composed[p] is chain[p] for p in chain)
    for pair, matrix in listed.items():
        np.testing.assert_allclose(composed[pair], matrix, atol=1e-6)


# Information matrices


def jacobians(points):
    """G = [I | -[p]x] of each point (n, 3, 6): the motion of p by (t, rotation vector)."""
    G = np.zeros((len(points), 3, 6))
    G[:, :, :3] = np.eye(3)
    for axis in range(3):
        G[:, :, 3 + axis] = np.cross(np.eye(3)[axis], points)
    return G


def test_an_information_matrix_is_the_sum_over_its_points():
    G = jacobians(points := rng("information").random((50, 3)))
    np.testing.assert_allclose(information_of(points), np.einsum("nki,nkj->ij", G, G), atol=1e-12)


@pytest.mark.parametrize("rotation_first", [False, True])
@pytest.mark.parametrize("opposite", [False, True])
def test_either_order_and_sense_of_rotation_are_recognised(rotation_first, opposite):
    points = rng("order").random((50, 3)) + np.array([0, 0, 2])
    expected = information_of(points)
    sign = np.where(np.arange(6) < 3, 1, -1) if opposite else np.ones(6)
    stored = expected * sign[:, None] * sign
    if rotation_first:
        stored = np.roll(stored, 3, axis=(0, 1))
    centroids = points.mean(0) + np.array([[0.3, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(standard_order(stored, centroids, "gt.info"), expected, atol=1e-9)
    np.testing.assert_allclose(standard_order(stored, centroids[::-1], "gt.info"), expected, atol=1e-9)


def test_a_file_with_rotation_first_gives_the_same_recall(scene):
    """Files of Open3D, with points of the target: the pair itself decides the order."""
    dataset = fragments(scene, near=0.001)
    target = real(dataset, 0).target.astype(float)
    information = information_of(target)
    name = real(dataset, 0).tags["object"]
    j, i = map(int, name.split("/")[1].split("-"))
    (scene / "gt.info").write_text(block(i, j, 4, np.roll(information, 3, axis=(0, 1))))
    again = next(p for p in all_of(fragments(scene, near=0.001)) if p.tags["object"] == name)
    np.testing.assert_allclose(again.information, information, rtol=1e-6, atol=1e-4)


def test_a_matrix_that_counts_nothing_is_refused(scene):
    (scene / "gt.info").write_text(block(0, 1, 4, np.arange(36.0).reshape(6, 6)))
    with pytest.raises(InputError, match=r"gt\.info: block 0 1 has no block n I"):
        len(fragments(scene))


# Lists of problems


def write_list(folder, separator=" ", drop=""):
    """Two clouds in one map and a list with two problems; return its file and the motion of the second."""
    draw = rng("list")
    (folder / "plain").mkdir(parents=True)
    for name in "ab":
        np.savetxt(folder / "plain" / f"{name}.xyz", room(draw, 300))
    motion = sample_pose("haar", draw)
    head = [
        n for n in ("id source target overlap scale " + " ".join(f"t{k}" for k in range(1, 13))).split() if n != drop
    ]
    rows = [["7", "a.xyz", "b.xyz", "0.2", "1.5", *map(str, np.eye(4)[:3].ravel())]]
    rows += [["8", "b.xyz", "a.xyz", "0.8", "1.5", *map(repr, motion[:3].ravel().tolist())]]
    file = folder / "plain_global.txt"
    file.write_text("\n".join(separator.join(row) for row in [head, *rows]) + "\n")
    return file, motion


@pytest.mark.parametrize("separator", [" ", ",", "; "])
def test_a_list_of_problems_moves_the_source_and_the_truth_undoes_it(tmp_path, separator):
    _, motion = write_list(tmp_path / "eth", separator)
    dataset = open_data("pair_list[path=eth/plain_global.txt]", tmp_path)
    first, second = real(dataset), real(dataset, 1)
    np.testing.assert_allclose(move(second.T_target_source, second.source), first.target, atol=1e-5)
    np.testing.assert_allclose(second.T_target_source @ motion, np.eye(4), atol=1e-9)
    assert [p.tags["overlap"] for p in (first, second)] == [0.2, 0.8] and second.tags["object"] == "8"
    assert len(open_data("pair_list[path=eth/plain_global.txt,min_overlap=0.5]", tmp_path)) == 1


def test_broken_lists_are_one_line(tmp_path):
    file, _ = write_list(tmp_path / "eth", drop="t12")
    with pytest.raises(InputError, match=r"plain_global\.txt: no column t12"):
        len(open_data("pair_list[path=eth/plain_global.txt]", tmp_path))
    text = write_list(tmp_path / "b")[0].read_text()
    for change, says in (
        (text.replace("0.8", "x"), "line 3 does not fit"),
        (text.replace("1.0", "2.0", 1), r"motion 0 \(from 0\) is no rigid motion"),
        (text.replace("b.xyz a", "c.xyz a"), "names c.xyz"),
    ):
        (tmp_path / "b" / "plain_global.txt").write_text(change)
        with pytest.raises(InputError, match=says):
            real(open_data("pair_list[path=b/plain_global.txt]", tmp_path), 1)
    assert file.is_file()


def test_adjacent_and_weakly_overlapping_pairs_are_left_out(scene):
    assert len(fragments(scene, adjacent="false")) == 3
    assert len(fragments(scene, min_overlap=0.97)) == 2
    assert len(fragments(scene, path="rooms/kitchen")) == 6
    with pytest.raises(InputError, match="no pair with overlap 1 or more"):
        len(fragments(scene, min_overlap=1, adjacent="false", near=1e-9))


def test_clouds_are_thinned_at_random_but_never_filled_up(scene):
    dataset = fragments(scene)
    whole, few, again = real(dataset), real(dataset, points=100), real(dataset, points=100)
    assert few.source.shape == few.target.shape == (100, 3) and len(whole.source) > 2000
    assert {tuple(p) for p in few.source} < {tuple(p) for p in whole.source}
    np.testing.assert_array_equal(few.source, again.source)
    np.testing.assert_array_equal(few.T_target_source, whole.T_target_source)


def test_every_pair_comes_once_in_a_seeded_order(scene):
    dataset = fragments(scene)
    orders = [[dataset.pick(i, seed) for i in range(6)] for seed in range(4)]
    assert all(sorted(order) == list(range(6)) for order in orders) and len(set(map(tuple, orders))) > 1


def test_a_bad_fragment_stops_the_set_or_takes_its_pairs_with_it(scene):
    (scene / "cloud_bin_2.ply").write_bytes((scene / "cloud_bin_2.ply").read_bytes()[:300])
    with pytest.raises(InputError, match=r"cloud_bin_2\.ply: .*--skip-bad"):
        len(fragments(scene))
    dataset = fragments(scene, skip_bad="true")
    assert len(dataset) == 3 and "1 file is left out" in dataset.remarks[0]
    assert len(fragments(scene, skip_bad="true")) == 3  # from the cache


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda log: "", "empty"),
        (lambda log: log[: len(log) - 90], r"block 5 \(from 0\) is not 'i j n' and 4 x 4 numbers"),
        (lambda log: log.replace("0\t 1\t", "0\t x\t"), r"block 0 \(from 0\) is not"),
        (lambda log: log.replace("0\t 1\t", "0\t 9\t"), "names fragment 9"),
        (lambda log: log.replace("1.00000000e+00", "2.00000000e+00", 1), r"matrix 0 \(from 0\) is no rigid motion"),
    ],
)
def test_a_broken_log_is_one_line(scene, change, says):
    (scene / "gt.log").write_text(change((scene / "gt.log").read_text()))
    with pytest.raises(InputError, match=rf"gt\.log: {says}"):
        len(fragments(scene))


# Range scans


def test_stanford_poses_are_read_with_the_rotation_transposed(tmp_path):
    draw, folder = rng("stanford"), tmp_path / "stanford" / "thing"
    folder.mkdir(parents=True)
    world, lines = 0.1 * room(draw), ["camera 0 0 0 0 0 0 1", "bmesh lost.ply 0 0 0 0 0 0 1"]
    for name in "abc":
        pose = sample_pose("haar", draw)
        trimesh.PointCloud(move(np.linalg.inv(pose), world)).export(folder / f"{name}.ply")
        quaternion = Rotation.from_matrix(pose[:3, :3].T).as_quat()
        lines.append(f"bmesh {name}.ply {' '.join(map(str, [*pose[:3, 3], *quaternion]))}")
    (folder / "thing.conf").write_text("\n".join(lines))
    dataset = open_data("stanford", tmp_path)
    assert len(dataset) == 3 and "1 scan of its .conf is not on disk" in dataset.remarks[0]
    for index in range(3):
        problem = real(dataset, index)
        assert residual(problem) < 1e-5 and problem.tags["overlap"] > 0.99
        extent = np.linalg.norm(problem.source - (problem.source.min(0) + problem.source.max(0)) / 2, axis=1).max()
        assert 0.8 < extent < 1.2


def test_a_broken_conf_is_one_line(tmp_path):
    (tmp_path / "a.conf").write_text("bmesh a.ply 0 0 0 0 0 0\n")
    with pytest.raises(InputError, match=r"a\.conf: 'bmesh a\.ply 0 0 0 0 0 0' is not 'bmesh name"):
        read_conf(tmp_path / "a.conf")


# Rendered depth


def render(pose):
    """Depth (480, 640) in metres of a box of 4 x 3 x 5 metres seen from inside, by casting a ray a pixel."""
    v, u = np.mgrid[: icl_nuim.SIZE[0], : icl_nuim.SIZE[1]]
    rays = np.stack([(u - 319.5) / 481.2, (v - 239.5) / -480.0, np.ones(u.shape)], -1)  # z = 1: depth along the axis
    cast, start = rays @ pose[:3, :3].T, pose[:3, 3]
    with np.errstate(divide="ignore"):
        return np.where(
            cast > 0, (np.array([2, 1.5, 2.5]) - start) / cast, (np.array([-2, -1.5, -2.5]) - start) / cast
        ).min(-1)


@pytest.fixture
def sequence(tmp_path):
    folder, lines = tmp_path / "icl_nuim" / "box_kt0", []
    (folder / "depth").mkdir(parents=True)
    for number, turn in enumerate((0, 12, 25, 160), 1):
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_rotvec(np.deg2rad(turn) * np.array([0.1, 0.99, 0.1])).as_matrix()
        pose[:3, 3] = 0.1 * number, 0.05, -0.2
        depth = np.round(5000 * render(pose)).astype(np.uint16)
        depth[:20] = 0
        Image.fromarray(depth).save(folder / "depth" / f"{number * 15}.png")
        quaternion = Rotation.from_matrix(pose[:3, :3]).as_quat()
        lines.append(f"{number * 15} {' '.join(map(str, [*pose[:3, 3], *quaternion]))}")
    (folder / "traj0.gt.freiburg").write_text("\n".join(lines) + "\n")
    return folder


def test_back_projected_frames_lie_on_the_walls_and_agree(sequence, tmp_path):
    poses = read_trajectory(sequence / "traj0.gt.freiburg")
    for number, pose in poses.items():
        points = icl_nuim.read_depth(sequence / "depth" / f"{number}.png").points
        assert len(points) == 460 * 640
        to_wall = np.abs(np.abs(move(pose, points)) - (2, 1.5, 2.5)).min(axis=1)
        assert to_wall.max() < 1e-3
    dataset = open_data("icl_nuim_pairs", tmp_path)
    assert len(dataset) == 3  # the fourth frame looks the other way
    assert max(residual(real(dataset, i)) for i in range(3)) < 0.02
    assert {real(dataset, i).tags["object"] for i in range(3)} == {f"box_kt0/{p}" for p in ("30-15", "45-15", "45-30")}


def test_frames_are_objects_about_their_centroid_with_a_split(sequence, tmp_path):
    dataset = open_data("icl_nuim[train_share=0.75]", tmp_path)
    assert (len(dataset.labels("train")), len(dataset.labels("test"))) == (3, 1)
    shape = dataset.shape("test", 0)
    assert shape.name == "box_kt0_00060" and shape.cloud.shape == (20_000, 3) and dataset.fixed_points == 20_000
    np.testing.assert_allclose(shape.cloud.mean(0, dtype=float), 0, atol=1e-5)
    problem = make_problem(dataset, ProblemKey("icl_nuim", "resampled", 1024, 0))
    assert problem.source.shape == (1024, 3) and residual(problem) < 0.15


def test_an_image_of_another_kind_is_one_line(sequence, tmp_path):
    Image.fromarray(np.zeros((480, 640, 3), np.uint8)).save(sequence / "depth" / "15.png")
    with pytest.raises(InputError, match=r"15\.png: is an image of uint8"):
        open_data("icl_nuim", tmp_path).labels("test")


def test_augmented_fragments_are_objects_too(scene, tmp_path):
    dataset = open_data("icl_nuim[path=rooms]", tmp_path)
    assert dataset.categories == ("kitchen",) and len(dataset.labels("train")) == 3


# Pairs of a file


def write_pairs(file, n=5, **changes):
    draw = rng("pairs")
    clouds = draw.normal(size=(n, 64, 3)).astype(np.float32)
    poses = np.array([sample_pose("haar", draw) for _ in range(n)])
    moved = np.array([move(T, c) for T, c in zip(poses, clouds, strict=True)], dtype=np.float32)
    fields = {"source": clouds, "target": moved, "transform": poses.astype(np.float32)} | changes
    with h5py.File(file, "w") as handle:
        for name, value in fields.items():
            if value is not None:
                handle[name] = value
    return poses


def test_a_file_of_the_authors_form_maps_source_to_target_in_its_order(tmp_path):
    poses = write_pairs(tmp_path / "clean.h5")
    dataset = open_data("pairs[path=clean.h5]", tmp_path)
    assert len(dataset) == 5 and dataset.domain == "pairs"
    for index in range(5):
        problem = real(dataset, index)
        np.testing.assert_allclose(problem.T_target_source, poses[index], atol=1e-6)
        np.testing.assert_allclose(move(problem.T_target_source, problem.source), problem.target, atol=1e-5)
    assert problem.tags["object"] == "clean/00004" and problem.tags["symmetry"] is None


REFLECTED = np.tile(np.eye(4), (5, 1, 1))
REFLECTED[3, 2, 2] = -1
HOLED = np.ones((5, 64, 3))
HOLED[2, 7] = np.nan


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"transform": None}, "no field 'transform'"),
        ({"transform": np.zeros((5, 3, 4))}, r"field 'transform' is float64 \(5, 3, 4\)"),
        ({"target": np.zeros((4, 64, 3))}, r"field 'target' is float64 \(4, 64, 3\), not float \(5, N, 3\)"),
        ({"source": np.zeros((5, 64, 3), int)}, "field 'source' is int64"),
        ({"transform": REFLECTED}, "field 'transform', row 3, is no rigid motion"),
        ({"source": HOLED}, "field 'source', row 2: 64 points, not 3 or more finite ones"),
    ],
)
def test_what_is_wrong_in_a_file_names_field_and_row(tmp_path, change, says):
    write_pairs(tmp_path / "bad.h5", **change)
    with pytest.raises(InputError, match=rf"bad\.h5: {says}"):
        len(open_data("pairs[path=bad.h5]", tmp_path))


def test_bad_rows_are_left_out_if_asked(tmp_path):
    write_pairs(tmp_path / "bad.h5", transform=REFLECTED)
    dataset = open_data("pairs[path=bad.h5,skip_bad=true]", tmp_path)
    assert len(dataset) == 4 and "left out 1 row: " in dataset.remarks[0]


def test_a_truncated_file_is_one_line(tmp_path):
    write_pairs(tmp_path / "cut.h5")
    (tmp_path / "cut.h5").write_bytes((tmp_path / "cut.h5").read_bytes()[:900])
    with pytest.raises(InputError, match=r"cut\.h5: not a complete HDF5 file"):
        len(open_data("pairs[path=cut.h5]", tmp_path))


# One's own folder


@pytest.fixture
def mixed(tmp_path):
    folder = tmp_path / "mine"
    (folder / "ball" / "deep").mkdir(parents=True)
    trimesh.creation.box((1, 2, 3)).apply_translation((5, 5, 5)).export(folder / "box.off")
    trimesh.creation.icosphere(subdivisions=1).export(folder / "ball" / "deep" / "ball.stl")
    np.save(folder / "ball" / "cloud.npy", rng("mixed").random((200, 3)) + 7)
    (folder / "notes.md").write_text("not a shape")
    return folder


def test_a_tree_of_meshes_and_clouds(mixed, tmp_path):
    dataset = open_data("folder[path=mine]", tmp_path)
    assert dataset.categories == ("ball", "mine") and dataset.fixed_points == 200
    shapes = [dataset.shape("test", i) for i in range(3)]
    assert [s.name for s in shapes] == ["ball/cloud", "ball/deep/ball", "box"]
    assert [s.category for s in shapes] == ["ball", "ball", "mine"]
    for shape in shapes:
        points = shape.samples(200, 1, rng("s"))[0]
        assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-9 and np.abs(points.mean(0)).max() < 0.2
    with pytest.raises(InputError, match="has no train split"):
        dataset.labels("train")


def test_units_are_kept_and_small_clouds_left_out_if_asked(mixed, tmp_path):
    dataset = open_data("folder[path=mine,unit=false,min_points=1000]", tmp_path)
    assert dataset.fixed_points is None and "left out 1 cloud of fewer than 1000 points" in dataset.remarks[0]
    box = dataset.shape("test", 1).samples(500, 1, rng("s"))[0]
    np.testing.assert_allclose([box.min(0), box.max(0)], [(4.5, 4, 3.5), (5.5, 6, 6.5)], atol=0.05)


def test_folders_train_and_test_are_the_splits(mixed, tmp_path):
    for split in ("train", "test"):
        (tmp_path / "split" / split / "chair").mkdir(parents=True)
        np.save(tmp_path / "split" / split / "chair" / "a.npy", rng(split).random((50, 3)))
    dataset = open_data("folder[path=split]", tmp_path)
    assert len(dataset.labels("train")) == len(dataset.labels("test")) == 1
    assert dataset.shape("train", 0).name == "train/chair/a" and dataset.categories == ("chair",)


def test_a_bad_file_stops_the_folder_unless_it_is_to_be_left_out(mixed, tmp_path):
    (mixed / "broken.obj").write_text("v 1 2\n")
    np.save(mixed / "same.npy", np.ones((9, 3)))
    with pytest.raises(InputError, match=r"mine/broken\.obj: .*--skip-bad"):
        open_data("folder[path=mine]", tmp_path).labels("test")
    dataset = DataRegistry(tmp_path).spec("folder[path=mine]").skipping_bad().build()
    assert len(dataset.labels("test")) == 3 and "2 files are left out" in dataset.remarks[0]


def test_hidden_files_and_descriptions_are_left_out_and_remarks_are_counted(mixed, tmp_path):
    (mixed / "._box.off").write_bytes(b"\0\5\x16\7" * 20)
    (mixed / "box_info.txt").write_text("mid: 0\nsource: web\n")
    for name in "ab":
        np.savetxt(mixed / f"{name}.txt", np.hstack([rng(name).random((60, 3))] * 2), delimiter=",")
    dataset = open_data("folder[path=mine]", tmp_path)
    assert len(dataset.labels("test")) == 5
    assert "left out 1 text file without points, such as" in dataset.remarks[0]
    assert "box_info.txt" in dataset.remarks[0]
    assert dataset.remarks[1] == "2 files, the first a.txt: columns 1, 2, 3 of 6 are x, y, z"


def test_clouds_too_small_for_a_problem_are_left_out_of_it(mixed, tmp_path):
    np.save(mixed / "tiny.npy", rng("tiny").random((40, 3)))
    np.save(mixed / "large.npy", rng("large").random((600, 3)))
    dataset = open_data("folder[path=mine]", tmp_path)
    rest, remark = dataset.points_for(100, 200)
    assert rest == 200 and "1 file has fewer than 100 points, such as tiny.npy with 40: left out" in remark
    names = {make_problem(dataset, ProblemKey("f", "resampled", 100, i)).tags["object"] for i in range(12)}
    assert names == {"ball/cloud", "large", "ball/deep/ball", "box"}
    few, remark = dataset.points_for(1000, 2000)
    assert few == 40 and "3 files have fewer than 1000 points" in remark and "lower --points" in remark
    for file in ("box.off", "ball/deep/ball.stl"):
        (mixed / file).unlink()
    with pytest.raises(InputError, match="no test object of these categories of 2000 points or more"):
        make_problem(open_data("folder[path=mine]", tmp_path), ProblemKey("f", "resampled", 1000, 0))


# What they have in common


def test_unknown_parameters_suggest_and_pairs_are_no_objects(tmp_path):
    registry = DataRegistry(tmp_path)
    with pytest.raises(InputError, match="did you mean min_overlap"):
        open_data("fragments[min_overlp=0.3]", tmp_path)
    with pytest.raises(InputError, match="unknown parameter of data set folder 'root'"):
        open_data("folder[root=x]", tmp_path)
    with pytest.raises(InputError, match="a set of real pairs, not of objects"):
        registry.spec("stanford").objects()
    with pytest.raises(InputError, match="near must be above 0"):
        open_data("stanford[near=0]", tmp_path)
    assert registry.spec("shapes40").skipping_bad().text == "shapes40"
    assert registry.spec("folder[path=a]").skipping_bad().text == "folder[path=a,skip_bad=true]"


def test_objects_are_not_taken_for_pairs_nor_pairs_for_objects(mixed, tmp_path):
    write_pairs(tmp_path / "clean.h5")
    with pytest.raises(InputError, match="the only condition is real"):
        make_problem(open_data("pairs[path=clean.h5]", tmp_path), ProblemKey("p", "noisy", 10, 0))
    with pytest.raises(InputError, match="not a pair of scans"):
        make_problem(open_data("folder[path=mine]", tmp_path), ProblemKey("f", "real", 10, 0))


def test_a_changed_file_is_read_again(mixed, tmp_path):
    before = open_data("folder[path=mine]", tmp_path).shape("test", 0).cloud
    np.save(mixed / "ball" / "cloud.npy", rng("other").random((300, 3)))
    after = open_data("folder[path=mine]", tmp_path).shape("test", 0).cloud
    assert len(before) == 200 and len(after) == 300


# Bounds and defaults


@pytest.mark.parametrize(("error", "rigid"), [(0.9e-3, True), (1.1e-3, False)])
def test_a_rotation_is_one_to_a_thousandth(error, rigid):
    T = np.stack([np.eye(4), np.diag([np.sqrt(1 + error), 1, 1, 1])])
    if rigid:
        check_rigid(T, "T")
        return
    with pytest.raises(InputError, match=r"^T 1 is no rigid motion"):
        check_rigid(T, "T {row}")


def test_reflections_other_last_rows_and_infinite_translations_are_no_rigid_motion():
    for row, column, value in ((2, 2, -1.0), (3, 0, 1e-9), (3, 3, 2.0), (0, 3, np.inf), (0, 0, np.nan)):
        T = np.eye(4)
        T[row, column] = value
        with pytest.raises(InputError, match="is no rigid motion"):
            check_rigid(T, "T")


@pytest.mark.parametrize(
    ("near", "low", "high", "valid"),
    [(1e-9, 0, 0, True), (1, 0, 1, True), (0, 0, 1, False), (-1, 0, 1, False), (1, -0.1, 1, False), (1, 0, 1.1, False),
     (1, 0.6, 0.5, False)],
)  # fmt: skip
def test_overlaps_rise_within_0_and_1_and_the_distance_is_above_0(near, low, high, valid):
    if valid:
        check_overlaps(near, low, high)
    else:
        with pytest.raises(ValueError, match="near must be above 0"):
            check_overlaps(near, low, high)


DEFAULTS = {
    "stanford": {"near": 0.02, "min_overlap": 0.3, "max_overlap": 1.0},
    "icl_nuim_pairs": {"near": 0.0375, "min_overlap": 0.3, "max_overlap": 1.0},
    "fragments": {"near": 0.0375, "min_overlap": 0.0, "max_overlap": 1.0, "adjacent": False, "share": "target"},
    "pair_list": {"min_overlap": 0.0, "max_overlap": 1.0},
    "icl_nuim": {"train_share": 0.8, "skip_bad": False},
    "rooms": {"split": "test", "scenes": 50},
    "folder": {"unit": True, "min_points": 3, "symmetry": "unknown", "skip_bad": False},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_parameters_have_the_defaults_of_earlier_results(name):
    dataset = open_data(name)
    assert {key: getattr(dataset, key) for key in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("count", [40, 1000, 1300])
def test_overlaps_are_the_share_of_the_source_near_the_target_of_at_most_a_thousand_points(count):
    draw = rng("overlaps")
    world = [draw.random((count, 3)), draw.random((60, 3)), draw.random((50, 3)) + np.array([0.5, 0, 0])]
    frames = [sample_pose("haar", draw) for _ in world]
    clouds = [move(np.linalg.inv(T), cloud) for T, cloud in zip(frames, world, strict=True)]
    pairs = [(1, 0), (1, 2), (2, 0)]
    poses = [np.linalg.inv(frames[target]) @ frames[source] for target, source in pairs]
    for share, (target, source) in zip(overlaps(clouds.__getitem__, pairs, poses, 0.1), pairs, strict=True):
        near = (cdist(world[source], world[target]).min(axis=1) < 0.1).mean()
        assert share == pytest.approx(near, abs=1e-9 if len(clouds[source]) <= 1000 else 0.05) and 0.02 < near < 0.98
    if count > 1000:
        used = rng("overlap", count).permutation(count)[:1000]
        near = (cdist(world[0][used], world[1]).min(axis=1) < 0.1).mean()
        assert overlaps(clouds.__getitem__, pairs, poses, 0.1)[0] == pytest.approx(near)


def scene_of(count, numbers, overlap, target_overlap, official=False):
    arrays = {"numbers": np.array(numbers), "start": np.arange(count + 1)}
    arrays |= {"overlap": np.array(overlap), "target_overlap": np.array(target_overlap)}
    return Scene("s", arrays, official)


@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("adjacent", [False, True])
@pytest.mark.parametrize(("benchmark", "low", "high"), [("", 0.0, 1.0), ("3dmatch", 0.3, 1.0), ("3dlomatch", 0.1, 0.3)])
@pytest.mark.parametrize(
    ("least", "most", "share"), [(0.0, 1.0, "target"), (0.25, 0.6, "target"), (0.2, 1.0, "source")]
)
def test_pairs_are_those_of_the_benchmark_and_of_the_bounds(
    official, count, adjacent, benchmark, low, high, least, most, share
):
    numbers = [(0, k % 4) for k in range(1, 13)]
    values = np.linspace(0.05, 1.0, 12)
    scene = scene_of(count, numbers, values[::-1], values, official)
    text = f"adjacent={str(adjacent).lower()},benchmark={benchmark or '3dmatch'},min_overlap={least},max_overlap={most}"
    dataset = open_data(f"fragments[{text},share={share}]")
    dataset.benchmark = benchmark
    if not official:
        least, most = max(low, least), min(high, most)
    expected = [
        k
        for k, (i, j) in enumerate(numbers)
        if (adjacent or count == 2 or abs(j - i) > 1)
        and least <= (v := values[k] if share == "target" else values[::-1][k])
        and (v < most or most == 1)
    ]
    assert dataset._selected(scene).tolist() == expected


@pytest.mark.parametrize(("count", "text"), [(1, "s0"), (3, "s0, s1, s2"), (5, "s0, s1, s2 and 2 more")])
def test_scenes_without_an_official_list_are_named(count, text):
    dataset = open_data("fragments[benchmark=3dlomatch]")
    arrays = {"bad": np.array([], dtype=np.str_)}
    dataset.__dict__["scenes"] = [Scene(f"s{k}", arrays, k >= count) for k in range(count + 2)]
    assert dataset.remarks == (f"no official 3DLoMatch list for {text}: its pairs are chosen by measured overlap",)
    dataset.benchmark = ""
    assert dataset.remarks == ()


def test_information_is_of_target_points_near_the_source_and_of_either_sense(tmp_path):
    """A pair without one in the file, one with the sense of Fast Global Registration, and one of the source's points."""
    draw, near = rng("gt.info"), 0.2
    world = draw.random((400, 3)) + np.array([3, 1, 2])
    poses = [sample_pose("haar", draw) for _ in range(3)]
    clouds = {k: move(np.linalg.inv(T), world[100 * k : 100 * k + 200]) for k, T in enumerate(poses)}
    pairs = [(0, 1), (0, 2), (1, 2)]
    T = [np.linalg.inv(poses[i]) @ poses[j] for i, j in pairs]
    matched = [
        clouds[i][cdist(clouds[i], move(m, clouds[j])).min(axis=1) < near] for (i, j), m in zip(pairs, T, strict=True)
    ]
    sign = np.where(np.arange(6) < 3, 1, -1)
    opposite = information_of(matched[1]) * sign[:, None] * sign
    of_source = information_of(move(np.linalg.inv(T[2]), matched[2]))
    (tmp_path / "gt.info").write_text(block(0, 2, 3, opposite) + block(1, 2, 3, of_source * sign[:, None] * sign))
    files = SceneFiles("s", {}, tmp_path / "gt.log", tmp_path / "gt.info", False)
    dataset = open_data(f"fragments[near={near}]")
    found = dataset._information(files, clouds, pairs, T, [True, False, False])
    expected = [information_of(matched[0]), information_of(matched[1]), of_source]
    for k in range(3):
        np.testing.assert_allclose(found[k], expected[k], rtol=1e-6, atol=1e-4)
    assert np.isnan(dataset._information(files, clouds, pairs[:1], T[:1], [False])).all()


def test_information_is_of_at_most_five_thousand_points():
    for count, used in ((5000, 5000), (5001, 5000), (40, 40)):
        cloud = np.arange(3.0 * count).reshape(count, 3)
        sample = _sample(cloud)
        assert len(sample) == used and (np.diff(sample[:, 0]) > 0).all() and np.isin(sample[:, 0], cloud[:, 0]).all()


def test_scans_of_an_object_are_in_the_sphere_about_the_middle_of_its_box(tmp_path):
    draw, folder, parts = rng("sphere"), tmp_path / "stanford", []
    folder.mkdir()
    lines = []
    for name in "ab":
        pose, cloud = sample_pose("haar", draw), draw.normal(size=(90, 3)).astype(np.float32)
        trimesh.PointCloud(cloud).export(folder / f"{name}.ply")
        quaternion = Rotation.from_matrix(pose[:3, :3].T).as_quat()
        lines.append(f"bmesh {name}.ply {' '.join(map(str, [*pose[:3, 3], *quaternion]))}")
        parts.append(move(pose, cloud.astype(float)))
    (folder / "two.conf").write_text("\n".join(lines))
    world = np.concatenate(parts)
    radius = np.linalg.norm(world - (world.min(0) + world.max(0)) / 2, axis=1).max()
    dataset = open_data("stanford[min_overlap=0]", tmp_path)
    pair = dataset.pair(0)
    assert (len(dataset), pair.name) == (1, "two/b-a")
    np.testing.assert_allclose(move(pair.T_target_source, pair.source) - pair.target[0],
                               (parts[1] - parts[0][0]) @ np.linalg.inv(_frame(lines[0])).T / radius, atol=1e-5)  # fmt: skip


def _frame(line):
    """The rotation (3, 3), scan to object, of a line of a .conf file."""
    return Rotation.from_quat([float(v) for v in line.split()[5:]]).as_matrix().T


@pytest.mark.parametrize(
    ("requested", "needed", "usable", "remark"),
    [
        (50, 100, 50, ""),
        (51, 100, 80, "1 file has fewer than 51 points, such as b with 50: left out, as by min_points=51; with "
         "min_points=100, files of fewer than 100 are left out as well"),
        (51, 80, 80, "1 file has fewer than 51 points, such as b with 50: left out, as by min_points=51"),
        (81, 81, 200, "2 files have fewer than 81 points, such as b with 50: left out, as by min_points=81"),
        (201, 201, 200, "3 files have fewer than 201 points, such as b with 50; lower --points"),
    ],
)  # fmt: skip
def test_clouds_with_too_few_points_are_left_out_unless_all_are_so_small(requested, needed, usable, remark):
    """Three clouds of 80, 50 and 200 points and a surface of one triangle."""
    dataset = open_data("folder[path=x]")
    sizes = [80, 50, 3, 200]
    dataset.__dict__["_arrays"] = {
        "start": np.cumsum([0, *sizes]), "is_mesh": np.array([False, False, True, False]), "names": np.array(list("abmc"))
    }  # fmt: skip
    dataset.__dict__["is_split"] = False
    if usable == 200 and requested == 201:
        assert dataset.points_for(requested, needed) == (50, remark)
    else:
        assert dataset.points_for(requested, needed) == (usable, remark)
    assert dataset.fixed_points == 50 and dataset.point_counts("test").tolist() == [80, 50, 2**62, 200]


@pytest.mark.parametrize(
    ("place", "official"),
    [
        ("data/test/kitchen", set()),
        ("data/test/kitchen-evaluation", {"3dmatch"}),
        ("data/test/gt_result/kitchen-evaluation", {"3dmatch"}),
        ("gt_result/kitchen", {"3dmatch"}),
        ("benchmarks/3DMatch/kitchen", {"3dmatch"}),
        ("configs/benchmarks/3DLoMatch/kitchen", {"3dlomatch"}),
        ("data/3DMatch/kitchen", {"3dmatch"}),
    ],
)
def test_a_list_is_official_by_its_place(tmp_path, place, official):
    for folder, file in (("data/test/kitchen", "cloud_bin_0.ply"), (place, "gt.log"), (place, "gt.info")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).touch()
    for benchmark in ("", "3dmatch", "3dlomatch"):
        if "3DLoMatch" in place and benchmark != "3dlomatch":
            continue  # no list that another benchmark could take
        (found,) = find_scenes(tmp_path, benchmark)
        assert (found.name, found.log) == ("kitchen", tmp_path / place / "gt.log")
        assert found.official == (benchmark in official) and found.info == found.log.with_name("gt.info")
        assert found.clouds == {0: tmp_path / "data/test/kitchen/cloud_bin_0.ply"}


@pytest.mark.parametrize(("depth", "found"), [(0, True), (4, True), (5, False)])
def test_scenes_are_found_up_to_four_levels_below(tmp_path, depth, found):
    folder = tmp_path.joinpath(*"abcdef"[:depth])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("cloud_bin_10.pcd", "cloud_bin_9.ply", "cloud_bin_x.ply", "cloud_bin_3.txt", "gt.log"):
        (folder / name).touch()
    if found:
        assert list(find_scenes(tmp_path, "")[0].clouds) == [9, 10]
    else:
        with pytest.raises(InputError, match=r"no cloud_bin_\*\.ply, \.pcd or \.pth within 4 levels"):
            find_scenes(tmp_path, "")


@pytest.mark.parametrize("benchmark", ["", "3dmatch", "3dlomatch"])
def test_a_list_with_the_published_number_of_pairs_is_official(tmp_path, monkeypatch, benchmark):
    assert sum(OFFICIAL_PAIRS.values()) == 1623 and len(OFFICIAL_PAIRS) == 8
    for pairs in (505, 506, 507):
        arrays = {"pairs": np.zeros((pairs, 2), int)}
        monkeypatch.setattr("datasets.fragments.load_or_compute", lambda *_, arrays=arrays: arrays)
        files = SceneFiles("7-scenes-redkitchen", {}, tmp_path / "gt.log", tmp_path / "gt.info", False)
        dataset = open_data("fragments")
        dataset.benchmark = benchmark
        assert dataset._scene(files).official == (benchmark == "3dmatch" and pairs == 506)
        assert not dataset._scene(replace(files, name="other")).official


def test_two_scans_of_an_object_are_enough_and_one_is_refused(tmp_path):
    folder = tmp_path / "stanford"
    folder.mkdir()
    (folder / "a.conf").write_text("bmesh a.ply 0 0 0 0 0 0 1\nbmesh b.ply 0 0 0 0 0 0 1\n")
    trimesh.PointCloud(rng("two").random((30, 3))).export(folder / "a.ply")
    with pytest.raises(InputError, match=r"a\.conf: fewer than two of the scans .*such as b\.ply"):
        len(open_data("stanford", tmp_path))
    (folder / "b.ply").write_bytes((folder / "a.ply").read_bytes())
    assert len(open_data("stanford", tmp_path)) == 1


def test_a_composed_pair_without_overlap_has_no_information(scene, tmp_path):
    """Pairs that a chain of listed ones connects get the matrix of their correspondences, if there are any."""
    far = np.vstack([rng("far").random((500, 3)), rng("far").random((500, 3)) + 50])
    for k in range(4):
        trimesh.PointCloud(far[:500] if k < 3 else far[500:]).export(scene / f"cloud_bin_{k}.ply")
    (scene / "gt.log").write_text("".join(block(i, i + 1, 4, np.eye(4)) for i in range(3)))
    (scene / "gt.info").unlink()
    dataset = fragments(scene, benchmark="3dlomatch")
    arrays = dataset.scenes[0].arrays
    pairs = dict(zip(map(tuple, arrays["numbers"].tolist()), arrays["information"], strict=True))
    assert set(pairs) == {(i, j) for i in range(4) for j in range(i + 1, 4)}
    np.testing.assert_allclose(pairs[0, 2], information_of(far[:500]), rtol=1e-5)
    assert np.isnan([pairs[p] for p in pairs if p != (0, 2)]).all()


@pytest.mark.parametrize(
    ("count", "kinds", "kind"),
    [(3, ["scans", "scans"], DataKind.SCANS), (3, ["scans", "objects"], DataKind.OBJECTS), (3, None, DataKind.OBJECTS),
     (2, None, None)],
)  # fmt: skip
def test_pairs_of_a_file_have_their_kind_and_three_points_at_least(tmp_path, count, kinds, kind):
    extra = {} if kinds is None else {"kind": kinds}
    clouds = rng("kinds").random((2, count, 3)).astype(np.float32)
    write_pairs(tmp_path / "p.h5", 2, source=clouds, target=clouds, **extra)
    dataset = open_data("pairs[path=p.h5]", tmp_path)
    if kind is None:
        with pytest.raises(InputError, match="2 points, not 3 or more finite ones"):
            len(dataset)
    else:
        assert (len(dataset), dataset.kind) == (2, kind)


@pytest.mark.parametrize(("least", "names"), [(8, ["a", "b"]), (9, ["b"]), (10, [])])
def test_objects_have_at_least_the_points_that_both_clouds_take(tmp_path, least, names):
    for name, count in (("a", 8), ("b", 9)):
        np.save(tmp_path / f"{name}.npy", rng(name).random((count, 3)))
    dataset = open_data(f"folder[path={tmp_path}]")
    if not names:
        with pytest.raises(InputError, match="no test object of these categories of 10 points or more"):
            dataset.pick("test", 0, 0, None, least)
    else:
        picked = {dataset.shape("test", dataset.pick("test", k, 0, None, least)).name for k in range(4)}
        assert picked == set(names)
        assert open_data(f"folder[path={tmp_path},min_points={least}]").names == [f"{name}.npy" for name in names]
