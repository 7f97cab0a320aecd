"""Server of a method process: GPU memory."""

import sys
import types

import numpy as np

from bench.isolation import server
from bench.isolation.protocol import MethodSetup, RegisterRequest
from common.kinds import DataKind
from tests.catalog import build, spec


def test_growth_of_gpu_memory_is_measured_over_the_idle_state(monkeypatch):
    calls = []
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        reset_peak_memory_stats=lambda device: calls.append(("reset", device)),
        memory_allocated=lambda device: 100 * 2**20,
        max_memory_allocated=lambda device: 350 * 2**20,
        synchronize=lambda device: calls.append(("synchronise", device)),
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    cloud = np.zeros((5, 3), np.float32)
    request = RegisterRequest([cloud], [cloud], 0)
    method = build("identity")
    assert server.register(method, "cuda:0", request).gpu_memory_mb == 250
    assert calls == [("reset", "cuda:0"), ("synchronise", "cuda:0")]
    assert np.isnan(server.register(method, "cpu", request).gpu_memory_mb) and len(calls) == 2
    cuda.is_available = lambda: False
    assert np.isnan(server.register(method, "cuda:0", request).gpu_memory_mb) and len(calls) == 2


def test_a_method_and_the_parts_of_a_chain_get_the_kind_of_the_data_before_setup(monkeypatch):
    method, _ = server._set_up(MethodSetup(spec("pca+icp"), "d", kind=DataKind.SCANS))
    assert [part.data_kind for part in (method, *method.parts)] == [DataKind.SCANS] * 3
    seen = []
    monkeypatch.setattr("methods.pca.PrincipalAxes.setup", lambda self, *_: seen.append(self.data_kind))
    server._set_up(MethodSetup(spec("pca"), "d", kind=DataKind.RANGE_IMAGES))
    server._set_up(MethodSetup(spec("pca"), "d"))
    assert seen == [DataKind.RANGE_IMAGES, DataKind.OBJECTS]
