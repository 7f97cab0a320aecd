"""DeepGMR for partial scans, by its properties; only the test of the weights reads trained ones."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from common.errors import InputError
from datasets.problems import ProblemKey
from methods import deepgmr_scans
from methods.base import NoSolution, Unavailable
from methods.deepgmr_scans import WEIGHTS, DeepGMRScans
from methods.geometry.features import unit_pair
from methods.geometry.learned_matches import METRE
from methods.geometry.patches import thinned
from methods.learned import described_scans, descriptor
from methods.learned.weights import WEIGHTS_FOLDER
from methods.nn.gmm import point_loss
from methods.nn.scan_gmr import Components, Features, ScanGmrConfig, ScanGmrNet, best_of_sets, closed_form
from tests.methods.clouds import moved, pose

CONFIG = ScanGmrConfig(inputs=8, width=16, points=40, components=20)


@pytest.fixture
def net() -> ScanGmrNet:
    torch.manual_seed(0)
    return ScanGmrNet(CONFIG).eval()


def surface(seed: int, n: int = 900) -> np.ndarray:
    """Points (n, 3) of a bumpy surface of about two by three metres."""
    xy = np.random.default_rng(seed).uniform(-1, 1, (n, 2)) * [1.5, 1.0]
    z = 0.3 * np.sin(3 * xy[:, 0]) * np.cos(2 * xy[:, 1] + 1) + 0.1 * xy[:, 0] ** 2
    return np.column_stack([xy, z])


def inputs(seed: int = 0, n: int = 40) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Descriptors (2, n, 8) of two clouds and their points (2, n, 3)."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(2, n, 8, generator=draw), dim=2)
    return (x, x.roll(1, dims=1)), 2 * torch.rand(2, n, 3, generator=draw)


def test_the_estimate_follows_the_motion_of_both_clouds(net: ScanGmrNet) -> None:
    descriptors, cloud = inputs()
    source, target = cloud, cloud.flip(0)
    S, T = (torch.from_numpy(pose(seed)) for seed in (1, 2))
    first = net.estimate(descriptors, source, target)
    moves = [(c.double() @ M[:3, :3].T + M[:3, 3]).float() for c, M in ((source, S), (target, T))]
    second = net.estimate(descriptors, *moves)
    assert first.components.source.shape == (2, 40, 3)

    torch.testing.assert_close(second.T, T @ first.T @ torch.linalg.inv(S), atol=2e-3, rtol=0)


def test_distinct_points_in_a_partial_overlap_give_the_true_pose(net: ScanGmrNet) -> None:
    """Descriptors that identify the points, and the weights of the true overlap: exact but for spread of the components."""
    net = ScanGmrNet(ScanGmrConfig(inputs=80, width=16, points=60, components=60, spread=0.01)).eval()
    draw = torch.Generator().manual_seed(0)
    world = 3 * torch.rand(80, 3, generator=draw)
    T = torch.from_numpy(pose(3, 2.0))
    rows = torch.arange(60), torch.arange(20, 80)
    source, target = world[rows[0]][None], (world[rows[1]].double() @ T[:3, :3].T + T[:3, 3]).float()[None]
    seen = [(r >= 20) & (r < 60) for r in rows]
    features = [
        Features(20 * torch.eye(80)[r][None], torch.where(s, 20.0, -20.0)[None], torch.zeros(1, 60))
        for r, s in zip(rows, seen, strict=True)
    ]
    seeds = tuple(s.nonzero()[:, 0][None] for s in seen)
    components = net.components((features[0], features[1]), (source, target), (seeds[0], seeds[1]))
    assert float(point_loss(best_of_sets(components, 0.3)[None], T[None, None], source).detach()) < 1e-3


def test_components_that_contradict_the_others_have_no_influence() -> None:
    draw = torch.Generator().manual_seed(0)
    source, T = 3 * torch.rand(1, 30, 3, generator=draw, dtype=torch.float64), torch.from_numpy(pose(5))
    target = source @ T[:3, :3].T + T[:3, 3]
    target[:, :10] = target[:, :10].roll(1, dims=1)
    components = Components(torch.ones(1, 30), source, target)
    assert float((closed_form(components, 0.1) - T).abs().max()) < 0.03
    assert float((best_of_sets(components, 0.1) - T).abs().max()) < 1e-6


def test_training_lowers_the_loss(net: ScanGmrNet) -> None:
    descriptors, cloud = inputs()
    net.train()
    T = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    optimiser = torch.optim.Adam(net.parameters(), 0.01)
    losses = []
    for _ in range(12):
        loss = net.loss(net.estimate(descriptors, cloud, cloud.roll(1, dims=1)), T)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.95 * losses[0]


def test_a_training_batch_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points at the true pose meet, in nominal metres; descriptors are not computed twice."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    T, cloud = pose(1), surface(0)
    problem = SimpleNamespace(
        source=cloud.astype(np.float32),
        target=moved(T, cloud),
        T_target_source=T,
        key=ProblemKey("rooms", "real", 9999, 0),
        sha256=lambda: b"one",
    )
    (x, y), source, target, T_true = described_scans.training_batch([problem], 50, "cpu")
    assert x.shape == y.shape == (1, 50, 32)
    assert source.shape == target.shape == (1, 50, 3)
    near = torch.cdist(source.double() @ T_true[:, :3, :3].transpose(1, 2) + T_true[:, None, :3, 3], target.double())
    assert float(near.amin(dim=2).median()) < 0.2
    monkeypatch.setattr(described_scans, "described_pair", None)
    again = described_scans.training_batch([problem], 50, "cpu")
    assert torch.equal(again[0][0], x)


def test_the_trained_method_follows_the_motion_of_both_clouds() -> None:
    method = DeepGMRScans(components=64)
    method.setup("cpu", 0, "rooms")
    assert method.scratch.notes["weights"] == WEIGHTS.name
    source, target, S, T = surface(0), surface(1), pose(1), pose(2)
    answers = []
    for a, b in ((np.eye(4), np.eye(4)), (S, T)):
        method.begin(0)
        answers.append(np.linalg.inv(b) @ method.register(moved(a, source), moved(b, target)) @ a)
    assert np.abs(answers[0] - answers[1]).max() < 0.05
    with pytest.raises(NoSolution):
        method.register(source[:2].astype(np.float32), target.astype(np.float32))


@pytest.mark.parametrize("missing", [deepgmr_scans, descriptor])
def test_it_needs_the_weights_of_both_networks(monkeypatch: pytest.MonkeyPatch, missing: ModuleType) -> None:
    DeepGMRScans.check_available()
    monkeypatch.setattr(missing, "WEIGHTS", WEIGHTS_FOLDER / "absent.safetensors")
    with pytest.raises(Unavailable, match=r"^absent\.safetensors is not in .* --name absent$"):
        DeepGMRScans.check_available()


def test_weights_of_another_method_are_refused() -> None:
    file = next(WEIGHTS_FOLDER.glob("deepgmr_shapes40*"))
    with pytest.raises(InputError, match="'deepgmr', not 'deepgmr_scans'"):
        DeepGMRScans(weights=str(file)).setup("cpu", 0, "rooms")


@pytest.mark.parametrize("seed", range(4))
def test_the_frame_of_a_scan_is_principal_turns_with_it_and_has_its_long_tails_ahead(seed: int) -> None:
    cloud = surface(seed) @ pose(seed)[:3, :3].T
    cloud = cloud - cloud.mean(axis=0)
    frame = described_scans._principal_frame(cloud)
    own = cloud @ frame
    assert np.linalg.det(frame) == pytest.approx(1) and np.allclose(frame.T @ frame, np.eye(3))
    moments = own.T @ own
    assert np.allclose(moments, np.diag(np.diag(moments)), atol=1e-9) and (np.diff(np.diag(moments)) > 0).all()
    assert ((own**3).sum(axis=0)[1:] > 0).all(), "the sign of the first axis makes it a rotation"
    R = pose(seed + 9)[:3, :3]
    np.testing.assert_allclose(described_scans._principal_frame(cloud @ R.T), R @ frame, atol=1e-9)


@pytest.mark.parametrize(("most", "size"), [(50, 1.0), (None, 0.9), (None, 3.0)])
def test_described_points_are_of_the_thinned_cloud_in_nominal_metres(
    monkeypatch: pytest.MonkeyPatch, most: int | None, size: float
) -> None:
    """One point of each cell of 0.1 m, at most 1024, drawn alike at every call and kept in order."""
    cloud, calls = size * METRE * (surface(5, 3000) - surface(5, 3000).mean(axis=0)), []
    if most:
        monkeypatch.setattr(described_scans, "MOST_POINTS", most)
    monkeypatch.setattr(
        described_scans, "describe", lambda net, *rest: calls.append((net, *rest)) or np.zeros((len(rest[1]), 2))
    )
    one, again = (described_scans._described("net", cloud) for _ in range(2))  # type: ignore[arg-type]
    assert np.array_equal(one.points, again.points) and one.points.dtype == np.float32
    net, own, keys, metre = calls[0]
    frame = described_scans._principal_frame(cloud)
    assert net == "net" and metre == METRE and np.allclose(own, cloud @ frame)
    every = thinned(own, 0.1 * METRE)
    rows = [int(np.flatnonzero((every == key).all(axis=1))[0]) for key in keys]
    assert rows == sorted(set(rows)) and len(rows) == min(most or 1024, len(every))
    assert (len(every) > (most or 1024)) == (size != 0.9) == (rows != list(range(len(rows))))
    np.testing.assert_allclose(one.points * METRE, keys @ frame.T, atol=1e-6)


@pytest.mark.parametrize("count", [3, 50, 51, 400])
def test_points_of_a_training_batch_are_drawn_by_the_seed_and_the_index(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Without repetition where a cloud has enough points."""
    draw = np.random.default_rng(0)
    arrays = {"pose": pose(1)}
    for side, n in (("source", count), ("target", count + 7)):
        arrays[side] = draw.normal(size=(n, 3)).astype(np.float32)
        arrays[f"{side}_descriptors"] = np.column_stack([arrays[side], arrays[side][:, 0]]).astype(np.float16)
    monkeypatch.setattr(described_scans, "_cached", lambda problem: arrays)
    keys = [ProblemKey("d", "real", 9, index, seed) for index, seed in ((0, 0), (0, 0), (1, 0), (0, 1))]
    problems = [SimpleNamespace(key=key) for key in keys]
    (x, y), source, target, T_true = described_scans.training_batch(problems, 50, "cpu")
    assert T_true.shape == (4, 4, 4) and (T_true.numpy() == pose(1)).all() and T_true.dtype == torch.float64
    for descriptors, points, side in ((x, source, "source"), (y, target, "target")):
        assert points.shape == (4, 50, 3) and descriptors.dtype == points.dtype == torch.float32
        np.testing.assert_array_equal(descriptors[..., :3].numpy(), points.numpy().astype(np.float16))
        assert np.isin(points.numpy(), arrays[side]).all()
        different = [len(np.unique(cloud, axis=0)) for cloud in points.numpy()]
        assert different == [50] * 4 if len(arrays[side]) >= 50 else max(different) <= len(arrays[side])
        assert torch.equal(points[0], points[1])
        assert not torch.equal(points[0], points[2]) and not torch.equal(points[0], points[3])


def test_a_training_pose_maps_nominal_metres() -> None:
    """What is cached of a problem is in nominal metres, whatever the unit of its clouds."""
    cloud, T = 70 * surface(1), pose(2, 90.0)
    described = SimpleNamespace(points=np.zeros((1, 3), np.float32), descriptors=np.full((1, 2), 0.1, np.float32))
    computed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(described_scans, "load", lambda: ("net", "digest"))
        patch.setattr(
            described_scans, "load_or_compute", lambda name, files, compute: computed.append(name) or compute()
        )
        patch.setattr(
            described_scans,
            "described_pair",
            lambda net, *clouds: (described, described, unit_pair(*clouds)),
        )
        problem = SimpleNamespace(source=cloud, target=moved(T, cloud), T_target_source=T, sha256=lambda: b"\x01\x02")
        arrays = described_scans._cached(problem)
    pair = unit_pair(cloud, moved(T, cloud))
    x, y = pair.source / METRE, pair.target / METRE
    np.testing.assert_allclose(moved(arrays["pose"], x), y, atol=1e-4)
    assert arrays["source_descriptors"].dtype == arrays["target_descriptors"].dtype == np.float16
    assert computed[0].startswith("described scans 0102 ") and len(computed[0]) > 70


@pytest.mark.parametrize("count", [2, 3, 5, 30])
@pytest.mark.parametrize("side", [0, 1])
def test_a_pose_in_nominal_metres_is_that_of_the_clouds(monkeypatch: pytest.MonkeyPatch, count: int, side: int) -> None:
    """Three thinned points are enough; components are as many as points, or as requested."""
    source, target, T, seen = 9 * surface(0), 9 * surface(1), pose(4), []
    draw = np.random.default_rng(0)
    clouds = [
        described_scans.DescribedCloud(draw.normal(size=(n, 3)).astype(np.float32), np.ones((n, 2), np.float32))
        for n in ((count, 9) if side == 0 else (9, count))
    ]
    pair = unit_pair(source, target)
    monkeypatch.setattr(described_scans, "described_pair", lambda net, *given: seen.append(net) or (*clouds, pair))
    monkeypatch.setattr(
        "methods.nn.scan_gmr.best_of_sets", lambda found, tolerance: torch.from_numpy(T) * (found == tolerance)
    )

    class Net:
        config = SimpleNamespace(tolerance="tolerance")

        def __call__(self, descriptors: tuple, points: tuple) -> tuple:
            for given, name in ((descriptors, "descriptors"), (points, "points")):
                for tensor, cloud in zip(given, clouds, strict=True):
                    assert np.array_equal(tensor[0].numpy(), getattr(cloud, name))
            overlaps = [torch.arange(float(p.shape[1]))[None] for p in points]
            return tuple(SimpleNamespace(overlap=overlap) for overlap in overlaps)

        def components(self, features: tuple, points: tuple, seeds: tuple) -> str:
            seen.append([s[0].tolist() for s in seeds])
            return "tolerance"

    method = DeepGMRScans(components=6)
    method.begin(0)
    method.state.update(net=Net(), descriptor="descriptor")
    if count < 3:
        with pytest.raises(NoSolution, match="a thinned cloud has 2 points; a pose needs 3"):
            method.register(source, target)  # type: ignore[arg-type]
        return
    found = method.register(source, target)  # type: ignore[arg-type]
    unit = T.copy()
    unit[:3, 3] *= METRE
    np.testing.assert_allclose(found, pair.to_original(unit))
    sizes = [len(cloud.points) for cloud in clouds]
    assert seen == ["descriptor", [list(range(n))[::-1][: min(n, 6)] for n in sizes]]
    assert list(method.scratch.stages) == ["features", "network", "solve"]
    assert DeepGMRScans().components == 384
