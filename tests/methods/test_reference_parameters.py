"""Methods have the kind, the randomness and the parameters with which the reference run was made."""

import json
from typing import Any

import pytest

from bench.isolation.guard import ROOT
from methods.base import Method
from methods.fgr import TUPLE_SCALE, Fgr
from methods.geometry.features import SETTINGS, FeatureMethod
from methods.sc2_pcr import SETS, Sc2Pcr
from tests.catalog import spec
from tests.methods.clouds import turned_pair

METHODS = json.loads((ROOT / "results" / "reference" / "run.json").read_text(encoding="utf-8"))["methods"]


def value_used(method: Method, name: str) -> Any:
    """Return the value of a parameter on whole objects, where a default of None follows from the kind of the data."""
    given = method.parameters.get(name)
    if given is not None or not isinstance(method, FeatureMethod):
        return given
    if isinstance(method, Fgr) and name == "tuple_scale":
        return TUPLE_SCALE[method.data_kind]
    if isinstance(method, Sc2Pcr) and name in SETS._fields:
        return getattr(SETS, name)
    _, settings = method.prepared(*turned_pair(20, n=200)[:2])
    return getattr(settings, name) if name in SETTINGS else method.inlier_distance(None, settings)


@pytest.mark.parametrize("name", [name for name in METHODS if "+" not in name])
def test_defaults_are_those_of_the_reference_run(name: str) -> None:
    """Later versions may add parameters; another default would make the committed numbers those of another method."""
    of, recorded = spec(name), METHODS[name]
    used = {key: value_used(of.build(), key) for key, value in recorded["variant"].items() if value is not None}
    used |= {key: of.build().parameters.get(key) for key, value in recorded["variant"].items() if value is None}
    assert json.loads(json.dumps(used)) == recorded["variant"]
    assert (of.kind, of.random) == (recorded["kind"], recorded["random"])


def test_the_reference_run_has_every_family() -> None:
    assert {"icp", "fgr", "pca", "ransac10k", "teaser", "deepgmr", "hgmr"} <= set(METHODS)
