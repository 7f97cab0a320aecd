"""Every method conforms; `bench.conformance.checks` says to what."""

import pytest

from bench.conformance import checks
from bench.conformance.checks import CHECKS
from methods.base import Unavailable
from methods.core.registry import MethodRegistry
from tests.catalog import build, spec

CHEAP = {"ransac10m": "ransac10m[iterations=2000]", "cpd": "cpd[limit=200]"}
NAMES = [CHEAP.get(name, name) for name in MethodRegistry().entries]


@pytest.fixture(scope="module", params=[*NAMES, "fgr+icp"])
def method(request):
    network_method = build(request.param)
    reason = spec(request.param).unavailable()
    if reason:
        pytest.skip(reason)
    try:
        network_method.setup("cpu", 0, "shapes40")
    except Unavailable as error:  # weights for another data set alone
        pytest.skip(str(error))
    return network_method


@pytest.mark.parametrize("name", CHECKS)
def test_conforms(method, name, monkeypatch):
    """All checks but the limit of time: how long a call takes on a busy machine says nothing of the method."""
    monkeypatch.setattr(checks, "MAX_CALL_S", float("inf"))
    CHECKS[name](method)  # raises CheckFailed
