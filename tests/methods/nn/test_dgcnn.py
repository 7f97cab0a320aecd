"""Edge convolutions against their definition."""

from __future__ import annotations

import torch

from methods.nn.dgcnn import Dgcnn, EdgeConv, nearest, rows_of
from methods.nn.pointnet import PointNet
from tests.methods.clouds import tensor_pair


def test_nearest_is_brute_force() -> None:
    x, _ = tensor_pair(50)
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
    for layer_function in (lambda y: layer(y.flatten(0, 1), rows_of(index)), lambda y: by_edges(layer, y, index)):
        y = x.clone().requires_grad_()
        value = (layer_function(y) * weight).sum()
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


def test_layers_before_a_batch_norm_have_no_bias_which_it_would_remove() -> None:
    for network in (Dgcnn((8, 12), 16), PointNet(3, (8, 12), (10,), 5)):
        biased = [m for m in network.modules() if isinstance(m, torch.nn.Linear) and m.bias is not None]
        norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm1d)]
        assert len(norms) >= 3 and len(biased) == isinstance(network, PointNet), "the last layer has no norm"
