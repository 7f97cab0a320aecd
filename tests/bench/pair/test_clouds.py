"""Preparation of two files."""

import numpy as np
import pytest

from bench.pair import clouds
from common.keys import rng


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


def test_a_mesh_is_sampled_of_its_surface(tmp_path):
    (tmp_path / "m.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n")
    scans = clouds.open_scans((tmp_path / "m.off", tmp_path / "m.off"), 300, None)
    assert scans.source.is_mesh and 200 < len(scans.source.thin) <= 300 and len(scans.source.whole) == 4
    assert "m.off is a mesh" in scans.notes[0]
