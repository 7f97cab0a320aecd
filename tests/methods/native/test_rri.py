"""The compiled kernel of the rotation-invariant features: against torch, against the definition, and where it cannot be had."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from methods.base import Unavailable
from methods.deepgmr import DeepGMR
from methods.native import build, rri
from methods.nn import rri as rri_module
from methods.nn.gmr import GmrConfig, GmrNet
from methods.nn.rri import implementation, rigid_invariant_features
from tests.methods.clouds import blob, pose
from tests.methods.rri_definition import by_definition


@pytest.fixture(scope="module")
def kernel() -> None:
    try:
        rri.build_kernel()
    except Unavailable as reason:
        pytest.skip(f"the kernel cannot be had here: {reason}")
    assert implementation("cpu", 20) == "native"


def by_torch(clouds: torch.Tensor, k: int = 20) -> torch.Tensor:
    """`rri` without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rri, "library", lambda: None)
        return rigid_invariant_features(clouds, k)


def clouds_of(*clouds: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack(clouds).astype(np.float32))


def assert_same(clouds: torch.Tensor, k: int = 20) -> None:
    """Equal to rounding, but for the few neighbours whose distances or azimuths are equal to rounding and change places."""
    ours, theirs = rigid_invariant_features(clouds, k), by_torch(clouds, k)
    assert ours.shape == theirs.shape and torch.isfinite(ours).all()
    scale = theirs[..., : 2 * k].abs().amax() or 1.0
    apart = (ours - theirs).abs()
    apart[..., : 2 * k] /= scale
    tied = torch.stack([has_ties(cloud, k) for cloud in clouds])
    assert (apart > 2e-3)[~tied].sum() <= 1e-5 * apart.numel()
    assert apart.median() < 1e-6
    free = (sorted_blocks(ours, k) - sorted_blocks(theirs, k))[..., :2, :].abs()[tied]
    assert (free <= 2e-3 * scale).all()


def has_ties(cloud: torch.Tensor, k: int) -> torch.Tensor:
    """Whether two of the k + 1 nearest of each point (N, 3) are equally near, to the rounding of float32."""
    points = cloud.double().numpy()
    distances = np.sort(cKDTree(points).query(points, min(k + 2, len(points)))[0], axis=1)[:, 1:]
    return torch.from_numpy((np.diff(distances, axis=1) < 3e-7 * np.abs(points).max()).any(axis=1))


# Against torch and the definition


@pytest.mark.parametrize("n", [21, 22, 32, 33, 100, 1000, 8192])
def test_it_is_the_torch_path(kernel: None, n: int) -> None:
    assert_same(clouds_of(blob(n, 0), blob(n, 1), 3 * blob(n, 2) + 5))


@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 33, 63, 64])
def test_every_number_of_neighbours(kernel: None, k: int) -> None:
    for n in (k + 1, k + 2, 300):
        assert_same(clouds_of(blob(n, k)), k)


@pytest.mark.parametrize(("n", "k"), [(60, 7), (21, 20), (90, 40)])
def test_it_is_its_definition(kernel: None, n: int, k: int) -> None:
    cloud = blob(n, 4)
    ours = rigid_invariant_features(clouds_of(cloud), k)[0].numpy()
    np.testing.assert_allclose(ours, by_definition(cloud.astype(np.float64), k), atol=2e-4)


def test_more_neighbours_than_it_holds_go_to_torch(kernel: None) -> None:
    cloud = clouds_of(blob(100))
    assert implementation("cpu", 65) == "torch"
    assert torch.equal(rigid_invariant_features(cloud, 65), by_torch(cloud, 65))


def test_it_does_not_change_with_the_pose_but_under_reflection(kernel: None) -> None:
    cloud = blob(500)
    other = cloud @ pose(3)[:3, :3].T + [0.5, -0.2, 0.1]
    first, second = rigid_invariant_features(clouds_of(cloud, other))
    assert ((first - second).abs() > 2e-3).float().mean() < 1e-3
    assert (first - rigid_invariant_features(clouds_of(cloud * [-1, 1, 1]))[0]).abs().max() > 0.1


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_and_pieces_change_no_bit(kernel: None, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    clouds = clouds_of(*(blob(2500, s) for s in range(3)))
    usual = rigid_invariant_features(clouds)
    torch.set_num_threads(threads)
    assert torch.equal(rigid_invariant_features(clouds), usual)
    monkeypatch.setattr(rri_module, "_MIN_KERNEL_ROWS", 37)
    assert torch.equal(rigid_invariant_features(clouds), usual)
    assert all(torch.equal(rigid_invariant_features(clouds[i : i + 1])[0], usual[i]) for i in range(3))


def test_input_that_is_not_contiguous(kernel: None) -> None:
    cloud = clouds_of(blob(200, 0), blob(200, 1))
    usual = rigid_invariant_features(cloud)
    for other in (cloud.transpose(1, 2).contiguous().transpose(1, 2), torch.cat([cloud, cloud], dim=2)[..., :3]):
        assert not other.is_contiguous()
        torch.testing.assert_close(rigid_invariant_features(other), usual, atol=1e-3, rtol=0)


# Where neighbours or angles are not unique


def sorted_blocks(features: torch.Tensor, k: int) -> torch.Tensor:
    """Each block of a point sorted: free of the order of neighbours at equal distances."""
    return features.reshape(*features.shape[:-1], 4, k).sort(dim=-1).values


def test_duplicates(kernel: None) -> None:
    cloud = clouds_of(np.repeat(blob(40), 30, axis=0))  # 29 others at the very place: all k neighbours
    ours, theirs = rigid_invariant_features(cloud), by_torch(cloud)
    torch.testing.assert_close(
        ours[..., :60], theirs[..., :60], atol=1e-3, rtol=0
    )  # an angle of 0 is one of 3e-4 to rounding
    cloud = clouds_of(np.repeat(blob(300), 2, axis=0))
    ours, theirs = (sorted_blocks(f, 20) for f in (rigid_invariant_features(cloud), by_torch(cloud)))
    torch.testing.assert_close(ours[..., :3, :], theirs[..., :3, :], atol=1e-3, rtol=0)
    assert (ours[..., 3, :].sum(-1) - theirs[..., 3, :].sum(-1)).abs().max() < 1e-3  # they add up to whole turns


@pytest.mark.parametrize("length", [1.0, 1e-3, 1e3])
def test_collinear_neighbours(kernel: None, length: float) -> None:
    line = np.outer(length * np.linspace(-1, 1, 64) ** 3, [1.0, 0.0, 0.0])  # the directions are exact: every gap is 0
    ours = rigid_invariant_features(clouds_of(line))
    torch.testing.assert_close(ours[..., :60], by_torch(clouds_of(line))[..., :60], atol=1e-5 * max(1, length), rtol=0)
    assert (ours[..., 60:] == 0).all()


def test_a_point_at_the_centroid_and_parallel_neighbours(kernel: None) -> None:
    cross = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0], [0.5, 0, 0], [-0.5, 0, 0]])
    features = rigid_invariant_features(clouds_of(cross), 6)[0].reshape(7, 4, 6)
    assert (features[4, 2:] == 0).all()
    half = round(np.pi, 5)  # of (1, 0, 0): only (0, ±1, 0) have a direction around it, half a turn apart
    assert sorted(round(x, 5) for x in features[0, 3].tolist()) == [0, 0, 0, 0, half, half]


@pytest.mark.parametrize("flush", [True, False])
def test_equal_azimuths_have_one_gap(kernel: None, flush: bool) -> None:
    up = np.array([[0, 0, 2.0]])
    ring = np.array([[1, 0, 1], [2, 0, 1.5], [3, 0, 0.5], [-1, 0, 1], [-2, 0, 1.5], [-3, 0, -7.5]])
    cloud = clouds_of(np.vstack([up, ring]))
    torch.set_flush_denormal(flush)
    for features in (rigid_invariant_features(cloud, 6), by_torch(cloud, 6)):
        gaps = features[0, 0].reshape(4, 6)[3]
        assert sorted(round(x, 5) for x in gaps.tolist()) == [0, 0, 0, 0, *[round(np.pi, 5)] * 2]
    torch.set_flush_denormal(False)


# Numbers of any size


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-9, 1e-3, 1e9, 1e14, 1e18, 1e25])
def test_any_unit(kernel: None, scale: float) -> None:
    cloud = blob(200).astype(np.float64)
    usual, ours = (rigid_invariant_features(clouds_of(s * cloud), 20)[0].double() for s in (1.0, scale))
    if scale < 1e25:  # torch's norms overflow there, and without an error
        assert torch.isfinite(ours).all()
    if 1e-9 <= scale <= 1e14:
        ours[:, :40] /= scale
        assert ((ours - usual).abs() > 2e-3).double().mean() < 1e-3


def test_denormals_are_flushed_and_change_nothing(kernel: None) -> None:
    cloud = blob(100)
    cloud[:, 2] = np.float32(1e-41)
    flat = cloud * [1, 1, 0]
    for flush in (True, False):
        torch.set_flush_denormal(flush)
        torch.testing.assert_close(
            rigid_invariant_features(clouds_of(cloud)), rigid_invariant_features(clouds_of(flat)), atol=1e-5, rtol=0
        )
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_finite_is_an_error_as_without_the_kernel(kernel: None, odd: float) -> None:
    cloud = blob(100)
    cloud[50, 1] = odd
    with pytest.raises(ValueError, match="finite"):
        rigid_invariant_features(clouds_of(cloud))


def test_all_equal_points(kernel: None) -> None:
    for count in (30, 3000):
        assert (rigid_invariant_features(torch.ones(1, count, 3)) == 0).all()


def test_float64_and_gradients_go_on_as_before(kernel: None) -> None:
    cloud = torch.from_numpy(blob(60).astype(np.float64))[None]
    assert (
        torch.equal(rigid_invariant_features(cloud), by_torch(cloud))
        and rigid_invariant_features(cloud).dtype == torch.float64
    )
    leaf = clouds_of(blob(60)).requires_grad_()
    assert not rigid_invariant_features(leaf).requires_grad
    net = GmrNet(GmrConfig(k=8, local=(16, 32), head=(24, 16), components=6))
    net(net.features(leaf)).square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and nothing loaded."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    rri.library.cache_clear()
    yield tmp_path
    rri.library.cache_clear()


@pytest.mark.parametrize("instructions", [(), ("avx2", "fma3", "bmi2")])
def test_processors_with_fewer_instructions(
    kernel: None, bare: Path, monkeypatch: pytest.MonkeyPatch, instructions: tuple[str, ...]
) -> None:
    has = torch.cpu.get_capabilities()
    if not all(has.get(name) for name in instructions):
        pytest.skip(f"this processor has not all of {', '.join(instructions)}")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(instructions, True))
    assert implementation("cpu", 20) == "native"
    for n, k in ((17, 16), (300, 64), (1000, 20), (5000, 20)):
        assert_same(clouds_of(blob(n, k)), k)
    twice = np.concatenate([blob(200), blob(200)])
    ours, theirs = (
        sorted_blocks(f, 20) for f in (rigid_invariant_features(clouds_of(twice)), by_torch(clouds_of(twice)))
    )
    torch.testing.assert_close(ours[..., :2, :], theirs[..., :2, :], atol=1e-5, rtol=0)


# Where it cannot be had


def assert_torch_answers() -> None:
    cloud = clouds_of(blob(100))
    assert rigid_invariant_features(cloud).shape == (1, 100, 80) and implementation("cpu", 20) == "torch"
    method = DeepGMR(untrained=True)
    method.begin(0)
    method.setup("cpu", 0, "shapes40")
    assert method.scratch.notes["features"] == "torch"
    result = method.register(blob(100), (blob(100) @ pose(1)[:3, :3].T + pose(1)[:3, 3]).astype(np.float32))
    np.testing.assert_allclose(result, pose(1), atol=2e-3)


def test_without_a_compiler_torch_answers_and_says_so(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(Unavailable, match=r"no g\+\+; install it"):
        rri.build_kernel()
    assert_torch_answers()
    assert not [f for f in bare.iterdir() if f.is_dir()]


def test_a_compiler_that_fails_breaks_nothing_and_leaves_nothing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: "/usr/bin/g++")
    refused = subprocess.CompletedProcess([], 1, "", "a warning\nerror: no such option")
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(Unavailable, match=r"g\+\+ cannot compile rri\.cc: error: no such option; fix the compiler for"):
        rri.build_kernel()
    assert_torch_answers()
    assert [f.suffix for f in bare.iterdir()] == [".lock"]


def test_a_cache_that_cannot_be_written_or_loaded_breaks_nothing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "file").write_text("")
    monkeypatch.setattr(build.shutil, "which", lambda name: "/usr/bin/g++")
    monkeypatch.setenv("BENCH_CACHE", str(bare / "file" / "below"))
    with pytest.raises(Unavailable, match=r"cannot be written.*set BENCH_CACHE"):
        rri.build_kernel()
    monkeypatch.setenv("BENCH_CACHE", str(bare))
    monkeypatch.setattr(build, "build", lambda *_: bare / "file")  # not a library
    assert_torch_answers()


def test_what_is_built_needs_no_compiler(kernel: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rri.library.cache_clear()
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    assert implementation("cpu", 20) == "native"


def test_the_features_are_noted(kernel: None) -> None:
    method = DeepGMR(untrained=True)
    method.begin(0)
    method.setup("cpu", 0, "shapes40")
    assert method.scratch.notes["features"] == "native"


@pytest.mark.parametrize("n", [21, 300])
def test_the_radius_of_a_tree_is_that_of_its_points_alone(
    kernel: None, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """Numbers after the planes, which the kernel may read, do not count."""
    loaded = rri.library()
    assert loaded is not None
    filled = SimpleNamespace(float32=np.float32, int32=np.int32, empty=lambda size, dtype: np.full(size, 1e6, dtype))
    monkeypatch.setattr(rri, "np", filled)
    cloud = blob(n, 2) - blob(n, 2).mean(axis=0)
    tree = rri.Tree(loaded, torch.from_numpy(cloud))
    assert tree.radius == pytest.approx(np.linalg.norm(cloud, axis=1).max(), rel=1e-5)
    for radius, allowed in ((1e-12, True), (1e15, True), (0.9e-12, False), (1.1e15, False), (np.nan, False)):
        tree.radius = radius
        assert tree.in_range == allowed
