"""Methods on a pair."""

import re

import numpy as np
import pytest

from bench.cli import main
from bench.isolation.protocol import Limits, MethodSetup, PairReply, Reply
from bench.pair import clouds
from bench.pair import register as register_module
from bench.pair.register import Registration, register_all, select_methods
from bench.storage.outcome import Status
from common.keys import rng, seed_of
from common.kinds import DataKind
from methods.core.registry import MethodRegistry
from tests.bench.pair.synthetic_pair import T
from tests.catalog import open_data, spec


def test_a_learned_method_without_weights_gives_a_working_command(files):
    scans = clouds.open_scans((files / "a.xyz", files / "b.ply"), 400, None)
    (registration,) = register_all(scans, [spec("dcp")], Limits(20, 8), "shapes40", "cpu", 1)
    assert registration.status == "skipped"
    command = re.search(r"bench\.py train (.*)", registration.message)[1]
    dataset = main._parser(train=True)[0].parse_args(["train", *command.split()]).dataset
    assert open_data(dataset).name == dataset


def test_methods_are_those_of_all_and_the_chains_without_controls_and_what_is_left_out():
    registry = MethodRegistry()
    names = [method.text for method in select_methods(None, registry)]
    chains = ["deepgmr+icp", "fgr+icp", "ransac10k+icp", "sc2_pcr+icp"]
    left_out = {"ransac10m", "turbo_reg", "mac"}
    single = {name for name, entry in registry.entries.items() if entry.cls.in_all and entry.cls.kind != "control"}
    assert names[-4:] == chains and set(names[:-4]) == single - left_out and len(names) == len(set(names))
    assert left_out <= single and not {"identity", "random_pose", "deepgmr_k64"} & set(names)
    given = [method.text for method in select_methods(["identity,fgr+icp", "all", "icp"], registry)]
    assert given[:2] == ["identity", "fgr+icp"] and set(given) == {"identity", *chains} | single
    assert len(given) == len(set(given)) and [m.text for m in select_methods(["icp"], registry)] == ["icp"]


@pytest.mark.parametrize("start", [Status.OK, Status.UNAVAILABLE])
def test_a_method_is_warmed_up_on_few_points_and_its_pose_is_between_the_files(monkeypatch, start):
    thin = rng("register").normal(size=(2, 600, 3))
    sources = [clouds.Cloud(None, None, cloud, False) for cloud in (thin[0], thin[1, :300])]
    shifts = np.array([1.0, 2, 3]), np.array([-4.0, 5, 6])
    scans = clouds.Scans(*sources, 1.0, shifts, 1.0, 0.1, kind=DataKind.SCANS)
    calls, made = [], []

    class Process:
        def __init__(self, setup, limits):
            self.setup = setup
            made.append((setup, limits))

        def start(self):
            return Reply(start)

        def register(self, source, target, seed):
            calls.append((source, target, seed))
            return Reply(pairs=[PairReply(pose=T)], time_ms=12.5, notes={"clique": 7})

        def close(self):
            calls.append("closed")

    monkeypatch.setattr(register_module, "MethodProcess", Process)
    methods = [spec("deepgmr+icp"), spec("icp")]
    results = list(register_all(scans, methods, Limits(3, 4), "rooms", "cuda:1", 2))
    expected = scans.method_input()
    for method, device, family, result, made_for in zip(
        methods, ("cuda:1", "cpu"), (methods[0].lineage, "start"), results, made, strict=True
    ):
        assert made_for == (MethodSetup(method, "rooms", device, 2, kind=DataKind.SCANS), Limits(3, 4))
        shown = (result.method, result.kind, result.family, result.status, result.time_ms, result.device)
        assert shown == (method.text, method.kind, family, Status.OK, 12.5, device) and result.notes == {"clique": 7}
        moved = (thin[0] - shifts[0]) @ T[:3, :3].T + T[:3, 3] + shifts[1]
        assert thin[0] @ result.pose[:3, :3].T + result.pose[:3, 3] == pytest.approx(moved)
        if start == Status.OK:
            few = calls.pop(0)
            np.testing.assert_array_equal(few[0], expected[0][::3])  # at most 256, evenly
            np.testing.assert_array_equal(few[1], expected[1][::2])
            assert few[2] == seed_of("pair", method.text)
        source, target, seed = calls.pop(0)
        np.testing.assert_array_equal(source, expected[0])
        np.testing.assert_array_equal(target, expected[1])
        assert seed == seed_of("pair", method.text) and calls.pop(0) == "closed"


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        ({"clique": 3, "inliers": 7, "confidence": 0.12345}, "confidence 0.123"), ({"matches": 30, "inliers": 7}, "inliers 7"),
        ({"matches": 1234567, "converged": True}, "matches 1234567"), ({"clique": 4, "matches": 9}, "clique 4"),
        ({"converged": True}, "converged True"), ({"confidence": "high", "other": 3}, ""),
    ],
)  # fmt: skip
def test_the_reported_confidence_is_the_first_number_in_the_order_of_preference(notes, text):
    assert Registration("m", "global", "f", Status.OK, 1.0, None, "", notes).confidence == text
