"""Preparation of two files."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from bench.pair import clouds
from common.keys import rng
from datasets import formats
from datasets.base import sample_triangles
from tests.bench.pair.synthetic_pair import T, shell


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1.39, 0), (1.4, 1), (2.1, 1), (2.11, 0), (20, 0), (20.1, 2), (300, 2), (301, 3)],
)
def test_the_unit_is_guessed_from_the_size(size, expected):
    words = ("perhaps metres", "an object scaled", "perhaps metres if it is a building", "perhaps millimetres")
    guess = clouds.guessed_unit(size)
    assert guess.startswith(words[expected]) and (expected == 2) == ("if an object" in guess)


@pytest.mark.parametrize("base", [1000.0, 100.0, 1 / 1000, 1 / 100])
def test_a_factor_between_units_is_recognised_within_1_6(base):
    for ratio, known in ((1.0, True), (1.59, True), (1 / 1.59, True), (1.61, False), (1 / 1.61, False)):
        assert clouds.unit_factor(2.0, 2.0 * base * ratio) == pytest.approx(base if known else 1)


def test_sizes_spacings_and_limits_by_their_definitions():
    points = rng("definitions").normal(size=(150, 3))
    points[10:20] = points[:10]
    size = 2 * np.percentile(np.linalg.norm(points[:40] - points[:40].mean(axis=0), axis=1), 95)
    assert clouds._size(points[:40]) == pytest.approx(size), "all points of a small cloud count"
    distinct = np.unique(points, axis=0)
    nearest = np.sort(cdist(distinct, distinct), axis=1)[:, 1]
    assert clouds._spacing(points) == pytest.approx(np.median(nearest))
    blank = np.zeros(3)
    scans = clouds.Scans(None, None, 1.0, (blank, blank), 8.0, 0.3, 3.0)
    assert (scans.near, scans.alike, scans.comparable) == (pytest.approx(0.6), pytest.approx(0.4), True)
    assert replace(scans, spacing=0.5).alike == 0.5 and not replace(scans, ratio=3.01).comparable


def test_the_largest_rotation_that_counts_as_equal_moves_the_points_by_the_limit():
    points = rng("turned").normal(size=(500, 3)) * (5.0, 0.6, 0.3)
    scans = clouds.Scans(clouds.Cloud(None, None, points, False), None, 1.0, (np.zeros(3),) * 2, 4.0, 0.1)
    centred = points - points.mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, 2]
    moved = Rotation.from_rotvec(np.radians(scans.alike_deg) * axis).apply(centred)
    assert np.sqrt(((moved - centred) ** 2).sum(axis=1).mean()) == pytest.approx(scans.alike)
    for near in (np.outer(np.arange(9.0), (1, 0, 0)), 0.01 * points):
        assert replace(scans, source=replace(scans.source, thin=near)).alike_deg == pytest.approx(180)


def test_clouds_far_apart_are_centred_each_and_poses_are_converted_back():
    source, target = rng("far").normal(size=(2, 60, 3))
    for apart, far in ((9.9, False), (10.1, True)):
        shifted = source - source.mean(axis=0) + target.mean(axis=0) + (apart, 0, 0)
        shifts, note = clouds._shifts(shifted, target, 10.0)
        assert np.allclose(shifts[1], target.mean(axis=0)) and bool(note) == far
        assert np.allclose(shifts[0], shifted.mean(axis=0) if far else target.mean(axis=0))
        thin = [clouds.Cloud(None, None, points, False) for points in (shifted, target)]
        scans = clouds.Scans(*thin, 1.0, shifts, 1.0, 1.0)
        a, b = scans.method_input()
        assert a.dtype == b.dtype == np.float32 and np.allclose(a, shifted - shifts[0], atol=1e-6)
        moved = a @ T[:3, :3].T + T[:3, 3] + shifts[1]
        whole = scans.restored(T)
        assert np.allclose(shifted @ whole[:3, :3].T + whole[:3, 3], moved, atol=1e-5)
        assert np.allclose(b, target - shifts[1], atol=1e-6)


def test_a_size_of_which_two_units_are_likely_is_reported():
    units = [clouds.guessed_unit(size) for size in (0.3, 1.8, 150, 1300)]
    assert units[2] == "perhaps metres if it is a building, millimetres if an object"
    assert units[0] == "perhaps metres" and units[3] == "perhaps millimetres"


def test_thinning_spreads_evenly_and_moves_nothing():
    dense, sparse = rng("a").random((20_000, 3)), rng("b").random((500, 3)) + np.eye(3)[0]
    both = np.concatenate([dense, sparse])
    few = clouds.voxel_subsample(both, 1000, "x")
    assert 700 < len(few) <= 1000 and {tuple(p) for p in few} <= {tuple(p) for p in both}
    share = (few[:, 0] > 1).mean()
    assert share > 0.25  # 500 of 20 500 points fill half the space
    np.testing.assert_array_equal(few, clouds.voxel_subsample(both, 1000, "x"))
    assert clouds.voxel_subsample(sparse, 1000, "x") is sparse


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
def test_units_are_distinguished_only_where_sizes_are_far_apart(source, target, factor):
    assert clouds.unit_factor(source, target) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("times", "factor", "notes"), [(1, None, 0), (2.5, None, 0), (25.4, None, 1), (1 / 3.28, None, 1), (25.4, 1.0, 0)]
)
def test_other_ratios_of_sizes_are_noted_but_not_scaled(tmp_path, times, factor, notes):
    cloud = rng("inches").random((300, 3))
    np.save(tmp_path / "a.npy", cloud)
    np.save(tmp_path / "b.npy", cloud * times)
    scans = clouds.open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 300, factor)
    units = [note for note in scans.notes if "another unit" in note]
    assert scans.factor == 1 and len(units) == notes
    assert not notes or "--scale FACTOR" in units[0]


def test_the_scans_have_the_smaller_size_and_the_larger_spacing_in_the_unit_of_the_target(tmp_path):
    """The source is three times as large, with fewer points, and in millimetres."""
    target, source = shell(900), 3 * shell(300, key=1)
    for factor in (0.001, None):
        np.save(tmp_path / "a.npy", 1000 * source if factor else source)
        np.save(tmp_path / "b.npy", target)
        scans = clouds.open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 2000, factor)
        assert scans.factor == (factor or 1) and scans.source.thin == pytest.approx(source)
        assert scans.size == pytest.approx(clouds._size(target)) and scans.spacing == pytest.approx(
            clouds._spacing(source)
        )
        assert scans.ratio == pytest.approx(clouds._size(source) / clouds._size(target))
        assert scans.source.whole == pytest.approx(source) and (scans.source.thin is scans.source.whole) == (not factor)


def test_a_scaled_cloud_has_the_step_of_its_file_in_the_new_unit(tmp_path):
    (tmp_path / "m.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n")
    geometry = replace(formats.read(tmp_path / "m.off"), step=0.25)
    cloud = clouds.Cloud(tmp_path / "m.off", geometry, geometry.points[:2], True)
    half = cloud.scaled(0.5)
    assert (half.geometry.step, half.geometry.triangles, half.is_mesh) == (0.125, None, True)
    assert half.whole == pytest.approx(0.5 * cloud.whole) and half.thin == pytest.approx(0.5 * cloud.thin)
    assert cloud.scaled(1) is cloud


@pytest.mark.parametrize(("count", "used"), [(40, 40), (300, 75), (3999, 999), (4100, 1000)])
def test_the_size_is_of_a_quarter_of_the_points_between_50_and_1000(monkeypatch, count, used):
    points, most = rng("sizes").normal(size=(count, 3)), []
    monkeypatch.setattr(clouds, "voxel_subsample", lambda p, n, *_: most.append(n) or p[:n])
    size = 2 * np.percentile(np.linalg.norm(points[:used] - points[:used].mean(axis=0), axis=1), 95)
    assert clouds._size(points) == pytest.approx(size) and most == [max(used, 50)]


def test_a_mesh_gives_the_thinned_points_of_four_times_as_many_on_its_surface(tmp_path):
    (tmp_path / "m.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n")
    geometry = formats.read(tmp_path / "m.off")
    areas = np.array([0.5, 1.0])
    surface = sample_triangles(geometry.triangles, areas, 800, rng("surface", "m.off"))
    thin = clouds._cloud(tmp_path / "m.off", geometry, 200).thin
    np.testing.assert_array_equal(thin, clouds.voxel_subsample(surface, 200, "m.off"))
    flat = replace(geometry, triangles=0 * geometry.triangles)
    assert not clouds._cloud(tmp_path / "m.off", flat, 200).is_mesh, "without area, its vertices are used"


def test_a_mesh_is_sampled_of_its_surface(tmp_path):
    (tmp_path / "m.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n")
    scans = clouds.open_scans((tmp_path / "m.off", tmp_path / "m.off"), 300, None)
    assert scans.source.is_mesh and 200 < len(scans.source.thin) <= 300 and len(scans.source.whole) == 4
    assert "m.off is a mesh" in scans.notes[0]


def opened(tmp_path, source, target):
    np.save(tmp_path / "a.npy", source)
    np.save(tmp_path / "b.npy", target)
    return clouds.open_scans((tmp_path / "a.npy", tmp_path / "b.npy"), 600, None)


def test_units_and_sizes_are_those_without_the_rows_of_a_camera_that_saw_nothing(tmp_path):
    seen = 0.2 * shell() + (0, 0, 1.2)
    scans = opened(tmp_path, np.vstack([np.zeros((1350, 3)), seen]), 1000 * seen)
    assert scans.factor == 1000 and len(scans.source.whole) == 900 and scans.ratio < 1.2
    assert "a.npy: left out 1350 of 2250 rows 0 0 0 (nothing was measured there)" in scans.notes


def test_a_spot_scanned_more_densely_does_not_change_the_size(tmp_path):
    spot = shell()[:1] + 0.02 * rng("spot").normal(size=(8100, 3))
    scans = opened(tmp_path, np.vstack([spot, shell()]), shell(key=1))
    assert 0.8 < scans.size / clouds._size(shell(key=1)) < 1.1 and scans.ratio < 1.3 and scans.comparable
    assert not any("another unit" in note for note in scans.notes)


def test_clouds_of_other_sizes_are_not_comparable(tmp_path):
    scans = opened(tmp_path, shell(), 20 * shell(key=1))
    assert 15 < scans.ratio < 25 and not scans.comparable


@pytest.mark.parametrize(
    ("shift", "dtype", "noted"),
    [(5e5, np.float32, True), (5e5, np.float64, False), (0, np.float32, False), (5e3, np.float32, False)],
)
def test_coordinates_too_far_from_the_origin_for_their_format_are_noted_with_the_step(tmp_path, shift, dtype, noted):
    cloud = shell()
    scans = opened(tmp_path, (cloud + shift).astype(dtype), (shell(key=1) + shift).astype(dtype))
    notes = [note for note in scans.notes if "larger than a tenth of the distance between neighbours" in note]
    assert len(notes) == 2 * noted
    assert not noted or "a.npy: its coordinates have steps of 0.0312" in notes[0]
    if dtype == np.float64:  # double precision reaches the methods
        source = scans.method_input()[0]
        rows = {tuple(np.round(p, 4)) for p in (scans.source.thin - scans.shifts[0])}
        assert {tuple(np.round(p.astype(float), 4)) for p in source} == rows
