"""DCP: its layers against their definitions, the head against SciPy, the method by its properties with a tiny weight file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from bench.conformance.checks import CHECKS
from common.errors import InputError
from methods.base import NoSolution, Unavailable
from methods.dcp import Dcp, DcpSmall, DcpSmallEuler45
from methods.learned import training
from methods.learned.weights import Card, choose, save
from methods.nn.dcp import DcpConfig, DcpNet
from methods.nn.dgcnn import EdgeConv, nearest, rows_of
from methods.nn.matching import motion_loss, pose_of_matches, scores_of
from methods.nn.transformer import Attention, Transformer
from tests.catalog import build
from tests.methods.made import pose

TINY = DcpConfig(k=5, widths=(8, 12), features=16, heads=2, inner=24)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def told(sampler: str = "axis_angle", dataset: str = "shapes40") -> dict[str, Any]:
    every = ["bed", "cup"]
    return {
        "dataset": dataset,
        "condition": "noisy",
        "sampler": sampler,
        "categories": every,
        "dataset_categories": every,
    }


def write(file: Path, net: torch.nn.Module, method: str, **provenance: Any) -> Path:
    """A weight file of an untrained network."""
    save(file, net.state_dict(), Card(method, asdict(net.config), told(**provenance)))  # type: ignore[call-overload]
    return file


def clouds(n: int = 40, m: int = 40, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, 3, generator=draw) * 0.4, torch.randn(2, m, 3, generator=draw) * 0.4


# Layers


def test_nearest_is_brute_force() -> None:
    x, _ = clouds(50)
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.equal(nearest(x, 6), distances.topk(6, largest=False).indices)
    assert nearest(x, 1).shape == (2, 50, 1)


def by_edges(layer: EdgeConv, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The layer from its definition, edge by edge: x (B, N, C), index (B, N, k)."""
    beside = torch.stack([cloud[rows] for cloud, rows in zip(x, index, strict=True)])
    edges = layer.centre(x)[:, :, None] + layer.edge(beside - x[:, :, None])
    return torch.relu(layer.norm(edges.amax(dim=2).flatten(0, 1)))


def test_edge_convolution_is_its_definition_with_its_gradient() -> None:
    x = torch.randn(2, 30, 4, dtype=torch.float64)
    index = nearest(x[..., :3], 6)
    layer = EdgeConv(4, 7).double()
    weight = torch.randn(60, 7, dtype=torch.float64)
    grads = []
    for made in (lambda y: layer(y.flatten(0, 1), rows_of(index)), lambda y: by_edges(layer, y, index)):
        y = x.clone().requires_grad_()
        value = (made(y) * weight).sum()
        grads.append((value.detach(), *torch.autograd.grad(value, [y, *layer.parameters()])))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


def test_a_norm_after_the_maximum_is_one_before_it_where_its_scale_is_positive() -> None:
    x = torch.randn(1, 20, 3)
    index, layer = nearest(x, 4), EdgeConv(3, 5).eval()
    torch.nn.init.uniform_(layer.norm.weight, 0.1, 2)
    edges = layer.centre(x)[:, :, None] + layer.edge(x[0][index] - x[:, :, None])
    before = torch.relu(layer.norm(edges.flatten(0, 2))).view(1, 20, 4, 5).amax(dim=2)
    torch.testing.assert_close(layer(x[0], rows_of(index)), before[0])


def test_attention_is_torch_s_and_the_same_in_training() -> None:
    ours, theirs = Attention(16, 4), torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj = ours.out  # type: ignore[assignment]
    x, y = torch.randn(2, 9, 16), torch.randn(2, 13, 16)
    wanted = theirs(x, y, y)[0]
    for mode in (True, False):
        torch.testing.assert_close(ours.train(mode)(x, y), wanted)


def test_the_transformer_follows_the_order_of_one_cloud_and_not_that_of_the_other() -> None:
    block = Transformer(16, 4, 32).eval()
    x, y = torch.randn(1, 9, 16), torch.randn(1, 13, 16)
    order, other = torch.randperm(9), torch.randperm(13)
    torch.testing.assert_close(block(x[:, order], y[:, other]), block(x, y)[:, order], atol=1e-5, rtol=1e-4)


# The head and the loss


@pytest.mark.parametrize("seed", range(3))
def test_hard_matches_give_scipy_s_alignment(seed: int) -> None:
    draw = np.random.default_rng(seed)
    source, target = draw.normal(size=(20, 3)), draw.normal(size=(30, 3))
    match = draw.integers(0, 30, 20)
    share = torch.nn.functional.one_hot(torch.from_numpy(match), 30)[None].double()
    T = pose_of_matches(share, torch.from_numpy(source)[None], torch.from_numpy(target)[None])[0].numpy()
    a, b = source - source.mean(0), target[match] - target[match].mean(0)
    R = Rotation.align_vectors(b, a)[0].as_matrix()
    np.testing.assert_allclose(T[:3, :3], R, atol=1e-9)
    np.testing.assert_allclose(T[:3, 3], target[match].mean(0) - R @ source.mean(0), atol=1e-9)


def test_scores_are_scaled_dot_products_in_float32_under_autocast() -> None:
    x, y = torch.randn(2, 4, 9), torch.randn(2, 5, 9)
    with torch.autocast("cpu", torch.bfloat16):
        found = scores_of(x, y)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.einsum("bnf,bmf->bnm", x, y) / 3)


def test_the_loss_is_the_paper_s() -> None:
    T, truth = pose(0), pose(1)
    by_hand = np.square(T[:3, :3].T @ truth[:3, :3] - np.eye(3)).sum() + np.square(T[:3, 3] - truth[:3, 3]).sum()
    both = [torch.from_numpy(np.stack([T, truth])), torch.from_numpy(np.stack([truth, truth]))]
    assert motion_loss(*both).item() == pytest.approx(by_hand / 2)


def test_gradients_against_finite_differences() -> None:
    """Of the softmax, the matches, the SVD and the loss together."""
    x, y = (c[:1, :7].double() for c in clouds())
    scores = torch.randn(1, 7, 7, dtype=torch.float64, requires_grad=True)
    truth = torch.from_numpy(pose(2))[None]
    assert torch.autograd.gradcheck(lambda s: motion_loss(pose_of_matches(s.softmax(-1), x, y), truth), [scores])


def test_the_gradient_reaches_every_weight() -> None:
    net = DcpNet(TINY)
    source, target = clouds()
    net.loss(
        net.estimate(net.prepare(source, target), source, target), torch.from_numpy(pose(0))[None].expand(2, 4, 4)
    ).backward()
    idle = [name for name, p in net.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert not idle


# The network


def test_order_does_not_matter_and_clouds_may_differ_in_size() -> None:
    net = DcpNet(TINY).eval()
    source, target = clouds(40, 30)

    def found(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return net.estimate(net.prepare(a, b), a, b).T

    first = found(source, target)
    again = found(source[:, torch.randperm(40)], target[:, torch.randperm(30)])
    torch.testing.assert_close(first, again, atol=1e-4, rtol=1e-4)
    same = found(source[:, :30], target)  # of one size both go through the network at once
    split = found(torch.cat([source[:, :30], source[:, :1]], dim=1)[:, :30], target)
    torch.testing.assert_close(same, split)


def test_the_default_sizes_are_the_paper_s() -> None:
    net = Dcp.network()
    shapes = [tuple(m.weight.shape) for m in net.embedding.local.modules() if isinstance(m, torch.nn.Linear)]
    assert shapes[::2] == [(64, 3), (64, 64), (128, 64), (256, 128), (512, 512)] and net.config.k == 20
    assert net.embedding.mutual.decoder.attention.heads == 4
    assert net.embedding.mutual.decoded.layers[1].weight.shape == (1024, 512)
    small = training.build("dcp_small").config
    assert small.features < 512 and small.k < 20 and asdict(small) != asdict(net.config)


def test_a_small_network_learns_one_problem() -> None:
    net = DcpNet(TINY)
    source, _ = clouds(32)
    source = source[:1]
    T = torch.from_numpy(pose(3))[None]
    target = source @ T[:, :3, :3].mT.float() + T[:, None, :3, 3].float()
    prepared, losses = net.prepare(source, target), []
    optimiser = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(40):
        loss = net.loss(net.estimate(prepared, source, target), T)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


# The method and its weights


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> DcpSmall:
    torch.manual_seed(0)
    file = write(tmp_path_factory.mktemp("w") / "w.safetensors", DcpNet(TINY), "dcp_small")
    made = build(f"dcp_small[weights={file}]")
    made.setup("cpu", 0, "shapes40")
    assert isinstance(made, DcpSmall)
    return made


@pytest.mark.parametrize("name", [c for c in CHECKS if c != "known poses"])
def test_conforms_even_untrained(tiny: DcpSmall, name: str) -> None:
    CHECKS[name](tiny)  # raises CheckFailed


def test_the_pose_is_restored_to_the_clouds_as_given(tiny: DcpSmall) -> None:
    """Moving and scaling both clouds moves and scales the answer."""
    pair = [c[0].numpy() - c[0].numpy().mean(0) for c in clouds(60, 60)]
    source, target = (c / max(np.linalg.norm(x, axis=1).max() for x in pair) for c in pair)  # what others are scaled to
    plain = tiny.register(source, target)
    far = tiny.register(100 * source + 7, 100 * target - 30)
    np.testing.assert_allclose(far[:3, :3], plain[:3, :3], atol=1e-2)
    np.testing.assert_allclose(far[:3, 3], 100 * plain[:3, 3] - 30 - far[:3, :3] @ np.full(3, 7.0), atol=1.0)


def test_no_solution_for_few_points(tiny: DcpSmall) -> None:
    with pytest.raises(NoSolution, match="need 5"):
        tiny.register(np.zeros((4, 3), np.float32), np.zeros((9, 3), np.float32))


def test_weights_of_another_size_are_another_method_s(tmp_path: Path) -> None:
    file = write(tmp_path / "w.safetensors", DcpNet(TINY), "dcp_small")
    with pytest.raises(InputError, match="field 'method' is 'dcp_small', not 'dcp'"):
        Dcp.load(file)
    assert DcpSmall.load(file).config == TINY


def test_samplers_are_not_mixed_up(tmp_path: Path) -> None:
    usual = write(tmp_path / "a.safetensors", DcpNet(TINY), "dcp_small")
    with pytest.raises(Unavailable, match=r"train dcp_small .*--sampler euler45"):
        choose("dcp_small", "shapes40", "noisy", tmp_path, DcpSmallEuler45.sampler)
    own = write(tmp_path / "b.safetensors", DcpNet(TINY), "dcp_small", sampler="euler45")
    assert choose("dcp_small", "shapes40", "noisy", tmp_path, DcpSmallEuler45.sampler) == own
    assert choose("dcp_small", "shapes40", "noisy", tmp_path, DcpSmall.sampler) == usual


def test_without_weights_it_is_unavailable_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("methods.learned.base.FOLDER", tmp_path)
    for cls, told in ((Dcp, "train dcp --dataset"), (DcpSmallEuler45, "train dcp_small .*--sampler euler45")):
        with pytest.raises(Unavailable, match=told):
            cls.check_available()


@pytest.mark.parametrize("method", ["dcp_small", "prnet_small", "pointnetlk_small"])
def test_the_loop_trains_it_and_the_method_reads_its_weights(method: str, tmp_path: Path) -> None:
    settings = training.Settings(
        method, steps=2, batch=2, points=(32,), validate_every=2, validation=2, sampler="euler45"
    )
    assert settings.title == f"{method}_euler45_shapes40_noisy"
    file = training.train(settings, tmp_path, tmp_path / "w.safetensors")
    made = build(f"{method}[weights={file}]")
    made.setup("cpu", 0, "shapes40")
    source, target = (c[0].numpy() for c in clouds(50, 60))
    assert made.register(source, target).shape == (4, 4)
