"""Families of methods."""

import pytest

from bench.pair.families import START, family
from tests.catalog import spec


@pytest.mark.parametrize(
    "names",
    [
        ["fgr", "fgr+icp", "fgr[normal_radius=0.3]+hgmr"],
        ["ransac10k", "ransac10m", "ransac10k+icp"],
        ["deepgmr_resampled", "deepgmr_partial"],
        ["dcp", "dcp_small", "dcp_small_euler45"],
        ["prnet_small", "prnet_small_euler45+icp"],
        ["icp", "hgmr", "small_gicp", "small_vgicp", "identity", "random_pose"],
    ],
)
def test_variants_and_refinements_share_a_family(names):
    assert len({family(spec(name)) for name in names}) == 1


def test_methods_that_search_differently_have_families_of_their_own_and_local_ones_do_not():
    names = ["pca", "fgr", "ransac10k", "teaser", "kiss_matcher", "deepgmr", "deepgmr_resampled", "dcp_small"]
    families = [family(spec(name)) for name in names]
    assert len(set(families)) == len(names) and START not in families
    assert family(spec("icp+hgmr")) == family(spec("identity+icp")) == START
